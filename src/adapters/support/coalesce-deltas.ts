import type { MonoTypeOperatorFunction, SchedulerLike } from 'rxjs';
import { Observable } from 'rxjs';
import {
  attach,
  checked,
  createPace,
  durationMs,
  oneOf,
  optional,
  positive,
  schedulerOption,
  trampoline,
} from '../../../operators/toolkit.js';

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
  pace: /* @__PURE__ */ oneOf('time', 'frame'),
  maxWaitMs: /* @__PURE__ */ optional(durationMs),
  maxChars: positive,
  scheduler: schedulerOption,
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
  const settings = checked(operator, options, defaults as typeof DELTA_DEFAULTS, deltaChecks, within);
  const { maxChars } = settings;
  return (source) =>
    new Observable((to) => {
      /** By key, in the order of their first pieces. */
      const waiting = new Map<string, E>();
      let chars = 0;

      const enqueue = trampoline(to);
      const pace = createPace(settings, 16, () => {
        enqueue(flush);
      });

      const flush = (): void => {
        const ready = [...waiting.values()];
        forget();
        for (const event of ready) to.next(event);
      };
      const forget = (): void => {
        waiting.clear();
        chars = 0;
      };

      const accept = (event: E): void => {
        const name = key(event);
        if (name === undefined) {
          flush();
          to.next(event);
          return;
        }
        const added = text(event).length;
        if (chars + added > maxChars || [...waiting].some(([other, held]) => other !== name && !beside(held, event))) flush();
        // Who was handed that may have left.
        if (to.closed) return;
        if (waiting.size === 0) pace.arm();
        const before = waiting.get(name);
        waiting.set(name, before === undefined ? event : join(before, event));
        chars += added;
        if (chars >= maxChars) flush();
      };

      to.add(() => {
        pace.stop();
        forget();
      });
      attach(source, to, {
        next: (event) => {
          enqueue(accept, event);
        },
        error: (error) => {
          enqueue(() => {
            flush();
            to.error(error);
          });
        },
        complete: () => {
          enqueue(() => {
            flush();
            to.complete();
          });
        },
      });
    });
}
