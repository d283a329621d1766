import { EXPECT_DEFAULTS, planOf } from '../../edge/config/plan.js';
import { priceOf, usdOf } from '../../pipelines/budget/prices.js';
import { estimateChat } from '../../pipelines/models/chat-api.js';
import { PromptTemplate } from '../../pipelines/prompt-template.js';
import { explainThroughput, type Throughput } from '../../pipelines/throughput.js';
import { formatTime } from '../explain-text.js';
import { counted, formatCount, formatRate } from '../format.js';
import { saidBy } from '../provider.js';
import type { Hide } from '../secrets.js';
import { visibleName } from '../visible.js';
import { checkCache, readState } from './check-run.js';
import { openRows } from './open-rows.js';
import { partsOf } from './parts.js';
import { fieldPlaceholders, lackOfRow, placeholdersOf } from './placeholders.js';
import type { Row } from './row.js';
import { type BudgetState, budgetStates, openBudget } from './run-budget.js';
import type { RunJobOptions } from './run-job.js';
import { type PlannedStage, priceOfModel, type RunPlan } from './run-plan.js';
import { requestOf, scopeOf } from './run-stages.js';
import { amountText, formatUsd } from './run-summary.js';
import { changeNote } from './stage-change.js';

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

/** How many of the rows that are to do can be paid with what is left of a limit, about. */
export interface LimitReach extends BudgetState {
  /** Undefined where it is not known what a row costs. */
  readonly rows: number | undefined;
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
  /** How far each limit in USD or tokens reaches. */
  readonly reach: readonly LimitReach[];
  readonly assumed: readonly string[];
  readonly notes: readonly string[];
}

type DryRunOptions = Pick<RunJobOptions, 'limit' | 'retryFailed'> & { readonly maxUsd?: number | undefined };

/**
 * Reads the whole input and sends nothing: answers are those of earlier runs, chunks are cut, prompts are filled in and estimated where they need no answer of
 * a model; the rest is what the configuration expects.
 *
 * @throws CliError as a run does, for whatever it would find before its first call.
 */
export async function dryRun(plan: RunPlan, { limit, retryFailed, maxUsd }: DryRunOptions): Promise<DryRun> {
  const { shownOutput, input } = plan;
  const source = await openRows(input);
  const journal = await readState(plan, { retryFailed, maxUsd });
  await checkCache(plan);
  const stages = plan.stages.map((stage, i) => new StageTally(stage, plan, i));
  const placeholders = fieldPlaceholders(plan.stages);
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
      const problem =
        'problem' in row ? row.problem : (lackOfRow(placeholders, row.fields)?.error ?? addRow(row, known, stages, plan.shown.hide));
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
  const costUsd = estimates.some((one) => one.costUsd === undefined) ? undefined : sum(estimates, (one) => one.costUsd ?? 0);
  const tokens = sum(estimates, ({ inputTokens, outputTokens }) => inputTokens + outputTokens);
  const budget = openBudget(plan, maxUsd);
  return {
    rows,
    unusable,
    firstProblem,
    earlier,
    stages: estimates,
    calls: sum(estimates, ({ calls }) => calls),
    tokens,
    costUsd,
    throughput: rows === 0 ? undefined : throughputOf(plan, stages, rows),
    reach: budget === undefined ? [] : budgetStates(budget, maxUsd).map((state) => reachOf(state, rows, { usd: costUsd, tokens })),
    assumed: rows === 0 ? [] : stages.flatMap((stage) => stage.assumed()),
    notes: [
      ...(journal.change === undefined ? [] : [changeNote(journal.change, shownOutput)]),
      ...(rows + unusable + earlier === 0 ? ['the input has no rows'] : []),
    ],
  };
}

function reachOf(state: BudgetState, rows: number, whole: { readonly usd: number | undefined; readonly tokens: number }): LimitReach {
  const amount = whole[state.unit];
  return { ...state, rows: amount === undefined || amount === 0 ? undefined : Math.min(rows, Math.floor((state.left / amount) * rows)) };
}

/** What it would take, for people. */
export function dryRunText({
  rows,
  unusable,
  firstProblem,
  earlier,
  stages,
  calls,
  tokens,
  costUsd,
  throughput,
  reach,
  assumed,
  notes,
}: DryRun): string {
  const failing = unusable === 0 ? '' : `, ${formatCount(unusable)} would fail (${visibleName(firstProblem ?? '')})`;
  const before = earlier === 0 ? '' : `, ${formatCount(earlier)} from earlier runs`;
  return [
    ...notes.map((note) => `note: ${visibleName(note)}`),
    `rows: ${formatCount(rows)} to do${failing}${before}`,
    ...stages.map(
      (stage) =>
        `${stage.stage}: ${counted(stage.items, 'item')}, ${counted(stage.calls, 'call')}, ${counted(stage.inputTokens, 'token')} sent, ${formatCount(stage.outputTokens)} received`,
    ),
    `in all: ${counted(calls, 'call')}, ${counted(tokens, 'token')}; cost: ${formatUsd(costUsd)}`,
    ...reach.map((limit) => reachLine(limit, rows)),
    ...(throughput === undefined ? [] : [timeLine(throughput)]),
    ...assumed.map((text) => `assumed: ${text}`),
    'dry run: nothing was sent, nothing was written',
  ].join('\n');
}

function reachLine({ name, unit, limit, left, windowMs, rows: reached }: LimitReach, rows: number): string {
  const [leftText, limitText] = [amountText(left, unit), amountText(limit, unit)];
  const within = windowMs === undefined ? '' : ` in each ${formatTime(windowMs)}`;
  const far =
    reached === undefined
      ? ''
      : reached >= rows
        ? ', enough for all rows'
        : `, enough for about ${formatCount(reached)} of ${counted(rows, 'row')}`;
  return `limit \`${name}\`: ${leftText} of ${limitText}${within} left${far}`;
}

function timeLine({ makespanMs, bottleneck, raise }: Throughput): string {
  const bound = `time: at least ${formatTime(makespanMs)}, bounded by \`${bottleneck.setting}\` (${formatRate(bottleneck.limit)})`;
  if (raise === undefined) return bound;
  return `${bound}; with \`${raise.setting}\` at ${formatRate(raise.to)} in place of ${formatRate(raise.from)} it would be ${formatTime(raise.makespanMs)}`;
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

/** What one row adds to a stage. */
interface StageDraft {
  items: number;
  inputTokens: number;
}

/** Counts what one stage would do. */
class StageTally {
  readonly stage: PlannedStage;
  readonly #plan: RunPlan;
  /** Earlier stages whose answers are known once a model was asked, as often as they are named. */
  readonly #answers: readonly string[];
  /** Of the prompt, by which of those answers it is without. */
  readonly #templates = new Map<string, PromptTemplate>();
  readonly #position: number;
  items = 0;
  #inputTokens = 0;

  constructor(stage: PlannedStage, plan: RunPlan, position: number) {
    const unknown = askedFor(plan.stages.slice(0, position));
    this.stage = stage;
    this.#plan = plan;
    this.#position = position;
    this.#answers = placeholdersOf(stage).flatMap(([first = '']) => (unknown.has(first) ? [first] : []));
  }

  /** What comes of an item; of one that is known, what came of it. @throws Error when a placeholder has no value */
  add(row: Row, guess: Guess, known: Known, draft: StageDraft): Guess[] {
    const { name, prompt, chunk, answer } = this.stage;
    const { count, position, earlier } = guess;
    const isMany = answer === 'list' || chunk !== undefined;
    const key = `${name} ${position?.join('.') ?? '?'}`;
    if (known.has(key)) {
      const value = known.get(key);
      return isMany ? this.#parts(guess, value as readonly unknown[]) : [{ ...guess, earlier: { ...earlier, [name]: value } }];
    }
    const scope = scopeOf(row.fields, earlier);
    const missing = this.#answers.filter((answered) => !Object.hasOwn(earlier, answered));
    if (chunk !== undefined && missing.length === 0) {
      const parts = this.#parts(guess, partsOf(chunk, scope));
      draft.items += count;
      return parts;
    }
    if (prompt !== undefined) {
      const request = requestOf(this.stage, this.#plan.config.model, this.#template(prompt, missing).fill(scope));
      const answers = sum(missing, (answered) => answerTokens(this.#plan, answered));
      draft.inputTokens += count * (estimateChat(request).inputTokens + answers);
    }
    draft.items += count;
    return [isMany ? { count: count * listLength(this.#plan, this.#position), position: undefined, earlier } : guess];
  }

  /** A row that would be sent. */
  take({ items, inputTokens }: StageDraft): void {
    this.items += items;
    this.#inputTokens += inputTokens;
  }

  get outputTokens(): number {
    return outputTokens(this.#plan, this.stage);
  }

  get isCall(): boolean {
    return this.stage.prompt !== undefined;
  }

  estimate(): StageEstimate {
    const calls = this.isCall ? this.items : 0;
    const inputTokens = Math.round(this.#inputTokens);
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
        ? [`an answer of \`${name}\` has ${counted(assumedOutputTokens(this.#plan.config, this.stage), 'token')} (\`expect.outputTokens\`)`]
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

  /** The prompt without answers that are still to come. */
  #template(prompt: string, missing: readonly string[]): PromptTemplate {
    const key = missing.join(' ');
    const template = this.#templates.get(key) ?? new PromptTemplate(without(prompt, missing));
    this.#templates.set(key, template);
    return template;
  }
}

function without(prompt: string, missing: readonly string[]): string {
  return prompt.replaceAll(/\{\{([^{}]*)\}\}/g, (all, name: string) => (missing.includes(name.split('.')[0]?.trim() ?? '') ? '' : all));
}

/** Stages of whose answers nothing is known before a model was asked. */
function askedFor(stages: readonly PlannedStage[]): ReadonlySet<string> {
  const unknown = new Set<string>();
  for (const stage of stages) if (stage.prompt !== undefined || unknown.has(placeholdersOf(stage)[0]?.[0] ?? '')) unknown.add(stage.name);
  return unknown;
}

function outputTokens({ config }: RunPlan, stage: PlannedStage | undefined): number {
  return stage?.expect?.outputTokens ?? config.expect?.outputTokens ?? assumedOutputTokens(config, stage);
}

/** No answer is longer than it may be. */
function assumedOutputTokens({ model }: RunPlan['config'], stage: PlannedStage | undefined): number {
  return Math.min(EXPECT_DEFAULTS.outputTokens, stage?.maxTokens ?? model?.maxTokens ?? Infinity);
}

/** Of what a later stage is told: the answer, or one of its parts. */
function answerTokens(plan: RunPlan, name: string): number {
  const position = plan.stages.findIndex((stage) => stage.name === name);
  const stage = plan.stages[position];
  const isMany = stage?.answer === 'list' || stage?.chunk !== undefined;
  const whole = stage?.chunk === undefined ? outputTokens(plan, stage) : answerTokens(plan, placeholdersOf(stage)[0]?.[0] ?? '');
  return isMany ? whole / Math.max(1, listLength(plan, position)) : whole;
}

/** What the next stage expects of each document, as far as those before have not said it. */
function listLength({ stages }: RunPlan, position: number): number {
  const expected = stages[position + 1]?.expect?.itemsPerDocument;
  if (expected === undefined) return EXPECT_DEFAULTS.itemsPerDocument;
  const own = stages[position]?.expect?.itemsPerDocument ?? 1;
  return own === 0 ? 0 : expected / own;
}

/** Takes a row through all stages; says why that cannot be done, and counts nothing of it then. */
function addRow(row: Row, known: Known, stages: readonly StageTally[], hide: Hide): string | undefined {
  const drafts = stages.map((): StageDraft => ({ items: 0, inputTokens: 0 }));
  let guesses: readonly Guess[] = [{ count: 1, position: [], earlier: {} }];
  let problem: string | undefined;
  for (const [i, stage] of stages.entries()) {
    const next: Guess[] = [];
    for (const guess of guesses)
      try {
        next.push(...stage.add(row, guess, known, drafts[i] as StageDraft));
      } catch (error) {
        problem ??= saidBy(error, hide);
        if (stage.stage.allowPartialFailure !== true) return problem;
      }
    guesses = next;
  }
  if (problem !== undefined && guesses.length === 0) return problem;
  for (const [i, stage] of stages.entries()) stage.take(drafts[i] as StageDraft);
  return undefined;
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
