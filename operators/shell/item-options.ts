import type { Observable, ObservableInput, SchedulerLike } from 'rxjs';
import { isObservable } from 'rxjs';
import type { Turns } from '../kernel/queues/keyed-lanes.js';
import type { Order, OrderRule } from '../kernel/queues/order.js';
import type { Overflow } from '../kernel/queues/queue.js';
import { FlowConfigError } from '../options/errors.js';
import type { FlowSink } from '../options/events.js';
import { callback, count, filled, ofKeys, oneOf, positive } from '../options/options.js';
import type { Permits } from '../options/permits.js';
import type { ItemContext, WorkResult } from '../options/types.js';
import { schedulerOption } from './alarm.js';

/** Which of the waiting items goes next, among those whose key has room. Made by `oldestFirst()` and `byPriority()`. */
export interface KeyFairness<in T> {
  readonly levelOf?: ((operator: string, item: T) => number) | undefined;
  turns(...args: never[]): object;
}

/** The same to whoever goes by it. */
export interface KeyFairnessRule<in T> extends KeyFairness<T> {
  /** How urgent an item is, 0 first; undefined where all are alike. */
  readonly levelOf?: ((operator: string, item: T) => number) | undefined;
  /** New turns for one subscription. */
  turns<E>(dropsLowest: boolean): Turns<E>;
}

/** Options of the operators that do one piece of work per item. */
export interface ItemOptions<T> {
  /** Most inner streams at a time, over all keys; an Observable changes it while running. Not together with `limiter`. @defaultValue 10 */
  readonly concurrency?: number | Observable<number>;
  /** A limiter shared with others, in place of `concurrency`: every inner stream takes one request and one slot of it. */
  readonly limiter?: Permits;
  /** Most keys with anything waiting or under way at a time; the first item of one more overflows. Needs a key. @defaultValue Infinity */
  readonly maxKeys?: number;
  /**
   * Most items waiting, over all keys; results held back by `order` count. 0 = what cannot start at once overflows. Without a bound `onEvent` is
   * told of the first 10,000 (`queueLong`), and an `order` holds back 1,000 results at most: nothing more is started then, until the item
   * that they wait for is over. @defaultValue Infinity
   */
  readonly maxQueued?: number;
  /**
   * What happens at `maxQueued`: `'error'` fails the output, the others drop an item, whose caller gets an `OverflowError`. `'latest'` leaves only
   * the newest of its key waiting; `'dropLowest'` is for `fairness: byPriority()`, which in turn has no `'dropOldest'` and no `'latest'`.
   * @defaultValue 'error'
   */
  readonly overflow?: Overflow;
  /**
   * Results go out in the order of the items with `inputOrder()`, in that order for equal keys with `orderPerKey()`. @defaultValue as inner
   * streams have them
   */
  readonly order?: Order<NoInfer<T>>;
  /** Which of the waiting items goes next, among those whose key has room: `oldestFirst()` or `byPriority()`. @defaultValue keys in turn */
  readonly fairness?: KeyFairness<NoInfer<T>>;
  /** Longest an inner stream may take from its start to its end, in ms. @defaultValue Infinity */
  readonly timeoutMs?: number;
  /** Longest an item may take from its arrival to its result, waiting included, in ms. @defaultValue Infinity */
  readonly deadlineMs?: number;
  /**
   * What an error of the source does: `'abort'` stops everything and errors at once, `'drain'` and `'flush'` (the same here) settle what
   * was accepted first. @defaultValue 'abort'
   */
  readonly onSourceError?: 'abort' | 'flush' | 'drain';
  /** Told of what becomes of items. @defaultValue none */
  readonly onEvent?: FlowSink;
  /** Stands in every event as `instance`. @defaultValue a number */
  readonly name?: string;
  /** Clock and timer of `timeoutMs` and `deadlineMs`. @defaultValue `asyncScheduler` */
  readonly scheduler?: SchedulerLike;
}

export const ITEM_OPTIONS: readonly string[] = [
  'concurrency',
  'limiter',
  'maxKeys',
  'maxQueued',
  'overflow',
  'order',
  'fairness',
  'errors',
  'timeoutMs',
  'deadlineMs',
  'onSourceError',
  'onEvent',
  'name',
  'scheduler',
];

/** The options, checked and with their defaults: what one subscription needs. */
export interface ItemConfig<T, R> {
  readonly operator: string;
  readonly project: (item: T, context: ItemContext) => WorkResult<R> | ObservableInput<R>;
  readonly key: ((item: T) => unknown) | undefined;
  /** Most items of a key at a time. */
  readonly limitOf: (key: unknown) => number;
  /** Why the other items of a key are not started after one has failed, where that is its end. */
  readonly stopped?: ((cause: unknown) => unknown) | undefined;
  readonly concurrency: number;
  readonly concurrency$: Observable<number> | undefined;
  readonly permits: Permits | undefined;
  readonly maxKeys: number;
  readonly maxQueued: number;
  readonly overflow: Overflow;
  readonly order: OrderRule<T> | undefined;
  readonly fairness: KeyFairnessRule<T> | undefined;
  /** Hands on one `Settled` per item, instead of every value. */
  readonly settles: boolean;
  readonly timeoutMs: number;
  readonly deadlineMs: number;
  /** Whether an error of the source waits for what was accepted. */
  readonly drains: boolean;
  readonly onEvent: FlowSink | undefined;
  readonly name: string | undefined;
  readonly scheduler: SchedulerLike;
}

/** What each operator says for itself. */
type Own = 'project' | 'key' | 'limitOf' | 'stopped';

/** After `known`. @throws FlowConfigError naming the operator and the option */
export function itemConfig<T, R>(
  operator: string,
  options: ItemOptions<T> & { readonly errors?: 'settle' | 'propagate' },
  own: Pick<ItemConfig<T, R>, Own>,
  most = 10,
): ItemConfig<T, R> {
  const {
    concurrency = most,
    limiter,
    maxKeys,
    maxQueued = Infinity,
    overflow = 'error',
    order,
    fairness,
    errors = 'settle',
    timeoutMs = Infinity,
    deadlineMs = Infinity,
    onSourceError = 'abort',
    onEvent,
    name,
  } = options;
  if (limiter !== undefined) {
    if (typeof (Object(limiter) as Partial<Permits>).enlist !== 'function')
      throw new FlowConfigError(operator, 'limiter', 'a limiter made by createLimiter', limiter);
    if (options.concurrency !== undefined)
      throw new FlowConfigError(operator, 'concurrency', 'absent when a `limiter` is given', options.concurrency);
  }
  const changes = isObservable(concurrency);
  return {
    ...own,
    operator,
    permits: limiter,
    concurrency: limiter ? Infinity : changes ? most : count(operator, 'concurrency', concurrency),
    concurrency$: changes ? concurrency : undefined,
    maxKeys: count(operator, 'maxKeys', ofKeys(operator, 'maxKeys', maxKeys, own.key !== undefined, Infinity)),
    maxQueued: count(operator, 'maxQueued', maxQueued, 0),
    overflow: oneOf(operator, 'overflow', overflow, OVERFLOWS[fairness?.levelOf ? 'ranked' : 'plain']),
    order: made(operator, 'order', order as OrderRule<T> | undefined, 'lines', 'inputOrder() or orderPerKey()'),
    fairness: made(operator, 'fairness', fairness as KeyFairnessRule<T> | undefined, 'turns', 'oldestFirst() or byPriority()'),
    settles: oneOf(operator, 'errors', errors, ['settle', 'propagate']) === 'settle',
    timeoutMs: positive(operator, 'timeoutMs', timeoutMs),
    deadlineMs: positive(operator, 'deadlineMs', deadlineMs),
    drains: oneOf(operator, 'onSourceError', onSourceError, ['abort', 'flush', 'drain']) !== 'abort',
    onEvent: callback(operator, 'onEvent', onEvent),
    name: name === undefined ? undefined : filled(operator, 'name', name),
    scheduler: schedulerOption(operator, 'scheduler', options.scheduler),
  };
}

/** Among urgent and less urgent items age is no reason to be dropped; among equals nothing is lowest. */
const OVERFLOWS = {
  plain: ['error', 'dropOldest', 'dropNewest', 'latest'],
  ranked: ['error', 'dropNewest', 'dropLowest'],
} as const;

/** A value of ours, known by what it can do. */
function made<V>(operator: string, option: string, value: V | undefined, does: string, makers: string): V | undefined {
  if (value === undefined || typeof (Object(value) as Record<string, unknown>)[does] === 'function') return value;
  throw new FlowConfigError(operator, option, makers, value);
}
