import type { Observable, SchedulerLike } from 'rxjs';
import { isObservable } from 'rxjs';
import type { SearchLimits } from '../../kernel/repair/bad-item-search.js';
import type { DivideLimits } from '../../kernel/repair/divide-plan.js';
import type { CloseWhen, SplitItem } from '../../options/ask.js';
import { FlowConfigError } from '../../options/errors.js';
import type { FlowSink } from '../../options/events.js';
import { safeSink } from '../../options/events.js';
import { LaneTable, overflow } from '../../options/lanes.js';
import { callback, count, durationMs, flag, group, known, oneOf, orDefault, positive, required } from '../../options/options.js';
import type { RetryRule } from '../../options/retry.js';
import { retryRule } from '../../options/retry.js';
import type { Classify } from '../../options/types.js';
import { schedulerOption } from '../../shell/alarm.js';
import { notifier } from '../../shell/notifier.js';
import { limiterOption } from '../limiting/limiter-option.js';
import type { Limiter } from '../limiting/limiter-types.js';
import type { GatedBatchOptions, Order, Oversize, SplitOptions } from './gated-options.js';
import { GATED_BATCH_DEFAULTS, GATED_BATCH_OPTIONS } from './gated-options.js';
import type { GateLimiter } from './own-slots.js';
import { OwnSlots } from './own-slots.js';
import type { WindowContext } from './window.js';
import { windowRule } from './window.js';

export type { RetryOptions } from '../../options/retry.js';
export type { GatedBatchOptions, JoinResults, Order, Oversize, SplitOptions } from './gated-options.js';
export { GATED_BATCH_DEFAULTS, GATED_BATCH_OPTIONS } from './gated-options.js';
export type { Window, WindowContext } from './window.js';

const OVERSIZES = ['alone', 'reject', 'split', 'drop', 'error'] as const satisfies readonly Oversize[];
const ORDERS = ['completion', 'input', 'perKey'] as const satisfies readonly Order[];

/** How a failed batch is cut up. */
export interface SplitRule extends DivideLimits, SearchLimits {
  readonly strategy: 'parallel' | 'sequential';
}

/** The options, checked and with their defaults: what one engine needs. */
export interface EngineConfig<T> {
  readonly operator: string;
  readonly maxSize: number;
  readonly maxWeight: number;
  readonly hardMaxWeight: number;
  readonly weigh: ((item: T) => number) | undefined;
  readonly oversize: Oversize;
  readonly splitItem: SplitItem<T> | undefined;
  readonly joinResults: ((results: readonly unknown[]) => unknown) | undefined;
  readonly closeWhen: CloseWhen<T> | undefined;
  readonly flush$: Observable<unknown> | undefined;
  readonly order: Order;
  readonly key: ((item: T) => unknown) | undefined;
  /** The first rejection ends everything: it goes out at once, out of turn. */
  readonly failFast: boolean;
  readonly window: (context: WindowContext) => number;
  readonly maxQueued: number;
  readonly table: LaneTable;
  readonly lane: ((item: T) => string) | undefined;
  readonly id: ((item: T) => string) | undefined;
  readonly classify: Classify;
  readonly retry: RetryRule | undefined;
  readonly split: ((size: number) => SplitRule) | undefined;
  readonly attemptTimeoutMs: number;
  readonly itemDeadlineMs: number | ((item: T) => number);
  readonly burst: 'asap' | 'tick' | 'sync';
  readonly onEvent: FlowSink | undefined;
  readonly scheduler: SchedulerLike | undefined;
  readonly random: () => number;
  /** The shared limiter, or a way to make one of this run's own. */
  readonly limiter: Limiter | (() => GateLimiter);
  readonly concurrency$: Observable<number> | undefined;
}

/** @throws FlowConfigError naming the operator and the option */
export function engineConfig<T, R>(
  operator: string,
  options: GatedBatchOptions<T, R>,
  classify: Classify,
  extra: readonly string[] = [],
): EngineConfig<T> {
  known(operator, options, [...GATED_BATCH_OPTIONS, ...extra]);
  const d = GATED_BATCH_DEFAULTS;
  const maxQueued = count(operator, 'maxQueued', orDefault(options.maxQueued, d.maxQueued));
  const maxWeight = positive(operator, 'maxWeight', orDefault(options.maxWeight, d.maxWeight));
  const hardMaxWeight = positive(operator, 'hardMaxWeight', orDefault(options.hardMaxWeight, d.hardMaxWeight));
  const oversize = oneOf(operator, 'oversize', orDefault(options.oversize, d.oversize), OVERSIZES);
  const order = oneOf(operator, 'order', orDefault(options.order, d.order), ORDERS);
  const { splitItem, joinResults, key } = options;
  const itemDeadlineMs = orDefault(options.itemDeadlineMs, d.itemDeadlineMs);
  const table = new LaneTable(operator, options.lanes, {
    maxQueued,
    overflow: overflow(operator, 'overflow', orDefault(options.overflow, d.overflow)),
    fairness: orDefault(options.fairness, d.fairness),
  });
  return {
    operator,
    maxSize: count(operator, 'maxSize', orDefault(options.maxSize, d.maxSize)),
    maxWeight,
    hardMaxWeight,
    weigh: callback(operator, 'weigh', options.weigh),
    oversize,
    splitItem: oversize === 'split' ? required(operator, 'splitItem', splitItem) : callback(operator, 'splitItem', splitItem),
    joinResults: (oversize === 'split'
      ? required(operator, 'joinResults', joinResults)
      : callback(operator, 'joinResults', joinResults)) as EngineConfig<T>['joinResults'],
    closeWhen: callback(operator, 'closeWhen', options.closeWhen),
    flush$: notifier(operator, 'flush', options.flush),
    order,
    key: order === 'perKey' ? required(operator, 'key', key) : callback(operator, 'key', key),
    failFast: false,
    window: windowRule(operator, orDefault(options.window, d.window)),
    maxQueued,
    table,
    lane: callback(operator, 'lane', options.lane),
    id: callback(operator, 'id', options.id),
    classify: callback(operator, 'classify', options.classify) ?? classify,
    retry: retryRule(operator, options.retry, d.retry.budget),
    split: splitRule(operator, options.split),
    attemptTimeoutMs: positive(operator, 'attemptTimeoutMs', orDefault(options.attemptTimeoutMs, d.attemptTimeoutMs)),
    itemDeadlineMs: typeof itemDeadlineMs === 'function' ? itemDeadlineMs : durationMs(operator, 'itemDeadlineMs', itemDeadlineMs),
    burst: oneOf(operator, 'burst', orDefault(options.burst, d.burst), ['asap', 'tick', 'sync']),
    onEvent: safeSink(callback(operator, 'onEvent', options.onEvent)),
    scheduler: options.scheduler === undefined ? undefined : schedulerOption(operator, 'scheduler', options.scheduler),
    random: callback(operator, 'random', options.random) ?? Math.random,
    ...gate(operator, options, table),
  };
}

function gate<T, R>(
  operator: string,
  options: GatedBatchOptions<T, R>,
  table: LaneTable,
): Pick<EngineConfig<T>, 'limiter' | 'concurrency$'> {
  const { concurrency = GATED_BATCH_DEFAULTS.concurrency } = options;
  const limiter = limiterOption(operator, options.limiter, options.concurrency);
  if (limiter) {
    const missing = options.lanes === undefined ? undefined : table.names.find((name) => limiter.lanes?.includes(name) === false);
    if (missing !== undefined) throw new FlowConfigError(operator, 'lanes', `lanes the limiter has (${String(limiter.lanes)})`, missing);
    return { limiter, concurrency$: undefined };
  }
  const changing = isObservable(concurrency) ? concurrency : undefined;
  const fixed = changing ? GATED_BATCH_DEFAULTS.concurrency : count(operator, 'concurrency', concurrency);
  return { limiter: () => new OwnSlots(fixed, options.scheduler), concurrency$: changing };
}

function splitRule(operator: string, split: SplitOptions | false | undefined): EngineConfig<never>['split'] {
  if (split === false) return undefined;
  const given: SplitOptions = group(operator, 'split', split);
  known(operator, given, ['strategy', 'factor', 'confirm', 'maxCalls', 'maxDepth', 'maxBlameRounds'], 'split', 'split.');
  const d = GATED_BATCH_DEFAULTS.split;
  const strategy = oneOf(operator, 'split.strategy', orDefault(given.strategy, d.strategy), ['parallel', 'sequential']);
  const foreign = strategy === 'parallel' ? 'confirm' : 'factor';
  if (given[foreign] !== undefined)
    throw new FlowConfigError(operator, `split.${foreign}`, `absent under \`split.strategy: '${strategy}'\``, given[foreign]);
  const confirm = flag(operator, 'split.confirm', orDefault(given.confirm, d.confirm));
  const factor = count(operator, 'split.factor', orDefault(given.factor, d.factor), 2);
  const maxDepth = count(operator, 'split.maxDepth', orDefault(given.maxDepth, d.maxDepth), 0);
  const maxBlameRounds = count(operator, 'split.maxBlameRounds', orDefault(given.maxBlameRounds, d.maxBlameRounds), 0);
  const maxCalls = given.maxCalls === undefined ? undefined : count(operator, 'split.maxCalls', given.maxCalls);
  return (size) => ({ strategy, factor, confirm, maxDepth, maxBlameRounds, maxCalls: maxCalls ?? 2 * size });
}
