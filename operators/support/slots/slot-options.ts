import type { Observable, ObservableInput, SchedulerLike } from 'rxjs';
import { isObservable } from 'rxjs';
import type { KeyFairness } from '../../kernel/queues/keyed-lanes.js';
import { unusable } from '../../options/answers.js';
import { ask } from '../../options/ask.js';
import { FlowConfigError } from '../../options/errors.js';
import type { FlowSink } from '../../options/events.js';
import { safeSink } from '../../options/events.js';
import { callback, count, known, ofKeys, oneOf, optionNames, orDefault, positive } from '../../options/options.js';
import type { ItemContext, Overflow, WorkResult } from '../../options/types.js';
import { schedulerOption } from '../../shell/alarm.js';
import { limiterOption } from '../limiting/limiter-option.js';
import type { Limiter } from '../limiting/limiter-types.js';

/** Options of everything that runs one piece of work per item, in slots. */
export interface SlotOptions {
  /** Most inner streams at a time, over all keys; an Observable changes it while running. Not together with `limiter`. @defaultValue 10 */
  readonly concurrency?: number | Observable<number>;
  /** A limiter shared with others, in place of `concurrency`: every inner stream takes one request and one slot of it. */
  readonly limiter?: Limiter;
  /** Most keys with anything waiting or under way at a time; the first item of one more overflows. Needs a key. @defaultValue Infinity */
  readonly maxKeys?: number;
  /**
   * Most items waiting, over all keys; results held back by `order` count. 0 = what cannot start at once overflows. Without a bound `onEvent` is
   * told of the first 10,000 (`queueLong`), and an `order` holds back 1,000 results at most: nothing more is started then, until the item
   * that they wait for is over. @defaultValue Infinity
   */
  readonly maxQueued?: number;
  /** Longest an inner stream may take from its start to its end, in ms. @defaultValue Infinity */
  readonly timeoutMs?: number;
  /**
   * What an error of the source does: `'abort'` stops everything and errors at once, `'drain'` and `'flush'` (the same here) settle what
   * was accepted first. @defaultValue 'abort'
   */
  readonly onSourceError?: 'abort' | 'flush' | 'drain';
  readonly onEvent?: FlowSink;
  /** Clock and timer of `timeoutMs`. @defaultValue `asyncScheduler` */
  readonly scheduler?: SchedulerLike;
}

export const SLOT_DEFAULTS = {
  concurrency: 10,
  maxKeys: Infinity,
  maxQueued: Infinity,
  overflow: 'error',
  order: 'completion',
  fairness: 'roundRobin',
  errors: 'settle',
  timeoutMs: Infinity,
  onSourceError: 'abort',
} as const;

export const SLOT_OPTIONS = /* @__PURE__ */ optionNames(SLOT_DEFAULTS, 'limiter', 'onEvent', 'scheduler');

/** The options, checked and with their defaults: what one engine needs. */
export interface SlotConfig<T, R> {
  readonly operator: string;
  readonly project: (item: T, context: ItemContext) => WorkResult<R> | ObservableInput<R>;
  readonly key: ((item: T) => unknown) | undefined;
  /** Most items of a key at a time. */
  readonly limitOf: (key: unknown) => number;
  readonly concurrency: number;
  readonly concurrency$: Observable<number> | undefined;
  readonly limiter: Limiter | undefined;
  readonly maxKeys: number;
  readonly maxQueued: number;
  readonly overflow: Overflow;
  readonly order: 'completion' | 'input' | 'perKey';
  readonly fairness: KeyFairness;
  /** How urgent an item is, 0 first; only with `fairness: 'priority'`. */
  readonly priority: ((item: T) => number) | undefined;
  /** Hands on one `Settled` per item, instead of every value. */
  readonly settles: boolean;
  /** What a failed item means for the others: nothing, the end of its key, or the end of everything. */
  readonly onError: 'continue' | 'stopKey' | 'error';
  readonly timeoutMs: number;
  /** Whether an error of the source waits for what was accepted. */
  readonly drains: boolean;
  readonly onEvent: FlowSink | undefined;
  readonly scheduler: SchedulerLike;
}

type Shared =
  | 'concurrency'
  | 'concurrency$'
  | 'limiter'
  | 'maxKeys'
  | 'maxQueued'
  | 'overflow'
  | 'order'
  | 'fairness'
  | 'priority'
  | 'settles'
  | 'timeoutMs'
  | 'drains'
  | 'onEvent'
  | 'scheduler';

/** What the two operators answer differently, as their types allow. */
interface Loose extends SlotOptions {
  readonly key?: unknown;
  readonly overflow?: Overflow | undefined;
  readonly order?: string | undefined;
  readonly fairness?: unknown;
  readonly errors?: string | undefined;
}

/** @throws FlowConfigError naming the operator and the option */
export function slotConfig<T>(
  operator: string,
  options: Loose,
  names: readonly string[],
  choices: { readonly orders: readonly SlotConfig<T, never>['order'][]; readonly priorities: boolean; readonly alwaysKeyed: boolean },
): Pick<SlotConfig<T, never>, Shared> {
  known(operator, options, names);
  const d = SLOT_DEFAULTS;
  const { fairness, priority } = turns<T>(operator, orDefault(options.fairness, d.fairness), choices.priorities);
  return {
    ...room(operator, options),
    maxKeys: count(
      operator,
      'maxKeys',
      ofKeys(operator, 'maxKeys', options.maxKeys, choices.alwaysKeyed || options.key !== undefined, d.maxKeys),
    ),
    maxQueued: count(operator, 'maxQueued', orDefault(options.maxQueued, d.maxQueued), 0),
    overflow: oneOf(operator, 'overflow', orDefault(options.overflow, d.overflow), OVERFLOWS[priority ? 'ranked' : 'plain']),
    order: oneOf(operator, 'order', orDefault(options.order, d.order), choices.orders),
    fairness,
    priority,
    settles: oneOf(operator, 'errors', orDefault(options.errors, d.errors), ['settle', 'propagate']) === 'settle',
    timeoutMs: positive(operator, 'timeoutMs', orDefault(options.timeoutMs, d.timeoutMs)),
    drains: oneOf(operator, 'onSourceError', orDefault(options.onSourceError, d.onSourceError), ['abort', 'flush', 'drain']) !== 'abort',
    onEvent: safeSink(callback(operator, 'onEvent', options.onEvent)),
    scheduler: schedulerOption(operator, 'scheduler', options.scheduler),
  };
}

/** Among urgent and less urgent items age is no reason to be dropped; among equals nothing is lowest. */
const OVERFLOWS = {
  plain: ['error', 'dropOldest', 'dropNewest', 'latest'],
  ranked: ['error', 'dropNewest', 'dropLowest'],
} as const;

function room(operator: string, options: SlotOptions): Pick<SlotConfig<never, never>, 'concurrency' | 'concurrency$' | 'limiter'> {
  const { concurrency = SLOT_DEFAULTS.concurrency } = options;
  const limiter = limiterOption(operator, options.limiter, options.concurrency);
  if (limiter) return { limiter, concurrency: Infinity, concurrency$: undefined };
  if (isObservable(concurrency)) return { limiter, concurrency: SLOT_DEFAULTS.concurrency, concurrency$: concurrency };
  return { limiter, concurrency: count(operator, 'concurrency', concurrency), concurrency$: undefined };
}

function turns<T>(operator: string, fairness: unknown, priorities: boolean): Pick<SlotConfig<T, never>, 'fairness' | 'priority'> {
  if (fairness === 'roundRobin' || fairness === 'fifo') return { fairness, priority: undefined };
  const { kind, priority } = Object(fairness) as { kind?: unknown; priority?: (item: T) => number };
  const words = "'roundRobin', 'fifo'";
  if (!priorities) throw new FlowConfigError(operator, 'fairness', `one of ${words}`, fairness);
  if (kind !== 'priority' || typeof priority !== 'function')
    throw new FlowConfigError(operator, 'fairness', `${words} or { kind: 'priority', priority }`, fairness);
  return {
    fairness: 'priority',
    priority: (item) => {
      const level: unknown = ask(operator, 'priority', priority, item);
      if (typeof level === 'number' && level >= 0 && level < Infinity) return level;
      throw unusable(operator, 'priority', 'a finite number >= 0', level);
    },
  };
}
