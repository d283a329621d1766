import type { Observable, ObservableInput, SchedulerLike } from 'rxjs';
import { isObservable } from 'rxjs';
import type { Order, OrderRule } from '../../kernel/queues/order.js';
import type { Overflow } from '../../kernel/queues/queue.js';
import type { Bounds } from '../../kernel/waiting/bounds.js';
import { boundsOf } from '../../kernel/waiting/bounds.js';
import { ITEMS } from '../../options/defaults.js';
import type { FlowSink } from '../../options/events.js';
import { EVENT_CHECKS } from '../../options/events.js';
import { LIMITED_HINTS } from '../../options/hints.js';
import { permitsOption } from '../../options/limiter-option.js';
import type { Check, Checked } from '../../options/options.js';
import { checked, count, countFromZero, madeBy, ofKeys, oneOf, optional, positive, unchecked } from '../../options/options.js';
import type { Permits } from '../../options/permits.js';
import type { ItemContext, WorkResult } from '../../options/types.js';
import { asked } from '../calls/asked.js';
import { concurrencyOption } from '../streams/notifier.js';
import { schedulerOption } from '../time/alarm.js';

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
   * that they wait for is over. A function is asked for each item that has to wait. @defaultValue Infinity
   */
  readonly maxQueued?: number | (() => number);
  /**
   * What happens at `maxQueued`: `'error'` fails the output, the others drop an item, whose caller gets an `OverflowError`. `'latest'` leaves only
   * the newest of its key waiting. A function is asked each time. @defaultValue 'error'
   */
  readonly overflow?: Exclude<Overflow, 'dropLowest'> | (() => Exclude<Overflow, 'dropLowest'>);
  /**
   * Results go out in the order of the items with `inputOrder()`, in that order for equal keys with `orderPerKey()`. @defaultValue as inner
   * streams have them
   */
  readonly order?: Order<NoInfer<T>>;
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

/** How each option is checked. Whoever has more options, or fewer, says so of a copy. */
export const ITEM_CHECKS = /* @__PURE__ */ (() => ({
  concurrency: concurrencyOption,
  limiter: unchecked,
  maxKeys: optional(count),
  maxQueued: asked(countFromZero, Infinity),
  overflow: asked(oneOf('error', 'dropOldest', 'dropNewest', 'latest'), 'error'),
  order: madeBy<OrderRule<never> | undefined>('lines', 'inputOrder() or orderPerKey()', undefined),
  errors: oneOf('settle', 'propagate'),
  timeoutMs: positive,
  deadlineMs: positive,
  onSourceError: oneOf('abort', 'flush', 'drain'),
  ...EVENT_CHECKS,
  scheduler: schedulerOption,
}))();

/** The options, checked and with their defaults: what one subscription needs. */
export interface ItemConfig<T, R> {
  readonly operator: string;
  readonly project: (item: T, context: ItemContext) => WorkResult<R> | ObservableInput<R>;
  readonly key: ((item: T) => unknown) | undefined;
  readonly isKeyed: boolean;
  /** Most items of a key at a time. */
  readonly limitOf: (key: unknown) => number;
  /** Why the other items of a key are not started after one has failed, where that is its end. */
  readonly stopped?: ((cause: unknown) => unknown) | undefined;
  readonly concurrency: number;
  readonly concurrency$: Observable<number> | undefined;
  readonly permits: Permits | undefined;
  readonly bounds: Bounds;
  readonly order: OrderRule<T> | undefined;
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

type CheckedOptions<T> = Checked<ItemOptions<T> & { readonly errors?: 'settle' | 'propagate' }, typeof ITEMS>;

/** What each operator adds to the common options. */
type OperatorPart = 'project' | 'key' | 'limitOf' | 'stopped';

/** @param own asked once the options are known to be good. @throws FlowConfigError naming the operator and the option */
export function itemConfig<T, R>(
  operator: string,
  options: ItemOptions<T>,
  checks: Readonly<Record<string, Check>>,
  own: () => Pick<ItemConfig<T, R>, OperatorPart>,
  most: number,
): ItemConfig<T, R> {
  const all = { ...ITEMS, ...(checked(operator, options, ITEMS, checks as never, '', LIMITED_HINTS) as CheckedOptions<T>) };
  const { limiter, maxKeys, maxQueued, overflow, order, errors, timeoutMs, deadlineMs, onSourceError, onEvent, name, scheduler } = all;
  const { concurrency = most } = all;
  permitsOption(operator, 'limiter', limiter, all.concurrency);
  const changes = isObservable(concurrency);
  const { project, key, limitOf, stopped } = own();
  // One by one: what is made by spreading has a shape of its own each time, and that is looked up anew for every item.
  return {
    operator,
    project,
    key,
    isKeyed: key !== undefined,
    limitOf,
    stopped,
    concurrency: limiter ? Infinity : changes ? most : concurrency,
    concurrency$: changes ? concurrency : undefined,
    permits: limiter,
    bounds: boundsOf({ maxKeys: ofKeys(operator, 'maxKeys', maxKeys, key !== undefined, Infinity), maxQueued, overflow }),
    order: order as OrderRule<T> | undefined,
    settles: errors === 'settle',
    timeoutMs,
    deadlineMs,
    drains: onSourceError !== 'abort',
    onEvent,
    name,
    scheduler,
  };
}
