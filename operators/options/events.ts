import { callback, filled } from './options.js';
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
  | 'leading'
  | 'oversize'
  | 'complete'
  | 'error'
  | 'split'
  | 'retry';

/**
 * What operators report through `onEvent`. Fields are counts, milliseconds and words from closed sets: never an item,
 * a key or a prompt. A listener that throws is ignored.
 */
export type FlowEvent = Happening & Stamp;

/** What every event carries beside its own fields. */
export interface Stamp {
  /** When it happened, in ms on the operator's clock. */
  readonly at?: number;
  /** Who tells it: the operator's `name`, else a number that each subscription or handle has for itself. */
  readonly instance?: string;
  /** The call's own batch; `parentBatchId` is the one whose failed call it repeats or is a part of. */
  readonly batchId?: string;
  readonly parentBatchId?: string;
  /** Number of the item, or of the first of several, in the order of acceptance. */
  readonly seq?: number;
  /** Numbers of all items it is about, when they are more than one and not in a row. */
  readonly seqs?: readonly number[];
}

/** What can happen. */
export type Happening =
  | { readonly type: 'accepted'; readonly operator: string; readonly lane: string; readonly queued: number }
  | { readonly type: 'dropped'; readonly operator: string; readonly lane: string; readonly policy: string }
  | { readonly type: 'pressure'; readonly operator: string; readonly lane: string; readonly high: boolean; readonly queued: number }
  /** 10,000 wait in a queue without a bound: told once, and again when it has been empty in between. */
  | { readonly type: 'queueLong'; readonly operator: string; readonly lane: string; readonly queued: number }
  | { readonly type: 'expired'; readonly operator: string; readonly lane: string; readonly deadlineMs: number }
  | {
      readonly type: 'batchFormed';
      readonly operator: string;
      readonly lane: string;
      readonly reason: FlushReason;
      readonly size: number;
      readonly weight: number;
      readonly waitMs: number;
    }
  | {
      readonly type: 'attemptStarted';
      readonly operator: string;
      readonly lane: string;
      readonly batchId: string;
      readonly size: number;
      readonly weight: number;
      readonly attempt: number;
      readonly splitDepth: number;
      readonly executing: number;
    }
  | {
      readonly type: 'attemptEnded';
      readonly operator: string;
      readonly lane: string;
      readonly batchId: string;
      readonly size: number;
      readonly attempt: number;
      /** `'failed'` where errors are not classified. */
      readonly outcome: 'ok' | 'cancelled' | 'failed' | ErrorClass;
      readonly latencyMs: number;
    }
  | {
      readonly type: 'retryScheduled';
      readonly operator: string;
      readonly lane: string;
      readonly class: ErrorClass;
      readonly size: number;
      readonly attempt: number;
      readonly delayMs: number;
    }
  | {
      readonly type: 'split';
      readonly operator: string;
      readonly lane: string;
      readonly size: number;
      readonly parts: number;
      readonly depth: number;
    }
  | {
      readonly type: 'blamed';
      readonly operator: string;
      readonly lane: string;
      readonly size: number;
      readonly blamed: number;
      readonly round: number;
    }
  | {
      readonly type: 'settled';
      readonly operator: string;
      readonly lane: string;
      readonly outcome: 'fulfilled' | 'rejected';
      readonly attempts: number;
      readonly totalMs: number;
    }
  | { readonly type: 'cancelled'; readonly operator: string; readonly lane: string; readonly count: number }
  /** The answer of a call was dropped unread, and was collected: the call was given up, and its permit goes back. */
  | { readonly type: 'abandoned'; readonly operator: string; readonly lane: string }
  | { readonly type: 'gapSkipped'; readonly operator: string; readonly lane: string; readonly missing: number; readonly held: number }
  | { readonly type: 'swallowed'; readonly operator: string; readonly lane: string }
  | { readonly type: 'hedged'; readonly operator: string; readonly lane: string; readonly attempt: number; readonly afterMs: number }
  | { readonly type: 'throttled'; readonly operator: string; readonly pauseMs: number }
  /** A usage beyond all reason was reported: so many tokens were charged instead. */
  | { readonly type: 'usageClamped'; readonly operator: string; readonly reported: number; readonly charged: number }
  | { readonly type: 'limitChanged'; readonly operator: string; readonly concurrency: number }
  | {
      readonly type: 'breakerChanged';
      readonly operator: string;
      readonly state: 'closed' | 'open' | 'halfOpen';
      /** How long it stays open, 0 otherwise. */
      readonly openMs: number;
    }
  | { readonly type: 'drained'; readonly operator: string };

export type FlowSink = (event: FlowEvent) => void;

/** An event as an operator tells it. */
export type Note = Unsigned<FlowEvent>;
type Unsigned<E> = E extends unknown ? Omit<E, 'operator' | 'at' | 'instance'> : never;

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
 * Who tells the events of one subscription or handle: adds who and when, and swallows what the listener throws. Undefined when nobody listens. The
 * options have been checked.
 */
export function teller(operator: string, { onEvent, name }: ListenedOptions, now: () => number): ((note: Note) => void) | undefined {
  if (onEvent === undefined) return undefined;
  const instance = instanceOf(name);
  return (note) => {
    try {
      onEvent({ ...note, operator, instance, at: now() });
    } catch {
      // A listener's fault is its own.
    }
  };
}

/** The `onEvent` option. @throws FlowConfigError */
export function listener(operator: string, option: string, sink: FlowSink | undefined): FlowSink | undefined {
  return safeSink(callback(operator, option, sink));
}

/** The checks of {@link ListenedOptions}; `teller` swallows what the listener throws. */
export const listened = {
  onEvent: callback<FlowSink | undefined>,
  name: (operator: string, option: string, name: string | undefined): string | undefined =>
    name === undefined ? name : filled(operator, option, name),
};

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
