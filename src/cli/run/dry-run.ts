import { EXPECT_DEFAULTS, planOf } from '../../edge/config/plan.js';
import { priceOf, usdOf } from '../../pipelines/budget/prices.js';
import { estimateChat } from '../../pipelines/models/chat-api.js';
import { PromptTemplate } from '../../pipelines/prompt-template.js';
import { explainThroughput, type Throughput } from '../../pipelines/throughput.js';
import { formatTime } from '../explain-text.js';
import { formatCount } from '../format.js';
import { saidBy } from '../provider.js';
import type { Hide } from '../secrets.js';
import { visibleName } from '../visible.js';
import { openRows } from './open-rows.js';
import { partsOf } from './parts.js';
import type { Row } from './row.js';
import type { RunJobOptions } from './run-job.js';
import { RunJournal } from './run-journal.js';
import { type PlannedStage, priceOfModel, type RunPlan } from './run-plan.js';
import { requestOf, scopeOf } from './run-stages.js';
import { formatUsd } from './run-summary.js';

/** What one stage would take. */
export interface StageEstimate {
  readonly stage: string;
  readonly items: number;
  readonly calls: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** Undefined where its model has no price. */
  readonly costUsd: number | undefined;
}

/** What a run would take; `--json` prints it as it is. */
export interface DryRun {
  readonly rows: number;
  /** Rows that could not even be sent, and why the first of them could not. */
  readonly unusable: number;
  readonly firstProblem: string | undefined;
  /** Rows that earlier runs were through with. */
  readonly earlier: number;
  readonly stages: readonly StageEstimate[];
  readonly calls: number;
  readonly tokens: number;
  /** Undefined where a model has no price. */
  readonly costUsd: number | undefined;
  /** The least time it takes, and what bounds it; undefined when there is nothing to do. */
  readonly throughput: Throughput | undefined;
  readonly assumed: readonly string[];
}

/**
 * Reads the whole input and sends nothing: answers are those of earlier runs, chunks are cut, prompts are filled in and estimated where they need no answer of
 * a model; the rest is what the configuration expects.
 *
 * @throws CliError as a run does, for whatever it would find before its first call.
 */
export async function dryRun(plan: RunPlan, { limit, retryFailed }: Pick<RunJobOptions, 'limit' | 'retryFailed'>): Promise<DryRun> {
  const { paths, shownOutput, input, work } = plan;
  const source = await openRows(input);
  const journal = await RunJournal.read({ path: paths.journal, shown: `${shownOutput}.journal`, work, retryFailed });
  const stages = plan.stages.map((stage, i) => new StageTally(stage, plan, i));
  let rows = 0;
  let unusable = 0;
  let earlier = 0;
  let firstProblem: string | undefined;
  try {
    await journal.look();
    for await (const row of source.rows()) {
      if (rows + unusable >= limit) break;
      if (journal.endOf(row) !== undefined) {
        earlier += 1;
        continue;
      }
      const answers = await journal.recall(journal.nameOf(row));
      const known = new Map(answers.map(({ stage, item, value }) => [`${stage} ${item}`, value]));
      const problem = 'problem' in row ? row.problem : problemOf(row, known, stages, plan.shown.hide);
      if (problem === undefined) rows += 1;
      else {
        unusable += 1;
        firstProblem ??= `row ${String(row.number)}: ${problem}`;
      }
    }
  } finally {
    await journal.close();
  }
  const estimates = stages.map((stage) => stage.estimate());
  return {
    rows,
    unusable,
    firstProblem,
    earlier,
    stages: estimates,
    calls: sum(estimates, ({ calls }) => calls),
    tokens: sum(estimates, ({ inputTokens, outputTokens }) => inputTokens + outputTokens),
    costUsd: estimates.some(({ costUsd }) => costUsd === undefined) ? undefined : sum(estimates, ({ costUsd }) => costUsd ?? 0),
    throughput: rows === 0 ? undefined : throughputOf(plan, stages, rows),
    assumed: rows === 0 ? [] : stages.flatMap((stage) => stage.assumed()),
  };
}

/** What it would take, for people. */
export function dryRunText({ rows, unusable, firstProblem, earlier, stages, calls, tokens, costUsd, throughput, assumed }: DryRun): string {
  const failing = unusable === 0 ? '' : `, ${formatCount(unusable)} would fail (${visibleName(firstProblem ?? '')})`;
  const before = earlier === 0 ? '' : `, ${formatCount(earlier)} from earlier runs`;
  return [
    `rows: ${formatCount(rows)} to do${failing}${before}`,
    ...stages.map(
      (stage) =>
        `${stage.stage}: ${formatCount(stage.items)} items, ${formatCount(stage.calls)} calls, ${formatCount(stage.inputTokens)} tokens sent, ${formatCount(stage.outputTokens)} received`,
    ),
    `in all: ${formatCount(calls)} calls, ${formatCount(tokens)} tokens; cost: ${formatUsd(costUsd)}`,
    ...(throughput === undefined ? [] : [timeLine(throughput)]),
    ...assumed.map((text) => `assumed: ${text}`),
    'dry run: nothing was sent, nothing was written',
  ].join('\n');
}

function timeLine({ makespanMs, bottleneck, raise }: Throughput): string {
  const bound = `time: at least ${formatTime(makespanMs)}, bounded by ${bottleneck.setting} (${formatCount(bottleneck.limit)})`;
  return raise === undefined ? bound : `${bound}; with ${formatCount(raise.to)} it would be ${formatTime(raise.makespanMs)}`;
}

/** An item, as far as it is known before anything was asked: how many there are like it, and what is known of them. */
interface Guess {
  readonly count: number;
  /** Which one of its row it is; undefined when there may be several. */
  readonly position: readonly number[] | undefined;
  readonly earlier: Readonly<Record<string, unknown>>;
}

/** Answers of earlier runs to one row, by stage and item. */
type Known = ReadonlyMap<string, unknown>;

/** Counts what one stage would do. */
class StageTally {
  readonly stage: PlannedStage;
  readonly #plan: RunPlan;
  readonly #template: PromptTemplate;
  /** Earlier stages whose answers stand in the prompt, each as often as it does. */
  readonly #answers: readonly string[];
  /** Whether its parts are known without a call. */
  readonly #isKnown: boolean;
  readonly #position: number;
  items = 0;
  #inputTokens = 0;

  constructor(stage: PlannedStage, plan: RunPlan, position: number) {
    const unknown = new Set(plan.stages.slice(0, position).flatMap(({ name, prompt }) => (prompt === undefined ? [] : [name])));
    const named = new PromptTemplate(stage.prompt ?? `{{${stage.chunk?.field ?? ''}}}`).placeholders.map(([first = '']) => first);
    this.stage = stage;
    this.#plan = plan;
    this.#position = position;
    this.#answers = named.filter((name) => unknown.has(name));
    this.#isKnown = stage.chunk !== undefined && this.#answers.length === 0;
    const known = (stage.prompt ?? '').replaceAll(/\{\{([^{}]*)\}\}/g, (all, name: string) =>
      unknown.has(name.split('.')[0]?.trim() ?? '') ? '' : all,
    );
    this.#template = new PromptTemplate(known);
  }

  /** What comes of an item; of one that is known, what came of it. @throws Error when a placeholder has no value */
  add(row: Row, guess: Guess, known: Known): Guess[] {
    const { name, prompt, chunk, answer } = this.stage;
    const { count, position, earlier } = guess;
    const isMany = answer === 'list' || chunk !== undefined;
    const key = `${name} ${position?.join('.') ?? '?'}`;
    if (known.has(key)) {
      const value = known.get(key);
      return isMany ? this.#parts(guess, value as readonly unknown[]) : [{ ...guess, earlier: { ...earlier, [name]: value } }];
    }
    this.items += count;
    if (chunk !== undefined && this.#isKnown) return this.#parts(guess, partsOf(chunk, scopeOf(row.fields, earlier)));
    if (prompt !== undefined) {
      const request = requestOf(this.stage, this.#plan.config.model, this.#template.fill(scopeOf(row.fields, earlier)));
      this.#inputTokens += count * (estimateChat(request).inputTokens + this.#answerTokens());
    }
    return [isMany ? { count: count * this.#listLength(), position: undefined, earlier } : guess];
  }

  get outputTokens(): number {
    return this.stage.expect?.outputTokens ?? this.#plan.config.expect?.outputTokens ?? EXPECT_DEFAULTS.outputTokens;
  }

  get isCall(): boolean {
    return this.stage.prompt !== undefined;
  }

  estimate(): StageEstimate {
    const calls = this.isCall ? this.items : 0;
    const inputTokens = this.#inputTokens;
    const outputTokens = calls * this.outputTokens;
    const price = priceOfModel(this.#plan.config, this.stage.model);
    const ofTokens = price && usdOf(priceOf({ ...price, usdPerCall: 0 }, { inputTokens, outputTokens }));
    const costUsd = !this.isCall ? 0 : ofTokens === undefined ? undefined : ofTokens + calls * (price?.usdPerCall ?? 0);
    return { stage: this.stage.name, items: this.items, calls, inputTokens, outputTokens, costUsd };
  }

  assumed(): string[] {
    const { name, expect, answer } = this.stage;
    const { expect: all } = this.#plan.config;
    if (!this.isCall) return [];
    const next = this.#plan.stages[this.#position + 1];
    const isLong = answer === 'list' && next !== undefined && next.expect?.itemsPerDocument === undefined;
    return [
      ...((expect?.secondsPerCall ?? all?.secondsPerCall) === undefined
        ? [`a call of \`${name}\` takes ${String(EXPECT_DEFAULTS.secondsPerCall)} s (\`expect.secondsPerCall\`)`]
        : []),
      ...((expect?.outputTokens ?? all?.outputTokens) === undefined
        ? [`an answer of \`${name}\` has ${String(EXPECT_DEFAULTS.outputTokens)} tokens (\`expect.outputTokens\`)`]
        : []),
      ...(isLong
        ? [
            `a list of \`${name}\` has ${String(EXPECT_DEFAULTS.itemsPerDocument)} elements (\`expect.itemsPerDocument\` of \`${next.name}\`)`,
          ]
        : []),
    ];
  }

  #parts({ count, position, earlier }: Guess, parts: readonly unknown[]): Guess[] {
    return parts.map((part, i) => ({ count, position: position && [...position, i], earlier: { ...earlier, [this.stage.name]: part } }));
  }

  #answerTokens(): number {
    return sum(this.#answers, (name) => {
      const { expect } = this.#plan.stages.find((stage) => stage.name === name) ?? {};
      return expect?.outputTokens ?? this.#plan.config.expect?.outputTokens ?? EXPECT_DEFAULTS.outputTokens;
    });
  }

  /** What the next stage expects of each document, as far as those before have not said it. */
  #listLength(): number {
    const { stages } = this.#plan;
    const expected = stages[this.#position + 1]?.expect?.itemsPerDocument;
    if (expected === undefined) return EXPECT_DEFAULTS.itemsPerDocument;
    const own = this.stage.expect?.itemsPerDocument ?? 1;
    return own === 0 ? 0 : expected / own;
  }
}

/** Takes a row through all stages; says why that cannot be done. */
function problemOf(row: Row, known: Known, stages: readonly StageTally[], hide: Hide): string | undefined {
  let guesses: readonly Guess[] = [{ count: 1, position: [], earlier: {} }];
  try {
    for (const stage of stages) guesses = guesses.flatMap((guess) => stage.add(row, guess, known));
    return undefined;
  } catch (error) {
    return saidBy(error, hide);
  }
}

/** With what was found out in place of what is expected. */
function throughputOf({ config }: RunPlan, tallies: readonly StageTally[], documents: number): Throughput {
  const stages = tallies.map((tally) => {
    const { calls, inputTokens } = tally.estimate();
    const found = { itemsPerDocument: tally.items / documents, ...(calls > 0 && { inputTokens: inputTokens / calls }) };
    return { ...tally.stage, expect: { ...tally.stage.expect, ...found } };
  });
  return explainThroughput(planOf({ ...config, stages }, { documents }).plan);
}

function sum<T>(all: readonly T[], amount: (item: T) => number): number {
  return all.reduce((total, item) => total + amount(item), 0);
}
