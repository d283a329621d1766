import type { MonoTypeOperatorFunction, SchedulerLike, Subscriber } from 'rxjs';
import { Observable } from 'rxjs';
import { SequenceBuffer } from './kernel/queues/sequence-buffer.js';
import { unusable } from './options/answers.js';
import { ask } from './options/ask.js';
import { SequenceError } from './options/errors.js';
import type { FlowSink, Note } from './options/events.js';
import { EVENT_CHECKS, teller } from './options/events.js';
import { DEFAULT_LANE } from './options/lanes.js';
import { check, checked, countFromZero, durationMs, oneOf, requiredFunction } from './options/options.js';
import { Alarm, schedulerOption } from './shell/alarm.js';
import type { Handlers } from './shell/connect.js';
import { connect } from './shell/connect.js';
import type { Trampoline } from './shell/trampoline.js';
import { trampoline } from './shell/trampoline.js';

export interface ResequenceOptions<T> {
  /** The number of an item: a whole number, one more than that of the item before it. */
  readonly sequence: (item: T) => number;
  /** The number of the first item. @defaultValue 0 */
  readonly first?: number;
  /** Most items that wait for a missing one; one more gives the gap up. 0 = never wait. @defaultValue 1000 */
  readonly maxQueued?: number;
  /** Longest an item waits for a missing one, in ms; then the gap is given up. Infinity = until the source completes. @defaultValue Infinity */
  readonly maxGapWaitMs?: number;
  /** What giving up means: the stream errors with `SequenceError`, or goes on without the missing items. @defaultValue 'error' */
  readonly onGap?: 'error' | 'skip';
  /** Whether a number that comes again is dropped, or errors the stream with `SequenceError`. @defaultValue 'drop' */
  readonly onDuplicate?: 'drop' | 'error';
  /** At an error of the source, of `sequence` or of a duplicate: drop what waits, or emit it first, in order, without the missing. @defaultValue 'abort' */
  readonly onSourceError?: 'flush' | 'abort';
  /** Clock and timer of `maxGapWaitMs`. @defaultValue `asyncScheduler` */
  readonly scheduler?: SchedulerLike;
  /** Told of dropped items (`dropped`), gaps passed over (`gapSkipped`) and items given up (`cancelled`). @defaultValue none */
  readonly onEvent?: FlowSink;
  /** What events call it, as `instance`. @defaultValue a number of its own */
  readonly name?: string;
}

/**
 * Puts numbered items back in order: each waits until all before it have come, within bounds.
 *
 * ```text marbles/resequence
 * source  -0-2-3-1-----4-|
 *         resequence({ sequence })
 * result  -0-----(123)-4-|
 * ```
 *
 * - **Emits when** it is an item's turn: at once for an item in its place, and all that waited for it right behind.
 * - **Holds at most** `maxQueued` items, and what the consumer itself sends into the source while it is handed an item.
 * - **Drops** a number that came before, and one whose turn has passed; with `onGap: 'skip'` it goes on without what is missing.
 * - **Completes when** the source completes. When items still wait then, the gap is given up.
 * - **Errors when** a gap is given up or a number comes twice with `onDuplicate: 'error'` (`SequenceError`), the source
 *   errors, or `sequence` throws or returns no whole number (`CallbackError`).
 * - **On unsubscribe** what waits is dropped and its timer is cleared.
 *
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range.
 * @example
 * ```ts
 * import { of } from 'rxjs';
 * import { resequence } from 'sluice/operators';
 *
 * const seen: number[] = [];
 * of(1, 0, 3, 2).pipe(resequence({ sequence: (n) => n })).subscribe((n) => seen.push(n));
 * seen; // => [0, 1, 2, 3]
 * ```
 * @see {@link batchMap} and {@link bulkheadMap} with `order: inputOrder()`, which keep the order of their own results.
 */
export function resequence<T>(options: ResequenceOptions<T>): MonoTypeOperatorFunction<T> {
  const settings = readOptions(options);
  return (source) =>
    new Observable((subscriber) => {
      const resequencer = new Resequencer(settings, subscriber);
      subscriber.add(() => {
        resequencer.stop();
      });
      connect(source, subscriber, resequencer);
    });
}

type Settings<T> = ReturnType<typeof readOptions<T>>;

function readOptions<T>(options: ResequenceOptions<T>) {
  const waits = { maxQueued: 1000, maxGapWaitMs: Infinity };
  return checked('resequence', options, { first: 0, ...waits, onGap: 'error', onDuplicate: 'drop', onSourceError: 'abort' } as const, {
    first: wholeNumber,
    maxQueued: countFromZero,
    maxGapWaitMs: durationMs,
    onGap: oneOf('error', 'skip'),
    onDuplicate: oneOf('drop', 'error'),
    onSourceError: oneOf('flush', 'abort'),
    sequence: requiredFunction,
    scheduler: schedulerOption,
    ...EVENT_CHECKS,
  });
}

const wholeNumber = /* @__PURE__ */ check<number>('a whole number', (value: number) => Number.isSafeInteger(value));

/** One subscription of `resequence`. Everything that arrives while an item is being handed out waits its turn. */
class Resequencer<T> implements Handlers<T> {
  readonly #settings: Settings<T>;
  readonly #to: Subscriber<T>;
  readonly #enqueue: Trampoline;
  readonly #alarm: Alarm;
  readonly #tell: ((note: Note) => void) | undefined;
  readonly #buffer: SequenceBuffer<T>;

  constructor(settings: Settings<T>, to: Subscriber<T>) {
    this.#settings = settings;
    this.#to = to;
    this.#enqueue = trampoline(to);
    this.#buffer = new SequenceBuffer(settings.first);
    this.#alarm = new Alarm(settings.scheduler, () => {
      this.#enqueue(() => {
        this.#giveUpOverdue();
      });
    });
    this.#tell = teller('resequence', settings, () => this.#alarm.now());
  }

  next(item: T): void {
    this.#enqueue(this.#accept, item);
  }

  error(error: unknown): void {
    this.#enqueue(() => {
      this.#fail(error);
    });
  }

  complete(): void {
    this.#enqueue(() => {
      this.#giveUp(Infinity, this.#settings.onGap);
      if (!this.#to.closed) this.#to.complete();
    });
  }

  /** The consumer has left, or the stream has ended. */
  stop(): void {
    this.#alarm.clear();
    const { held } = this.#buffer;
    if (held > 0) this.#tell?.({ type: 'cancelled', lane: DEFAULT_LANE, count: held });
    this.#buffer.clear();
  }

  readonly #accept = (item: T): void => {
    try {
      const number = numberOf(this.#settings.sequence, item);
      // The consumer may have left in `sequence`.
      if (this.#to.closed) return;
      const status = this.#buffer.statusOf(number);
      if (status === 'next') {
        this.#buffer.pass();
        this.#to.next(item);
        this.#handOut();
      } else if (status === 'early') {
        this.#hold(number, item);
      } else {
        this.#drop(number, status);
      }
    } catch (error) {
      this.#fail(error);
    }
  };

  #hold(number: number, item: T): void {
    const { maxQueued, maxGapWaitMs, onGap } = this.#settings;
    this.#buffer.hold(number, item, maxGapWaitMs === Infinity ? 0 : this.#alarm.now());
    if (this.#buffer.held > maxQueued) this.#giveUp(this.#buffer.next, onGap);
    else this.#setAlarm();
  }

  #drop(number: number, policy: 'duplicate' | 'late'): void {
    if (policy === 'duplicate' && this.#settings.onDuplicate === 'error') throw new SequenceError('resequence', number);
    this.#tell?.({ type: 'dropped', lane: DEFAULT_LANE, policy });
  }

  /** Emits whatever has nothing missing before it. A consumer that leaves empties the buffer. */
  #handOut(): void {
    while (this.#buffer.isReady) this.#to.next(this.#buffer.take());
    if (this.#buffer.held === 0) this.#alarm.clear();
  }

  /** Gives up whatever is missing up to a number. */
  #giveUp(last: number, onGap: 'error' | 'skip'): void {
    while (this.#buffer.held > 0 && this.#buffer.next <= last) {
      const { next, missing, held } = this.#buffer;
      if (onGap === 'error') {
        this.#to.error(new SequenceError('resequence', next, missing, held));
        return;
      }
      this.#tell?.({ type: 'gapSkipped', lane: DEFAULT_LANE, missing, held });
      this.#buffer.skip();
      this.#handOut();
    }
  }

  #giveUpOverdue(): void {
    const { maxGapWaitMs, onGap } = this.#settings;
    const now = this.#alarm.now();
    for (let { oldest } = this.#buffer; oldest !== undefined && oldest.since + maxGapWaitMs <= now; { oldest } = this.#buffer) {
      this.#giveUp(oldest.number, onGap);
    }
    this.#setAlarm();
  }

  #setAlarm(): void {
    const { oldest } = this.#buffer;
    if (oldest !== undefined) this.#alarm.set(oldest.since + this.#settings.maxGapWaitMs);
  }

  #fail(error: unknown): void {
    if (this.#settings.onSourceError === 'flush') this.#giveUp(Infinity, 'skip');
    this.#to.error(error);
  }
}

/** @throws CallbackError when it is no whole number */
function numberOf<T>(sequence: (item: T) => number, item: T): number {
  const number = ask('resequence', 'sequence', sequence, item);
  if (Number.isSafeInteger(number)) return number;
  throw unusable('resequence', 'sequence', 'a whole number', number);
}
