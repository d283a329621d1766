import type { MonoTypeOperatorFunction, SchedulerLike } from 'rxjs';
import { Observable } from 'rxjs';
import {
  checked,
  connect,
  count,
  DEFAULT_LANE,
  durationMs,
  FRAME_WAIT_MS,
  listened,
  maybe,
  Pace,
  schedulerOption,
  teller,
  words,
} from '../../../operators/toolkit.js';
import type { FlowSink, FlushReason } from '../../../operators/types.js';

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
  pace: /* @__PURE__ */ words('time', 'frame'),
  maxWaitMs: /* @__PURE__ */ maybe(durationMs),
  maxChars: count,
  scheduler: schedulerOption,
  ...listened,
};

/**
 * Merges the deltas of each text with one another. Deltas of several texts wait side by side, so that texts which come by turns are merged as
 * well; they are let go in the order in which their first pieces came. Any other event goes behind all that waits, and at once.
 *
 * @param operator - whose options they are, in errors
 * @param within - what they are part of there, with a dot
 * @param defaults - beside the usual ones
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range.
 */
export function coalesceDeltas<E>(
  operator: string,
  options: DeltaOptions,
  { key, text, join, beside = () => true }: DeltaRule<E>,
  within = '',
  defaults: Pick<DeltaOptions, 'scheduler'> = {},
): MonoTypeOperatorFunction<E> {
  const settings = checked(operator, options, { ...DELTA_DEFAULTS, ...defaults }, deltaChecks, within);
  const { maxChars, maxWaitMs = settings.pace === 'frame' ? FRAME_WAIT_MS : 16 } = settings;
  return (source) =>
    new Observable((to) => {
      /** By key, in the order of their first pieces. */
      const waiting = new Map<string, E>();
      /** What was let go, and is handed on one by one: what comes meanwhile goes behind it. */
      const out: E[] = [];
      let size = 0;
      let chars = 0;
      let since = 0;
      let isHandingOn = false;
      let end: (() => void) | undefined;

      const pace = new Pace({ ...settings, maxWaitMs }, () => {
        flush('time');
        handOn();
      });
      const tell = teller('coalesce', settings, () => pace.now());

      const flush = (reason: FlushReason): void => {
        if (size === 0) return;
        tell?.({ type: 'batchFormed', lane: DEFAULT_LANE, reason, size, weight: chars, waitMs: pace.now() - since });
        out.push(...waiting.values());
        forget();
      };
      const forget = (): void => {
        waiting.clear();
        size = chars = 0;
      };
      const handOn = (): void => {
        if (isHandingOn) return;
        isHandingOn = true;
        while (out.length > 0) to.next(out.shift() as E);
        isHandingOn = false;
        end?.();
      };
      const finish = (reason: FlushReason, tellEnd: () => void): void => {
        flush(reason);
        end = tellEnd;
        handOn();
      };
      const fail = (error: unknown): void => {
        finish('error', () => {
          to.error(error);
        });
      };

      const accept = (event: E): void => {
        const name = key(event);
        if (name === undefined) {
          flush('incompatible');
          out.push(event);
          return;
        }
        const added = text(event).length;
        if (chars + added > maxChars) flush('weight');
        else if ([...waiting].some(([other, held]) => other !== name && !beside(held, event))) flush('incompatible');
        const before = waiting.get(name);
        waiting.set(name, before === undefined ? event : join(before, event));
        chars += added;
        if (size++ === 0 && tell) since = pace.now();
        if (chars >= maxChars) flush('weight');
        else if (size === 1) pace.arm();
      };

      to.add(() => {
        pace.stop();
        out.length = 0;
        if (size > 0) tell?.({ type: 'cancelled', lane: DEFAULT_LANE, count: size });
        forget();
      });
      connect(source, to, {
        next: (event) => {
          try {
            accept(event);
          } catch (error) {
            fail(error);
          }
          handOn();
        },
        error: fail,
        complete: () => {
          finish('complete', () => {
            to.complete();
          });
        },
      });
    });
}
