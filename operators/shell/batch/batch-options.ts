import type { Observable, ObservableInput, SchedulerLike } from 'rxjs';
import { asapScheduler, isObservable } from 'rxjs';
import { FIFO } from '../../kernel/queues/line.js';
import type { Order } from '../../kernel/queues/order.js';
import type { Overflow, QueueRule } from '../../kernel/queues/queue.js';
import type { RepairRule } from '../../kernel/repair/rule.js';
import type { Classify } from '../../kernel/repair/verdict.js';
import type { Bounds } from '../../kernel/waiting/bounds.js';
import { boundsOf } from '../../kernel/waiting/bounds.js';
import { isAmount, unusable } from '../../options/answers.js';
import { ask } from '../../options/ask.js';
import { CONCURRENCY, GATED_BATCHES } from '../../options/defaults.js';
import { FlowConfigError } from '../../options/errors.js';
import type { FlowSink } from '../../options/events.js';
import { EVENT_CHECKS } from '../../options/events.js';
import { LIMITED_HINTS, QUEUE_HINTS } from '../../options/hints.js';
import { permitsOption } from '../../options/limiter-option.js';
import type { Check, Checked } from '../../options/options.js';
import { callback, check, checked, count, durationMs, madeBy, misused, oneOf, positive, requiredFunction } from '../../options/options.js';
import type { SplitItem } from '../../options/oversize.js';
import type { Permits } from '../../options/permits.js';
import type { BatchResult, CallContext, WorkResult } from '../../options/types.js';
import { asked } from '../calls/asked.js';
import { concurrencyOption, notifier } from '../streams/notifier.js';
import { schedulerOption } from '../time/alarm.js';

/**
 * Sends one batch: as many results as items, in one of the shapes `BatchResult` names, at once or later.
 * @stable
 */
export type BatchWork<T, R> = (items: readonly T[], context: CallContext) => WorkResult<BatchResult<R>>;

/**
 * Context of a window function.
 * @stable
 */
export interface WindowContext {
  /** Permits handed out, this operator's and others'. */
  readonly executing: number;
  /** Most permits at a time. */
  readonly concurrency: number;
  /** How busy the slots or the limiter are, 0 to 1: the share in use of its slots or of its rate, whichever is the scarcer. */
  readonly load: number;
  readonly queued: number;
  readonly queuedWeight: number;
  /** Age of the oldest waiting item, in ms. */
  readonly oldestMs: number;
}

/**
 * How long, in ms, a batch that is not full is held for company while a permit is free. Asked again whenever anything happens.
 * @stable
 */
export type Window = (context: WindowContext) => number;

/** A repair, or several, which are asked in their order; a list in it counts as what is in it. */
export type Repairs = RepairRule | readonly (RepairRule | readonly RepairRule[])[];

/** Options of all that form batches behind a gate. */
export interface GateOptions<T, R = never> {
  /** Most items in one call. @defaultValue 20 */
  readonly maxSize?: number;
  /** Most weight in one call, in the unit `weigh` returns. With a limiter no more than it can ever grant at once. @defaultValue 8192 */
  readonly maxWeight?: number;
  /** Weight of one item, for example its tokens; with a limiter it is the call's token cost. @defaultValue `() => 1`, and no token cost */
  readonly weigh?: (item: T) => number;
  /**
   * An item heavier than `maxWeight` travels `'alone'`, is rejected with `ItemTooHeavyError` (`'reject'`), or is cut into parts that travel like
   * items by a {@link splitItem}. @defaultValue 'alone'
   */
  readonly oversize?: 'alone' | 'reject' | SplitItem<T, R>;
  /** Makes all that waits due at each of its values. Its completion is ignored, its error fails the operator. @defaultValue none */
  readonly flush?: ObservableInput<unknown>;
  /** Lanes of different urgency, with {@link lanes}. @defaultValue one line for all */
  readonly queue?: QueueRule<T>;
  /**
   * Most items waiting; those between two attempts count. Without a bound `queueLong` is emitted at 10,000. A function is called for each item that
   * has to wait.
   * @defaultValue Infinity
   */
  readonly maxQueued?: number | (() => number);
  /**
   * What happens at the bound: `'error'` fails the operator, the others drop an item, whose caller gets an `OverflowError`. A function is asked each time.
   * @defaultValue 'error'
   */
  readonly overflow?: Overflow | (() => Overflow);
  /** In which order results go out: {@link inputOrder} or {@link orderPerKey}. @defaultValue as calls end */
  readonly order?: Order<T>;
  /** How long a batch that is not full is held while a permit is free: {@link natural}, {@link fixed}, {@link graded}, or a function. @defaultValue `graded(100)` */
  readonly window?: Window;
  /** Calls at a time; an Observable changes it while running. Not together with `limiter`. @defaultValue 4 */
  readonly concurrency?: number | Observable<number>;
  /** A limiter shared with others, or any other source of permits. */
  readonly limiter?: Permits;
  /** Name of an item, for results by id and for blame by id. @defaultValue its index as text */
  readonly id?: (item: T) => string;
  /** What is done about a call that fails: {@link retryFailed}, {@link divideAndConquer}, {@link robust}. @defaultValue nothing, its items are rejected */
  readonly repair?: Repairs;
  /** Sorts errors for `repair`. @defaultValue by status, as the repairs bring it */
  readonly classify?: Classify;
  /** Longest single call, in ms; its signal aborts and it counts as `timeout`. @defaultValue 30000 */
  readonly timeoutMs?: number;
  /** Longest time from acceptance to result, in ms; waiting and pauses included. @defaultValue Infinity */
  readonly deadlineMs?: number | ((item: T) => number);
  readonly onEvent?: FlowSink;
  /** Stands in every event as `instance`. @defaultValue a number */
  readonly name?: string;
  /** Clock and timers. @defaultValue `asyncScheduler` */
  readonly scheduler?: SchedulerLike;
  /** Source of jitter, 0 to 1. @defaultValue `Math.random` */
  readonly random?: () => number;
}

const DEFAULTS = /* @__PURE__ */ (() =>
  ({
    ...GATED_BATCHES,
    queue: FIFO,
    random: Math.random,
  }) as const)();

/** What `ranked` makes forms no batches. */
function isBatchQueue(rule: unknown): boolean {
  const { create } = Object(rule) as Partial<QueueRule<never>>;
  return typeof create === 'function' && 'plan' in Object(create(1));
}

/** How each option is checked. Operators with more or fewer options change a copy. */
export const BATCH_CHECKS = /* @__PURE__ */ (() =>
  ({
    maxSize: count,
    maxWeight: positive,
    weigh: callback,
    oversize: madeBy('cut', "'alone', 'reject' or splitItem(into, join)", 'alone', 'reject'),
    flush: notifier,
    queue: check<unknown>('lanes([…])', isBatchQueue),
    maxQueued: asked(count, Infinity),
    overflow: asked(oneOf('error', 'dropOldest', 'dropNewest', 'dropLowest', 'latest'), 'error'),
    order: madeBy('lines', 'inputOrder() or orderPerKey(key)', undefined),
    window: windowOption,
    concurrency: concurrencyOption,
    limiter: (operator: string, option: string, given: Permits | undefined) => permitsOption(operator, option, given),
    id: callback,
    repair: rules,
    classify: callback,
    timeoutMs: positive,
    deadlineMs: (operator: string, option: string, given: number | (() => number)) =>
      typeof given === 'function' ? given : durationMs(operator, option, given),
    ...EVENT_CHECKS,
    scheduler: schedulerOption,
    random: requiredFunction,
  }) satisfies { readonly [K in keyof GateOptions<never>]-?: Check })();

/** One whose answers are checked. */
function windowOption(operator: string, option: string, given: Window | undefined): Window | undefined {
  const window = callback(operator, option, given);
  return (
    window &&
    ((context) => {
      const ms = ask(operator, option, window, context);
      if (isAmount(ms)) return ms;
      throw unusable(operator, option, 'a number of ms >= 0', ms);
    })
  );
}

function rules(operator: string, option: string, given: Repairs = []): readonly RepairRule[] {
  const all = [given].flat(2) as readonly RepairRule[];
  const wrong = all.find((rule) => typeof (Object(rule) as Partial<RepairRule>).failed !== 'function');
  if (wrong === undefined && !all.includes(undefined as never)) return all;
  throw new FlowConfigError(operator, option, 'a repair such as retryFailed() or robust(), or a list of them', wrong);
}

type CheckedOptions<T> = Checked<GateOptions<T>, typeof DEFAULTS>;

/** The options, checked and with their defaults. */
export interface BatchConfig<T> extends Omit<CheckedOptions<T>, 'repair' | 'flush' | 'concurrency' | 'maxQueued' | 'overflow'> {
  readonly operator: string;
  readonly repair: readonly RepairRule[];
  readonly flush: Observable<unknown> | undefined;
  /** Calls at a time; to begin with, when it changes. */
  readonly concurrency: number;
  readonly concurrency$: Observable<number> | undefined;
  readonly isPulled?: boolean;
  readonly bounds: Bounds;
  /** Where a frame ends: what comes until then travels together. */
  readonly frames: SchedulerLike;
}

/** @throws FlowConfigError naming the operator and the option */
export function batchConfig<T, R>(
  operator: string,
  options: GateOptions<T, R>,
  checks: Readonly<Record<string, Check>> = BATCH_CHECKS,
  defaults: object = {},
): BatchConfig<T> {
  const all = checked(operator, options, { ...DEFAULTS, ...defaults }, checks as never, '', {
    ...LIMITED_HINTS,
    ...QUEUE_HINTS,
  }) as unknown as CheckedOptions<T> & Pick<BatchConfig<T>, 'repair' | 'flush'>;
  const { concurrency = CONCURRENCY.batches, limiter, maxQueued, overflow, queue } = all;
  permitsOption(operator, 'limiter', limiter, all.concurrency);
  const missing = queue.isDeclared && queue.lanes.find(({ name }) => limiter?.lanes?.includes(name) === false);
  if (missing)
    throw misused(
      operator,
      'queue',
      `the limiter has no lane \`${missing.name}\``,
      `Use its lanes: ${String(limiter?.lanes?.join(', '))}.`,
    );
  const isChanging = isObservable(concurrency);
  return {
    // Before the others: an object that begins with those of another has a shape of its own, and whatever reads it for each item is slower by half.
    operator,
    ...all,
    concurrency: isChanging ? CONCURRENCY.batches : concurrency,
    concurrency$: isChanging ? concurrency : undefined,
    frames: options.scheduler ?? asapScheduler,
    bounds: boundsOf({ maxQueued, overflow, lanes: queue.lanes }),
  };
}
