import type { Observable, ObservableInput, SchedulerLike } from 'rxjs';
import type { CloseWhen, SplitItem } from '../../options/ask.js';
import type { FlowSink } from '../../options/events.js';
import type { RetryOptions } from '../../options/retry.js';
import { RETRY_DEFAULTS } from '../../options/retry.js';
import type { Classify, Fairness, LaneOptions, Overflow } from '../../options/types.js';
import type { Limiter } from '../limiting/limiter-types.js';
import type { Window } from './window.js';

export interface SplitOptions {
  /**
   * `'parallel'` sends all parts at once: few rounds, so the bad item is found soon. `'sequential'` sends one half at a time, leaves out
   * what must fail, and sends what it has put aside in one piece: fewer calls when few items are bad, and one after the other.
   * @defaultValue 'parallel'
   */
  readonly strategy?: 'parallel' | 'sequential';
  /** Parts a failed batch is split into under `'parallel'`. 2 halves it, Infinity sends every item alone. @defaultValue 4 */
  readonly factor?: number;
  /**
   * Whether `'sequential'` sends an item alone that must be bad because all the others are good. Without that the item is rejected
   * with the error of the smallest call it was in, even if that error had another cause.
   * @defaultValue true
   */
  readonly confirm?: boolean;
  /** Most calls for one batch, the first included. Above the batch's size `'sequential'` always gets through. @defaultValue twice the batch's size */
  readonly maxCalls?: number;
  /** Most splits and blame rounds above one call. @defaultValue 16 */
  readonly maxDepth?: number;
  /** How often the items an error names are taken out and the rest sent whole, before splitting. @defaultValue 3 */
  readonly maxBlameRounds?: number;
}

/** What is done about an item heavier than `maxWeight`. */
export type Oversize = 'alone' | 'reject' | 'split' | 'drop' | 'error';

/** In which order results go out. */
export type Order = 'completion' | 'input' | 'perKey';

/** Makes one result of those of the parts. A method's type, so that options written down without their results fit every kind of result. */
export type JoinResults<R> = { join(results: readonly R[]): R }['join'];

/** Options of everything that forms batches behind a gate. */
export interface GatedBatchOptions<T, R = never> {
  /** Most items in one call. @defaultValue 20 */
  readonly maxSize?: number;
  /** Most weight in one call, in the unit `weigh` returns. @defaultValue 8192 */
  readonly maxWeight?: number;
  /** Weight above which nothing is sent, not even alone: such an item, or part of one, rejects with `ItemTooHeavyError`. @defaultValue Infinity */
  readonly hardMaxWeight?: number;
  /** Weight of one item, for example its tokens; with a limiter it is the call's token cost. @defaultValue `() => 1`, and no token cost */
  readonly weigh?: (item: T) => number;
  /**
   * An item heavier than `maxWeight` travels `'alone'`, is cut by `splitItem` into parts that travel like items (`'split'`), or is
   * rejected with `ItemTooHeavyError`: that alone (`'reject'`), reported as `dropped` as well (`'drop'`), or failing the operator (`'error'`).
   * @defaultValue 'alone'
   */
  readonly oversize?: Oversize;
  /** Cuts an item into parts, in order; needed by `oversize: 'split'`. */
  readonly splitItem?: SplitItem<T>;
  /** Makes one result of those of the parts, in their order; needed by `oversize: 'split'`. The first part that fails rejects the item. */
  readonly joinResults?: JoinResults<R>;
  /**
   * Ends a batch `'before'` an item or `'after'` it: what waits in front of the boundary is due, and no batch crosses it. Counts within a
   * lane. @defaultValue never
   */
  readonly closeWhen?: CloseWhen<T>;
  /** Makes all that waits due at each of its values. Its completion is ignored, its error fails the operator. @defaultValue none */
  readonly flush?: ObservableInput<unknown>;
  /**
   * Results go out as calls end, in the order of acceptance, or in that order for equal keys. Those held back count towards `maxQueued`
   * (1000 of them when that is Infinity); at that bound `'input'` sends nothing but the batches of the item that is waited for.
   * @defaultValue 'completion'
   */
  readonly order?: Order;
  /** Key of an item, for `order: 'perKey'`; compared as a `Map` does. */
  readonly key?: (item: T) => unknown;
  /** Calls at a time; an Observable changes it while running. Not together with `limiter`. @defaultValue 4 */
  readonly concurrency?: number | Observable<number>;
  /** A limiter shared with others. */
  readonly limiter?: Limiter;
  /** @defaultValue `{ kind: 'graded', maxMs: 100 }` */
  readonly window?: Window;
  /** Most items waiting; those in backoff count. Without a bound `queueLong` is told at 10,000. @defaultValue Infinity */
  readonly maxQueued?: number;
  /** What happens at the bound: `'error'` fails the operator, the others drop an item, whose caller gets an `OverflowError`. @defaultValue 'error' */
  readonly overflow?: Overflow;
  /** Lanes, most urgent first. @defaultValue one lane for all */
  readonly lanes?: readonly LaneOptions[];
  /** Which lane leads the next batch, and in which order others fill it up. @defaultValue 'strict' */
  readonly fairness?: Fairness;
  /** Name of an item's lane. @defaultValue the last lane */
  readonly lane?: (item: T) => string;
  /** Name of an item, for results by id and for blame by id. @defaultValue its index as text */
  readonly id?: (item: T) => string;
  /** Sorts errors into retry, split and give up. @defaultValue `classifyError` */
  readonly classify?: Classify;
  /** @defaultValue 3 attempts, 200 ms doubling to 20 s with full jitter */
  readonly retry?: RetryOptions | false;
  /** @defaultValue 4 parts, at most twice as many calls as items */
  readonly split?: SplitOptions | false;
  /** Longest single call, in ms; its signal aborts and it counts as `timeout`. @defaultValue 30000 */
  readonly attemptTimeoutMs?: number;
  /** Longest time from acceptance to result, in ms; waiting and backoff included. @defaultValue Infinity */
  readonly itemDeadlineMs?: number | ((item: T) => number);
  /**
   * What counts as one burst, which travels together: what comes synchronously, up to the next promise callback (`'asap'`), everything up
   * to the next timer, however long its chains of promises (`'tick'`, about 1 ms), or single items (`'sync'`). With a `scheduler` of
   * yours, `'asap'` ends where its delay of 0 does. @defaultValue 'asap'
   */
  readonly burst?: 'asap' | 'tick' | 'sync';
  readonly onEvent?: FlowSink;
  /** Clock and timers. @defaultValue `asyncScheduler` */
  readonly scheduler?: SchedulerLike;
  /** Source of jitter, 0 to 1. @defaultValue `Math.random` */
  readonly random?: () => number;
}

export const GATED_BATCH_DEFAULTS = /* @__PURE__ */ (() =>
  ({
    maxSize: 20,
    maxWeight: 8192,
    hardMaxWeight: Infinity,
    oversize: 'alone',
    order: 'completion',
    concurrency: 4,
    window: { kind: 'graded', maxMs: 100 },
    maxQueued: Infinity,
    overflow: 'error',
    fairness: 'strict',
    retry: { ...RETRY_DEFAULTS, budget: Infinity },
    split: { strategy: 'parallel', factor: 4, confirm: true, maxDepth: 16, maxBlameRounds: 3 },
    attemptTimeoutMs: 30_000,
    itemDeadlineMs: Infinity,
    burst: 'asap',
  }) as const)();

export const GATED_BATCH_OPTIONS = [
  'maxSize',
  'maxWeight',
  'hardMaxWeight',
  'weigh',
  'oversize',
  'splitItem',
  'joinResults',
  'closeWhen',
  'flush',
  'order',
  'key',
  'concurrency',
  'limiter',
  'window',
  'maxQueued',
  'overflow',
  'lanes',
  'fairness',
  'lane',
  'id',
  'classify',
  'retry',
  'split',
  'attemptTimeoutMs',
  'itemDeadlineMs',
  'burst',
  'onEvent',
  'scheduler',
  'random',
] as const satisfies readonly (keyof GatedBatchOptions<unknown>)[];
