import type { Observable, SchedulerLike } from 'rxjs';
import { isObservable } from 'rxjs';
import { check } from '../../../operators/build.js';
import type { Classify, Cost, FlowSink, Limiter } from '../../../operators/index.js';
import { classifyError, FlowConfigError } from '../../../operators/index.js';
import { retryOf } from '../../retry.js';
import { STAGES_DEFAULTS } from '../defaults.js';
import type { AnyStage, BatchRules, StageJournal, StagesOptions, StepsContext } from './stages-types.js';

/** What the pipeline calls itself in errors and events. */
export const NAME = 'createStages';

type Work = (item: unknown, context: never) => unknown;

/** A limit, or what it is until the first value of what changes it. */
export interface Concurrency {
  readonly first: number;
  readonly changes: Observable<number> | undefined;
}

/** One stage, checked and with its defaults. */
export interface StageConfig {
  readonly name: string;
  readonly work: Work | undefined;
  readonly steps: ((item: unknown, context: StepsContext) => unknown) | undefined;
  readonly expands: boolean;
  readonly concurrency: Concurrency;
  readonly scope: 'shared' | 'perBatch';
  readonly timeoutMs: number;
  readonly deadlineMs: number;
  readonly allowPartialFailure: boolean;
  readonly retry: ReturnType<typeof check.retries>;
  readonly cost: Cost | ((item: never) => Cost) | undefined;
  readonly local: boolean;
}

/** All options, checked and with their defaults. */
export interface StagesConfig {
  readonly stages: readonly StageConfig[];
  readonly documents: Concurrency;
  readonly scheduling: 'fair' | 'priority' | 'roundRobin';
  readonly priority: ((document: unknown) => number) | undefined;
  readonly maxQueued: number;
  readonly limiter: Limiter | undefined;
  readonly lane: string | undefined;
  readonly journal: StageJournal | undefined;
  readonly id: ((document: unknown) => string) | undefined;
  readonly classify: Classify;
  readonly onEvent: FlowSink | undefined;
  readonly name: string | undefined;
  readonly scheduler: SchedulerLike;
  readonly random: () => number;
}

/** @throws FlowConfigError */
export function stagesConfig(stages: readonly AnyStage[], options: StagesOptions<unknown>): StagesConfig {
  if (!Array.isArray(stages) || stages.length === 0) throw new FlowConfigError(NAME, 'stages', 'a list of at least one stage', stages);
  const { batches, ...read } = check.options(NAME, options, { batches: {}, classify: classifyError, random: Math.random } as const, {
    batches: check.unchecked,
    limiter: check.limiter,
    lane: check.unchecked,
    journal: journalOption,
    id: check.callback,
    classify: check.requiredFunction,
    onEvent: check.listener,
    name: (operator, option, name: string | undefined) => (name === undefined ? name : check.nonEmpty(operator, option, name)),
    scheduler: check.scheduler,
    random: check.requiredFunction,
  });
  if (read.limiter === undefined) check.needs(NAME, 'lane', read.lane, '`limiter`');
  check.lane(NAME, 'lane', read.lane, read.limiter);
  return {
    ...read,
    ...batchesOption(NAME, 'batches', batches),
    stages: (stages as readonly AnyStage[]).map((stage, i) => stageConfig(stage, `stages[${String(i)}]`, stages, read.limiter)),
  };
}

const UNITS: readonly string[] = ['slots', 'requests', 'tokens', 'inputTokens', 'outputTokens'];

/** What a request takes from the limiter. @throws FlowConfigError */
export function costOption(option: string, cost: Cost | undefined, limiter: Limiter | undefined): Cost {
  if (cost === undefined) return {};
  if (typeof cost !== 'object' || (cost as unknown) === null) throw new FlowConfigError(NAME, option, 'an object', cost);
  const unknown = Object.entries(cost).filter(([unit]) => !UNITS.includes(unit) && !isCounted(unit, limiter));
  check.onlyKnown(NAME, Object.fromEntries(unknown), UNITS, 'cost', `${option}.`);
  for (const [unit, amount] of Object.entries(cost)) {
    if (amount !== undefined && (!check.isAmount(amount) || amount === Infinity))
      throw new FlowConfigError(NAME, `${option}.${unit}`, 'a finite number >= 0', amount);
  }
  return cost;
}

/** Whether a rate of the limiter, or of one above it, counts the unit. */
function isCounted(unit: string, limiter: Limiter | undefined): boolean {
  try {
    return limiter?.acquire({ cost: { [unit]: 0 } }) !== undefined;
  } catch {
    return false;
  }
}

function batchesOption(operator: string, option: string, batches: BatchRules<unknown>) {
  const within = `${option}.`;
  const read = check.options(
    operator,
    batches,
    { concurrency: STAGES_DEFAULTS.documents, scheduling: 'fair' } as const,
    {
      concurrency: check.concurrency,
      scheduling: check.oneOf('fair', 'priority', 'roundRobin'),
      priority: check.callback,
      maxQueued: (_operator, name, value: number | undefined) => (value === undefined ? value : check.countFromZero(NAME, name, value)),
    },
    within,
  );
  const { concurrency, scheduling, priority, maxQueued } = read;
  const documents = concurrencyOf(concurrency, STAGES_DEFAULTS.documents);
  const isByPriority = scheduling === 'priority';
  if (isByPriority) check.requiredFunction(operator, `${within}priority`, priority);
  for (const [name, value] of Object.entries({ priority, maxQueued })) {
    if (!isByPriority) check.needs(operator, within + name, value, "`scheduling: 'priority'`");
  }
  return { documents, scheduling, priority, maxQueued: isByPriority ? check.orDefault(maxQueued, STAGES_DEFAULTS.maxQueued) : 0 };
}

function stageConfig(given: AnyStage, at: string, all: readonly AnyStage[], limiter: Limiter | undefined): StageConfig {
  const defaults = {
    expands: false,
    concurrency: Infinity,
    scope: 'shared',
    timeoutMs: STAGES_DEFAULTS.timeoutMs,
    deadlineMs: Infinity,
    allowPartialFailure: false,
    local: false,
  } as const;
  const stage = check.options(
    NAME,
    given as Omit<AnyStage, 'work' | 'steps'> & { readonly work?: Work | undefined; readonly steps?: Work | undefined },
    defaults,
    {
      name: check.nonEmpty,
      work: check.callback,
      steps: check.callback,
      expands: check.flag,
      concurrency: check.concurrency,
      scope: check.oneOf('shared', 'perBatch'),
      timeoutMs: check.positive,
      deadlineMs: check.positive,
      allowPartialFailure: check.flag,
      retry: check.unchecked,
      cost: (_operator, option, cost: StageConfig['cost']) => {
        if (typeof cost !== 'function') costOption(option, cost, limiter);
        return cost;
      },
      local: check.flag,
    },
    `${at}.`,
  );
  const { name, work, steps, cost, local } = stage;
  if (work === undefined && steps === undefined) check.requiredFunction(NAME, `${at}.work`, work);
  if (work !== undefined && steps !== undefined) check.excludes(NAME, `${at}.steps`, steps, '`work`');
  if (local) check.excludes(NAME, `${at}.cost`, cost, '`local`', 'Remove one of them: a local stage makes no requests.');
  if (all.find((other) => other.name === name) !== given)
    throw check.misused(NAME, `${at}.name`, `two stages are called \`${name}\``, 'Rename one of them.');
  // How many there are at a time is bounded by slots, and a queue has no use for a quick refusal.
  const own = typeof cost === 'object' ? { ...cost } : cost;
  const concurrency = concurrencyOf(stage.concurrency, Infinity);
  return {
    ...(stage as Omit<StageConfig, 'retry' | 'concurrency'>),
    concurrency,
    cost: own,
    retry: retryOf(NAME, given.retry, Infinity, `${at}.retry`),
  };
}

function concurrencyOf(given: number | Observable<number>, fallback: number): Concurrency {
  return isObservable(given) ? { first: fallback, changes: given } : { first: given, changes: undefined };
}

function journalOption(operator: string, option: string, journal: StageJournal | undefined): StageJournal | undefined {
  if (journal === undefined) return journal;
  const { recall, append } = Object(journal) as Partial<StageJournal>;
  if (typeof recall === 'function' && typeof append === 'function') return journal;
  throw new FlowConfigError(operator, option, 'an object with `recall` and `append`', journal);
}
