import type { MonoTypeOperatorFunction, SchedulerLike, Subscriber } from 'rxjs';
import { Observable } from 'rxjs';
import { SequenceBuffer } from './kernel/queues/sequence-buffer.js';
import { boundsOf, room } from './kernel/waiting/bounds.js';
import { unusable } from './options/answers.js';
import { ask } from './options/ask.js';
import { RESEQUENCE } from './options/defaults.js';
import { SequenceError } from './options/errors.js';
import type { FlowSink } from './options/events.js';
import { EVENT_CHECKS, teller } from './options/events.js';
import { DEFAULT_LANE } from './options/lanes.js';
import { checked, countFromZero, durationMs, oneOf, requiredFunction } from './options/options.js';
import { attach } from './shell/streams/connect.js';
import { trampoline } from './shell/streams/trampoline.js';
import { Alarm, schedulerOption } from './shell/time/alarm.js';

const NAME = 'resequence';

/** @stable */
export interface ResequenceOptions {
  /** Most items that wait for a missing one; with one more the gap is an error or skipped. 0 = never wait. @defaultValue 1000 */
  readonly maxQueued?: number;
  /** Longest an item waits for a missing one, in ms; then the gap is an error or skipped, as `onGap` says. Infinity = until the source completes. @defaultValue Infinity */
  readonly maxWaitMs?: number;
  /** What happens at a gap that is no longer waited for: the stream errors with `SequenceError`, or continues without the missing items. @defaultValue 'error' */
  readonly onGap?: 'error' | 'skip';
  /** At an error of the source or of `sequence`: drop what waits, or emit it first, in order, without the missing. @defaultValue 'abort' */
  readonly onSourceError?: 'flush' | 'abort';
  /** Clock and timer of `maxWaitMs`. @defaultValue `asyncScheduler` */
  readonly scheduler?: SchedulerLike;
  /** Listener for dropped items (`dropped`), skipped gaps (`gapSkipped`) and cancelled items (`cancelled`). @defaultValue none */
  readonly onEvent?: FlowSink;
  /** What events call it, as `instance`. @defaultValue a number of its own */
  readonly name?: string;
}

/**
 * Puts numbered items back in order: each waits until all before it have come, within bounds.
 *
 * ```text marbles/resequence
 * source  -0-2-3-1-----4-|
 *         resequence(sequence)
 * result  -0-----(123)-4-|
 * ```
 *
 * - **Emits when** it is an item's turn: at once for an item in its place, and all that waited for it right behind.
 * - **Holds at most** `maxQueued` items, and what the consumer itself sends into the source while it is handed an item.
 * - **Drops** a number that came before, and one whose turn has passed; with `onGap: 'skip'` the stream continues without the missing items.
 * - **Completes when** the source completes. When items still wait then, `onGap` applies.
 * - **Errors when** a gap is no longer waited for under `onGap: 'error'` (`SequenceError`), the source errors, or `sequence` throws or returns no
 *   whole number (`CallbackError`).
 * - **On unsubscribe** what waits is dropped and its timer is cleared.
 *
 * @stable
 * @param sequence - The number of an item: a whole number, one more than that of the item before it. The first item is number 0.
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when `sequence` is no function, or an option is unknown or out of range.
 * @example
 * ```ts
 * import { of } from 'rxjs';
 * import { resequence } from 'sluice/operators';
 *
 * const seen: number[] = [];
 * of(1, 0, 3, 2).pipe(resequence((n) => n)).subscribe((n) => seen.push(n));
 * seen; // => [0, 1, 2, 3]
 * ```
 * @see {@link batchMap} and {@link bulkheadMap} with `order: inputOrder()`, which keep the order of their own results.
 */
export function resequence<T>(sequence: (item: T) => number, options: ResequenceOptions = {}): MonoTypeOperatorFunction<T> {
  requiredFunction(NAME, 'sequence', sequence);
  const settings = readOptions(options);
  return (source) =>
    new Observable((subscriber) => {
      resequenceInto(sequence, settings, source, subscriber);
    });
}

type Settings = ReturnType<typeof readOptions>;

function readOptions(options: ResequenceOptions) {
  const settings = checked(NAME, options, RESEQUENCE, {
    maxQueued: countFromZero,
    maxWaitMs: durationMs,
    onGap: oneOf('error', 'skip'),
    onSourceError: oneOf('flush', 'abort'),
    scheduler: schedulerOption,
    ...EVENT_CHECKS,
  });
  return { ...settings, bounds: boundsOf(settings) };
}

/** One subscription. Everything that arrives while an item is being handed out waits its turn. */
function resequenceInto<T>(sequence: (item: T) => number, settings: Settings, source: Observable<T>, to: Subscriber<T>): void {
  const { bounds, maxWaitMs, onGap, onSourceError } = settings;
  const buffer = new SequenceBuffer<T>(0);
  const enqueue = trampoline(to, fail);
  const alarm = new Alarm(settings.scheduler, () => {
    enqueue(giveUpOverdue);
  });
  const tell = teller(NAME, settings, () => alarm.now());

  to.add(() => {
    alarm.clear();
    if (buffer.held > 0) tell?.({ type: 'cancelled', lane: DEFAULT_LANE, count: buffer.held });
    buffer.clear();
  });
  attach(source, to, {
    next: (item) => {
      enqueue(accept, item);
    },
    error: (error) => {
      enqueue(fail, error);
    },
    complete: () => {
      enqueue(() => {
        giveUp(Infinity, onGap);
        to.complete();
      });
    },
  });

  function accept(item: T): void {
    const number = numberOf(sequence, item);
    // The consumer may have left in `sequence`.
    if (to.closed) return;
    const status = buffer.statusOf(number);
    if (status === 'next') {
      buffer.pass();
      to.next(item);
      handOut();
    } else if (status === 'early') {
      buffer.hold(number, item, maxWaitMs === Infinity ? 0 : alarm.now());
      if (room(bounds, buffer.held) < 0) giveUp(buffer.next, onGap);
      else setAlarm();
    } else {
      tell?.({ type: 'dropped', lane: DEFAULT_LANE, policy: status });
    }
  }

  /** Emits whatever has nothing missing before it. A consumer that leaves empties the buffer. */
  function handOut(): void {
    while (buffer.isReady) to.next(buffer.take());
    if (buffer.held === 0) alarm.clear();
  }

  /** Gives up whatever is missing up to a number. */
  function giveUp(last: number, how: 'error' | 'skip'): void {
    while (buffer.held > 0 && buffer.next <= last) {
      const { next, missing, held } = buffer;
      if (how === 'error') {
        to.error(new SequenceError(NAME, next, missing, held));
        return;
      }
      tell?.({ type: 'gapSkipped', lane: DEFAULT_LANE, missing, held });
      buffer.skip();
      handOut();
    }
  }

  function giveUpOverdue(): void {
    const now = alarm.now();
    for (let { oldest } = buffer; oldest !== undefined && oldest.since + maxWaitMs <= now; { oldest } = buffer) {
      giveUp(oldest.number, onGap);
    }
    setAlarm();
  }

  function setAlarm(): void {
    const { oldest } = buffer;
    if (oldest !== undefined) alarm.set(oldest.since + maxWaitMs);
  }

  function fail(error: unknown): void {
    if (onSourceError === 'flush') giveUp(Infinity, 'skip');
    to.error(error);
  }
}

/** @throws CallbackError when it is no whole number */
function numberOf<T>(sequence: (item: T) => number, item: T): number {
  const number = ask(NAME, 'sequence', sequence, item);
  if (Number.isSafeInteger(number)) return number;
  throw unusable(NAME, 'sequence', 'a whole number', number);
}
