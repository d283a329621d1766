import type { SchedulerLike } from 'rxjs';
import { classifyError } from '../../../operators/classify-error.js';
import { FlowConfigError } from '../../../operators/errors.js';
import type { RepairRule } from '../../../operators/repair.js';
import {
  callback,
  checked,
  count,
  countFromZero,
  flag,
  isAmount,
  laneOption,
  limiterOption,
  listener,
  nonEmpty,
  oneOf,
  orDefault,
  positive,
  requiredFunction,
  schedulerOption,
  unchecked,
} from '../../../operators/toolkit.js';
import type { Classify, Cost, FlowSink, Limiter } from '../../../operators/types.js';
import { retryOf } from '../../retry.js';
import type { AnyStage, BatchRules, StageJournal, StagesOptions, StepsContext } from './stages-types.js';

/** What the pipeline calls itself in errors and events. */
export const NAME = 'createStages';

/** What {@link createStages} does when an option is left out. */
export const STAGES_DEFAULTS = {
  documents: 4,
  maxQueued: 100,
  timeoutMs: 120_000,
} as const;

type Work = (item: unknown, context: never) => unknown;

/** One stage, checked and with its defaults. */
export interface StageConfig {
  readonly name: string;
  readonly work: Work | undefined;
  readonly steps: ((item: unknown, context: StepsContext) => unknown) | undefined;
  readonly expands: boolean;
  readonly concurrency: number;
  readonly scope: 'shared' | 'perBatch';
  readonly timeoutMs: number;
  readonly deadlineMs: number;
  readonly allowPartialFailure: boolean;
  readonly retry: RepairRule | undefined;
  readonly cost: Cost | ((item: never) => Cost) | undefined;
  readonly local: boolean;
}

/** All options, checked and with their defaults. */
export interface StagesConfig {
  readonly stages: readonly StageConfig[];
  readonly documents: number;
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
export function stagesConfig(options: StagesOptions<unknown>): StagesConfig {
  const { batches, stages, ...read } = checked(NAME, options, { batches: {}, classify: classifyError, random: Math.random } as const, {
    stages: stagesOption,
    batches: unchecked,
    limiter: (operator, _option, limiter: Limiter | undefined) => limiterOption(operator, limiter),
    lane: unchecked,
    journal: journalOption,
    id: callback,
    classify: requiredFunction,
    onEvent: listener,
    name: (operator, option, name: string | undefined) => (name === undefined ? name : nonEmpty(operator, option, name)),
    scheduler: schedulerOption,
    random: requiredFunction,
  });
  if (read.lane !== undefined && read.limiter === undefined)
    throw new FlowConfigError(NAME, 'lane', 'absent without a `limiter`', read.lane);
  laneOption(NAME, read.lane, read.limiter);
  return {
    ...read,
    ...batchesOption(NAME, 'batches', batches),
    stages: stages.map((stage, i) => stageConfig(stage, `stages[${String(i)}]`, stages)),
  };
}

/** What a request takes. @throws FlowConfigError */
export function costOption(option: string, cost: Cost | undefined): Cost {
  if (cost === undefined) return {};
  if (typeof cost !== 'object' || (cost as unknown) === null) throw new FlowConfigError(NAME, option, 'an object', cost);
  for (const [unit, amount] of Object.entries(cost)) {
    if (amount !== undefined && (!isAmount(amount) || amount === Infinity))
      throw new FlowConfigError(NAME, `${option}.${unit}`, 'a finite number >= 0', amount);
  }
  return cost;
}

function stagesOption(operator: string, option: string, stages: readonly AnyStage[]): readonly AnyStage[] {
  if (Array.isArray(stages) && stages.length > 0) return stages as readonly AnyStage[];
  throw new FlowConfigError(operator, option, 'a list of at least one stage', stages);
}

function batchesOption(operator: string, option: string, batches: BatchRules<unknown>) {
  const within = `${option}.`;
  const read = checked(
    operator,
    batches,
    { concurrency: STAGES_DEFAULTS.documents, scheduling: 'fair' } as const,
    {
      concurrency: count,
      scheduling: oneOf('fair', 'priority', 'roundRobin'),
      priority: callback,
      maxQueued: (_operator, name, value: number | undefined) => (value === undefined ? value : countFromZero(NAME, name, value)),
    },
    within,
  );
  const { concurrency: documents, scheduling, priority, maxQueued } = read;
  const isByPriority = scheduling === 'priority';
  if (isByPriority) requiredFunction(operator, `${within}priority`, priority);
  for (const [name, value] of Object.entries({ priority, maxQueued })) {
    if (!isByPriority && value !== undefined)
      throw new FlowConfigError(operator, within + name, "absent without `scheduling: 'priority'`", value);
  }
  return { documents, scheduling, priority, maxQueued: isByPriority ? orDefault(maxQueued, STAGES_DEFAULTS.maxQueued) : 0 };
}

function stageConfig(given: AnyStage, at: string, all: readonly AnyStage[]): StageConfig {
  const defaults = {
    expands: false,
    concurrency: Infinity,
    scope: 'shared',
    timeoutMs: STAGES_DEFAULTS.timeoutMs,
    deadlineMs: Infinity,
    allowPartialFailure: false,
    local: false,
  } as const;
  const stage = checked(
    NAME,
    given as Omit<AnyStage, 'work' | 'steps'> & { readonly work?: Work | undefined; readonly steps?: Work | undefined },
    defaults,
    {
      name: nonEmpty,
      work: callback,
      steps: callback,
      expands: flag,
      concurrency: count,
      scope: oneOf('shared', 'perBatch'),
      timeoutMs: positive,
      deadlineMs: positive,
      allowPartialFailure: flag,
      retry: unchecked,
      cost: (_operator, option, cost: StageConfig['cost']) => {
        if (typeof cost !== 'function') costOption(option, cost);
        return cost;
      },
      local: flag,
    },
    `${at}.`,
  );
  const { name, work, steps, cost, local } = stage;
  if (work === undefined && steps === undefined) requiredFunction(NAME, `${at}.work`, work);
  if (work !== undefined && steps !== undefined) throw new FlowConfigError(NAME, `${at}.steps`, 'absent beside `work`', steps);
  if (local && cost !== undefined) throw new FlowConfigError(NAME, `${at}.cost`, 'absent in a `local` stage', cost);
  if (all.find((other) => other.name === name) !== given)
    throw new FlowConfigError(NAME, `${at}.name`, 'one that no stage before has', name);
  // How many there are at a time is bounded by slots, and a queue has no use for a quick refusal.
  const own = typeof cost === 'object' ? { ...cost } : cost;
  return { ...(stage as Omit<StageConfig, 'retry'>), cost: own, retry: retryOf(NAME, given.retry, Infinity) };
}

function journalOption(operator: string, option: string, journal: StageJournal | undefined): StageJournal | undefined {
  if (journal === undefined) return journal;
  const { recall, append } = Object(journal) as Partial<StageJournal>;
  if (typeof recall === 'function' && typeof append === 'function') return journal;
  throw new FlowConfigError(operator, option, 'an object with `recall` and `append`', journal);
}
