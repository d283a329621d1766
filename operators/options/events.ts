import type { ItemNote } from '../kernel/machine/batch-host.js';
import type { RepairNote } from '../kernel/repair/rule.js';
import { callback, nonEmpty, optional } from './options.js';
import type { ErrorClass } from './types.js';

/** Why a batch was closed. */
export type FlushReason =
  | 'size'
  | 'weight'
  | 'time'
  | 'urgent'
  | 'flush'
  | 'closeWhen'
  | 'incompatible'
  | 'oversize'
  | 'complete'
  | 'error'
  | 'split'
  | 'retry';

/**
 * What operators report through `onEvent`. Fields are counts, milliseconds and words from closed sets: never an item,
 * a key or a prompt. A listener that throws is ignored.
 * @stable
 */
export type FlowEvent = FlowEventBody & FlowEventHeader;

/** What every event carries beside its own fields. */
export interface FlowEventHeader {
  /** The operator or factory that tells it, for example `batchMap`. */
  readonly operator: string;
  /** When it happened, in ms on the operator's clock. */
  readonly at?: number;
  /** Its source: the operator's `name`, else a number of its own for each subscription or handle. */
  readonly instance?: string;
  /** The call's own batch; `parentBatchId` is the one whose failed call it repeats or is a part of. */
  readonly batchId?: string;
  readonly parentBatchId?: string;
  /** Number of the item, or of the first of several, in the order of acceptance. */
  readonly seq?: number;
  /** Numbers of all items it is about, when they are more than one and not in a row. */
  readonly seqs?: readonly number[];
  /** Of an attempt to call a model: the same as in its `CallRecord`. */
  readonly traceId?: string;
  readonly spanId?: string;
}

/** What can happen. */
export type FlowEventBody =
  | ItemNote
  | (RepairNote & { readonly lane: string })
  | Readonly<
      | { type: 'accepted'; lane: string; queued: number }
      | { type: 'pressure'; lane: string; high: boolean; queued: number }
      | { type: 'batchFormed'; lane: string; reason: FlushReason; size: number; weight: number; waitMs: number }
      | {
          type: 'attemptStarted';
          lane: string;
          batchId: string;
          size: number;
          weight: number;
          attempt: number;
          splitDepth: number;
          executing: number;
        }
      | {
          type: 'attemptEnded';
          lane: string;
          batchId: string;
          size: number;
          attempt: number;
          /** `'failed'` where errors are not classified. */
          outcome: 'ok' | 'cancelled' | 'failed' | ErrorClass;
          latencyMs: number;
        }
      /** The answer of a call was dropped unread, and was collected: the call was cancelled, and its permit is released. */
      | { type: 'abandoned'; lane: string }
      /** A document of `createStages` is begun: `executing` are in progress with it, `queued` wait. `batchId` is its number, with which the ids of its requests begin. */
      | { type: 'documentStarted'; executing: number; queued: number }
      /** A document is over, `totalMs` after it was begun. Of its `items` so many have `failed`; `'cancelled'` when the consumer has left. */
      | { type: 'documentEnded'; outcome: 'fulfilled' | 'rejected' | 'cancelled'; totalMs: number; items: number; failed: number }
      /** An item of a document is over: it has left the last stage, or `lane` is the stage it has failed in. */
      | { type: 'itemEnded'; lane: string; outcome: 'fulfilled' | 'rejected' }
      | { type: 'gapSkipped'; lane: string; missing: number; held: number }
      | { type: 'swallowed'; lane: string }
      | { type: 'hedged'; lane: string; attempt: number; afterMs: number }
      /** A request needed no call of its own: its answer was known, or on its way for another one. */
      | { type: 'cached'; lane: string; outcome: 'hit' | 'shared' }
      /** The store of answers failed or was too slow; the request continues without it. */
      | { type: 'storeFailed'; action: 'get' | 'set' | 'delete' }
      | { type: 'throttled'; pauseMs: number }
      /** An answer asked for a pause of more than a day: it lasts a day. */
      | { type: 'hintClamped'; askedMs: number; pauseMs: number }
      /** A usage beyond all reason was reported: so many tokens of this unit were charged instead. */
      | { type: 'usageClamped'; unit: string; reported: number; charged: number }
      /** A job was estimated to cost more than its rate pays in one window: so many tokens of this unit were charged instead. */
      | { type: 'costClamped'; unit: string; cost: number; charged: number }
      /** The headers of responses show that the provider charges `max_tokens` of this model when a request comes in: so are its estimates from now on. */
      | { type: 'chargedOnArrival'; model: string }
      /**
       * A limiter with `enforce: false` has let a job go that it would have held back or refused. Its rates and pauses would have held the job for `waitMs`:
       * 0 when only a slot was missing, Infinity when no wait would have helped. `queued` counts such jobs under way, this one included.
       */
      | { type: 'wouldWait'; lane: string; limitedBy: string; waitMs: number; queued: number }
      | { type: 'limitChanged'; concurrency: number }
      /** The store of shared limits does not answer: everything that needs credit waits, until `storeUp`. */
      | { type: 'storeDown' }
      | { type: 'storeUp' }
      /** The spent part of a budget's limit has reached `warnAt` of it. `position` is that of the limit in its options; amounts are in `unit`. */
      | { type: 'budgetLow'; position: number; unit: 'usd' | 'tokens'; spent: number; limit: number }
      /** Calls have cost more than estimated, and are above the limit by `over`. */
      | { type: 'budgetOverrun'; position: number; unit: 'usd' | 'tokens'; limit: number; over: number }
      /** `openMs` is how long it stays open, 0 otherwise. */
      | { type: 'breakerChanged'; state: 'closed' | 'open' | 'halfOpen'; openMs: number }
      | { type: 'drained' }
    >;

/** @stable */
export type FlowSink = (event: FlowEvent) => void;

/** An event before `teller` adds its source and its time. */
export type Note = Unstamped<FlowEvent>;
/**
 * Sends an event to the listener: adds `operator`, `instance` and `at`, and returns the whole event.
 * @beta
 */
export type Teller = (note: Note) => FlowEvent;
type Unstamped<E> = E extends unknown ? Omit<E, 'operator' | 'at' | 'instance'> : never;

/** Events of items, which have no lanes. */
export type LanelessNote<N = Note> = N extends unknown ? Omit<N, 'lane'> : never;

/** What is common to the options of all that tell events. */
export interface ListenedOptions {
  readonly onEvent?: FlowSink | undefined;
  /** Stands in every event as `instance`. @defaultValue a number */
  readonly name?: string | undefined;
}

let instances = 0;

/** What a subscription or handle is called in events. */
export function instanceOf(name: string | undefined): string {
  return name ?? String(++instances);
}

/**
 * Makes the function that sends the events of one subscription or handle to its `onEvent`. Undefined without a listener, so that `tell?.({ … })` costs
 * nothing then.
 *
 * - **Adds** `operator`, `instance` (the `name` option, else a number of its own) and `at`, in ms from `now()`.
 * - **The note becomes the event**: give it a fresh object each time.
 * - **Errors:** what the listener throws is ignored.
 * - **Checks** nothing: check `onEvent` with `check.callback` and `name` with `check.optional(check.nonEmpty)` first.
 *
 * @beta
 * @example
 * ```ts
 * import type { FlowEvent } from 'sluice/operators';
 * import { teller } from 'sluice/operators/build';
 *
 * const events: FlowEvent[] = [];
 * const tell = teller('createTranslator', { name: 'nightly', onEvent: (event) => events.push(event) }, () => 250);
 * tell?.({ type: 'accepted', lane: 'default', queued: 1 });
 * events; // => [{ type: 'accepted', lane: 'default', queued: 1, operator: 'createTranslator', instance: 'nightly', at: 250 }]
 * ```
 */
export function teller(operator: string, { onEvent, name }: ListenedOptions, now: () => number): Teller | undefined {
  if (onEvent === undefined) return undefined;
  const instance = instanceOf(name);
  return (note) => {
    // A copy would cost more than all else that is done for it.
    const event = note as Note & { operator: string; instance: string; at: number };
    event.operator = operator;
    event.instance = instance;
    event.at = now();
    try {
      onEvent(event);
    } catch {
      // A listener's fault is its own.
    }
    return event;
  };
}

/** The `onEvent` option. @throws FlowConfigError */
export function listener(operator: string, option: string, sink: FlowSink | undefined): FlowSink | undefined {
  return safeSink(callback(operator, option, sink));
}

/** The checks of {@link ListenedOptions}; `teller` swallows what the listener throws. */
export const EVENT_CHECKS = { onEvent: callback<FlowSink | undefined>, name: /* @__PURE__ */ optional(nonEmpty) };

/** The listener with its throws swallowed: telemetry must never break the flow it watches. */
export function safeSink(sink: FlowSink | undefined): FlowSink | undefined {
  if (sink === undefined) return undefined;
  return (event) => {
    try {
      sink(event);
    } catch {
      // A listener's fault is its own.
    }
  };
}
