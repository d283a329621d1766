import type { MonoTypeOperatorFunction, Observable, SchedulerLike } from 'rxjs';
import { map, mergeMap } from 'rxjs';
import { check, streamOf } from '../../../operators/build.js';
import { coalesce } from '../../../operators/index.js';

/**
 * How fast the deltas of a stream are handed on; the same for every protocol.
 * @stable
 */
export interface DeltaOptions {
  /** What lets deltas go: `'time'`, or `'frame'`: the browser's next animation frame, where frames come. @defaultValue 'time' */
  readonly pace?: 'time' | 'frame';
  /** Longest a delta waits for others, in ms; 0 = to the end of the current frame, Infinity = no limit. @defaultValue 16, with `pace: 'frame'` 100 */
  readonly maxWaitMs?: number;
  /** Most characters that wait; a longer delta goes alone. @defaultValue 4096 */
  readonly maxChars?: number;
  /** Clock and timer. @defaultValue `asyncScheduler` */
  readonly scheduler?: SchedulerLike;
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
  /** Whether `next` may wait beside a delta of another text, and so be merged into what stands before that one. */
  readonly beside: (waiting: E, next: E) => boolean;
}

/** The options of `coalesceDeltas` as they are checked, for an adapter that has more of its own. */
export const deltaChecks = {
  pace: /* @__PURE__ */ check.oneOf('time', 'frame'),
  maxWaitMs: /* @__PURE__ */ check.optional(check.durationMs),
  maxChars: check.positive,
  scheduler: check.scheduler,
};

/**
 * Merges the deltas of each text with one another. Deltas of several texts wait side by side, so that texts which come by turns are merged as
 * well; they are let go in the order in which their first pieces came. Any other event goes behind all that waits, and at once.
 *
 * @param operator - whose options they are, in errors
 * @param within - what they are part of there, with a dot
 * @param defaults - of options that are left out
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range.
 */
export function coalesceDeltas<E>(
  operator: string,
  { key, text, join, beside }: DeltaRule<E>,
  options: DeltaOptions = {},
  within = '',
  defaults: DeltaOptions = DELTA_DEFAULTS,
): MonoTypeOperatorFunction<E> {
  const { maxChars, maxWaitMs, pace, scheduler } = check.options(operator, options, defaults as typeof DELTA_DEFAULTS, deltaChecks, within);
  const merging = coalesce<Waiting<E>>({
    pace,
    scheduler,
    ...(maxWaitMs !== undefined && { maxWaitMs }),
    maxSize: Infinity,
    maxWeight: maxChars,
    weigh: ({ name, event }) => (name === undefined ? 0 : text(event).length),
    passThrough: ({ name }) => name === undefined,
    compatible: (waiting, next) => eventsOf(waiting).every(([name, event]) => name === next.name || beside(event, next.event)),
    merge: (waiting, next) => {
      const all = waiting.all ?? new Map([[waiting.name, waiting.event]]);
      const before = all.get(next.name);
      all.set(next.name, before === undefined ? next.event : join(before, next.event));
      return { ...waiting, all };
    },
  });
  return (source) =>
    (streamOf<E>(source) as Observable<E>).pipe(
      map((event) => ({ name: key(event), event })),
      merging,
      mergeMap(({ event, all }) => all?.values() ?? [event]),
    );
}

/** The deltas that wait: the first one, and with others all of them by their keys, in the order of their first pieces. */
interface Waiting<E> {
  /** Undefined for an event that never waits. */
  readonly name: string | undefined;
  readonly event: E;
  readonly all?: Map<string | undefined, E>;
}

function eventsOf<E>({ name, event, all }: Waiting<E>): readonly (readonly [string | undefined, E])[] {
  return all === undefined ? [[name, event]] : [...all];
}
