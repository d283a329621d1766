import type { MonoTypeOperatorFunction, SchedulerLike } from 'rxjs';
import { map, Observable } from 'rxjs';
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
  /** Whether `next` may wait beside a delta of another text, and so be merged into what stands before that one. @defaultValue always */
  readonly beside?: (waiting: E, next: E) => boolean;
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
 * @param within - what they are part of there, with a dot
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range.
 */
export function coalesceDeltas<E>(
  operator: string,
  options: DeltaOptions,
  { key, text, join, beside = () => true }: DeltaRule<E>,
  within = '',
): MonoTypeOperatorFunction<E> {
  const { maxWaitMs, maxChars, onEvent, name, ...rest } = checked(operator, options, DELTA_DEFAULTS, deltaChecks, within);
  const merged = (waiting: Delta<E>, next: Delta<E>): Delta<E> =>
    waiting.key === next.key ? { ...waiting, event: join(waiting.event, next.event) } : waiting;
  const belongs = (waiting: Delta<E>, next: Delta<E>): boolean => waiting.key === next.key || beside(waiting.event, next.event);
  const merging = coalesce<Delta<E>>({
    merge: (first, next) => {
      const { others } = first;
      // Nearly always.
      if (first.key === next.key) return { key: first.key, event: join(first.event, next.event), others };
      const isThere = others.some(({ key }) => key === next.key);
      return { ...first, others: isThere ? others.map((delta) => merged(delta, next)) : [...others, next] };
    },
    compatible: (first, next) => belongs(first, next) && first.others.every((delta) => belongs(delta, next)),
    passThrough: (delta) => delta.key === undefined,
    weigh: (delta) => text(delta.event).length,
    maxSize: Infinity,
    maxWeight: maxChars,
    ...rest,
    ...(maxWaitMs !== undefined && { maxWaitMs }),
    ...(onEvent !== undefined && { onEvent }),
    ...(name !== undefined && { name }),
  });
  return (source) =>
    new Observable((subscriber) => {
      const keyed = source.pipe(map((event): Delta<E> => ({ key: key(event), event, others: NONE })));
      connect(keyed.pipe(merging), subscriber, {
        next: ({ event, others }) => {
          subscriber.next(event);
          for (const delta of others) subscriber.next(delta.event);
        },
      });
    });
}

const NONE: readonly never[] = [];

/** What waits, or passes. */
interface Delta<E> {
  /** Asked for once. */
  readonly key: string | undefined;
  readonly event: E;
  /** Of other texts that wait beside it, in the order of their first pieces. */
  readonly others: readonly Delta<E>[];
}
