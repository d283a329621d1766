import type { MonoTypeOperatorFunction, SchedulerLike } from 'rxjs';
import { Observable } from 'rxjs';
import { coalesce } from '../../../operators/coalesce.js';
import { callback, checked, connect, count, durationMs, filled, oneOf, schedulerOption } from '../../../operators/toolkit.js';
import type { FlowSink } from '../../../operators/types.js';

/** How fast the deltas of a stream are handed on; the same for every protocol. */
export interface DeltaOptions {
  /** What lets deltas go: `'time'`, or `'frame'`: the browser's next animation frame, where frames come. @defaultValue 'time' */
  readonly pace?: 'time' | 'frame';
  /** Longest a delta waits for others, in ms; 0 = to the end of the current frame, Infinity = no limit. @defaultValue 16, with `pace: 'frame'` 100 */
  readonly maxWaitMs?: number;
  /** Most characters that wait; a longer delta goes alone. @defaultValue 4096 */
  readonly maxChars?: number;
  /** Clock and timer. @defaultValue `asyncScheduler` */
  readonly scheduler?: SchedulerLike;
  /** Told of everything that was merged or waited (`batchFormed`), and of deltas given up (`cancelled`). @defaultValue none */
  readonly onEvent?: FlowSink;
  /** What events call it, as `instance`. @defaultValue a number of its own */
  readonly name?: string;
}

/** What {@link DeltaOptions} are when they are left out. */
export const DELTA_DEFAULTS = { pace: 'time', maxChars: 4096 } as const;

/** What the deltas of a protocol look like. */
export interface DeltaRule<E> {
  /** Deltas with the same key are pieces of one text. Undefined: no delta, or one that must stay as it is; it never waits. */
  readonly key: (event: E) => string | undefined;
  /** The piece of text in a delta. */
  readonly text: (event: E) => string;
  /** One delta of two with the same key; changes neither. */
  readonly join: (first: E, next: E) => E;
  /** True when a delta may not change places with those of other keys: it waits beside its own neighbours only. @defaultValue never */
  readonly isFixed?: (event: E) => boolean;
}

/** The options of `coalesceDeltas` as they are checked, for an adapter that has more of its own. */
export const deltaChecks = {
  pace: (operator: string, option: string, value: unknown) => oneOf(operator, option, value, ['time', 'frame']),
  maxWaitMs: (operator: string, option: string, value: unknown) => (value === undefined ? value : durationMs(operator, option, value)),
  maxChars: count,
  scheduler: schedulerOption,
  onEvent: callback,
  name: (operator: string, option: string, value: unknown) => (value === undefined ? value : filled(operator, option, value)),
};

/**
 * Merges the deltas of each text with one another. Deltas of several texts wait side by side, so that texts which come by turns are merged as
 * well; they are let go in the order in which their first pieces came. Any other event goes behind all that waits, and at once.
 *
 * @param operator - whose options they are, in errors
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range.
 */
export function coalesceDeltas<E extends object>(
  operator: string,
  options: DeltaOptions,
  { key, text, join, isFixed = () => false }: DeltaRule<E>,
): MonoTypeOperatorFunction<E> {
  const { pace, maxWaitMs, maxChars, scheduler, onEvent, name } = checked(operator, options, DELTA_DEFAULTS, deltaChecks);
  const mayWaitBeside = (waiting: E | Several<E>, next: E): boolean => {
    if (waiting instanceof Several) return !isFixed(next);
    return key(waiting) === key(next) || !(isFixed(waiting) || isFixed(next));
  };
  const merging = coalesce<E | Several<E>>({
    merge: (waiting, next) => merged(waiting, next as E, key, join),
    compatible: (waiting, next) => mayWaitBeside(waiting, next as E),
    passThrough: (event) => key(event as E) === undefined,
    weigh: (event) => text(event as E).length,
    pace,
    maxSize: Infinity,
    maxWeight: maxChars,
    scheduler,
    ...(maxWaitMs !== undefined && { maxWaitMs }),
    ...(onEvent !== undefined && { onEvent }),
    ...(name !== undefined && { name }),
  });
  return (source) =>
    new Observable((subscriber) => {
      connect(source.pipe(merging as unknown as MonoTypeOperatorFunction<E>), subscriber, {
        next: (event: E | Several<E>) => {
          if (event instanceof Several) for (const each of event.events) subscriber.next(each);
          else subscriber.next(event);
        },
      });
    });
}

/** Deltas of different texts that wait side by side: one for each, in the order of their first pieces. */
class Several<E> {
  constructor(readonly events: readonly E[]) {}
}

function merged<E>(waiting: E | Several<E>, next: E, key: DeltaRule<E>['key'], join: DeltaRule<E>['join']): E | Several<E> {
  const at = key(next);
  if (!(waiting instanceof Several)) return key(waiting) === at ? join(waiting, next) : new Several([waiting, next]);
  const place = waiting.events.findIndex((event) => key(event) === at);
  return new Several(
    place === -1 ? [...waiting.events, next] : waiting.events.map((event, index) => (index === place ? join(event, next) : event)),
  );
}
