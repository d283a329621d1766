import type { SchedulerLike } from 'rxjs';
import { Subscription } from 'rxjs';
import { LONGEST_DELAY_MS } from './scheduler.js';

export { schedulerOption } from './scheduler.js';

/** Differences below this are rounding of the clock, not time: one step of a double at today's epoch is 0.0002 ms. */
const TOLERANCE_MS = 0.001;

/** No clock shows less than the time by more than this: a browser that guards against fingerprinting rounds to 100 ms. */
const COARSE_MS = 250;

/** A timer that runs. The time that it was set for has passed when it fires, whatever the clock shows. */
class Timer extends Subscription {
  readonly firesAt: number;
  /** What the clock was behind when the timer was set. */
  readonly lost: number;

  constructor(firesAt: number, lost: number) {
    super();
    this.firesAt = firesAt;
    this.lost = lost;
  }
}

/**
 * One alarm on an RxJS scheduler, for deadlines and windows that move often: a timer that already runs for an earlier time is kept and looks at the
 * wanted time when it fires, so a million changes need one timer. Times are absolute, in ms on `now()`.
 *
 * - **Rings** once per `set`, never before the wanted time. Delays longer than a host timer can hold (24.8 days) are waited for in parts. Infinity is
 *   never scheduled.
 * - **Clock:** `now()` never goes back, also where the clock of the scheduler does.
 * - **Errors:** `onRing` must not throw; the scheduler calls it. Call `clear()` on unsubscribe, else the timer stays.
 *
 * @beta
 * @example
 * ```ts
 * import { VirtualTimeScheduler } from 'rxjs';
 * import { Alarm } from 'sluice/operators/build';
 *
 * const time = new VirtualTimeScheduler();
 * const rings: number[] = [];
 * const alarm = new Alarm(time, () => rings.push(alarm.now()));
 * alarm.set(alarm.now() + 500);
 * alarm.setBy(alarm.now() + 100);
 * time.flush();
 * rings; // => [100]
 * ```
 */
export class Alarm {
  readonly #scheduler: SchedulerLike;
  readonly #onRing: () => void;
  #timer: Timer | undefined = undefined;
  /** The first timer that was replaced after the clock had been set back: it still tells how much time has passed. */
  #witness: Timer | undefined = undefined;
  /** When to ring; Infinity for never. */
  #ringsAt = Infinity;
  /** The latest time that `now()` returned or a timer has reached; `now()` returns no earlier one. */
  #time = -Infinity;
  /** What the scheduler's clock is behind. */
  #lost = 0;

  /** `onRing` must not throw: it is called by the scheduler. */
  constructor(scheduler: SchedulerLike, onRing: () => void) {
    this.#scheduler = scheduler;
    this.#onRing = onRing;
  }

  /** Milliseconds on the scheduler's clock, without its backward jumps. */
  now(): number {
    const read = this.#scheduler.now();
    this.#lost = Math.max(this.#lost, this.#time - read);
    return (this.#time = Math.max(this.#time, read + this.#lost));
  }

  /** Rings once at `at` (on `now()`) instead of whenever it was going to; Infinity is `clear()`. */
  set(at: number): void {
    this.#ringsAt = at;
    if (at === Infinity || at < (this.#timer?.firesAt ?? Infinity)) this.#restart();
  }

  /** Rings at `at`, or earlier if it was going to. */
  setBy(at: number): void {
    if (at < this.#ringsAt) this.set(at);
  }

  /** Forgets the wanted time and leaves nothing on the scheduler. */
  clear(): void {
    this.set(Infinity);
  }

  #restart(): void {
    if (this.#ringsAt === Infinity) {
      this.#stop();
      return;
    }
    const now = this.now();
    const old = this.#timer;
    if (old && old.lost < this.#lost) this.#witness ??= old;
    if (old !== this.#witness) old?.unsubscribe();
    // Whole milliseconds, rounded up: a host timer cuts the fraction off and would fire early.
    const delayMs = Math.max(0, Math.min(Math.ceil(this.#ringsAt - now - TOLERANCE_MS), LONGEST_DELAY_MS));
    // Made first: some schedulers (`queueScheduler`) run a delay of 0 at once, and what rang may have started the next timer already.
    const timer = new Timer(now + delayMs, this.#lost);
    this.#timer = timer;
    timer.add(
      this.#scheduler.schedule(() => {
        this.#fired(timer);
      }, delayMs),
    );
  }

  #stop(): void {
    this.#timer?.unsubscribe();
    this.#witness?.unsubscribe();
    this.#timer = this.#witness = undefined;
  }

  #fired(timer: Timer): void {
    const { firesAt, lost } = timer;
    const read = this.#scheduler.now() + this.#lost;
    // The clock was put back while the timer ran: the timer is then the better witness of the time that has passed.
    if (lost < this.#lost || read < this.#time || firesAt - read > COARSE_MS) this.#time = Math.max(this.#time, firesAt);
    if (timer === this.#timer) this.#timer = undefined;
    else this.#witness = undefined;
    if (this.#ringsAt - this.now() > TOLERANCE_MS) {
      this.#restart();
    } else {
      // A fraction early is on time: code that compares `now()` with the time it asked for must not ask again for ever.
      this.#time = Math.max(this.#time, this.#ringsAt);
      this.#ringsAt = Infinity;
      this.#timer?.unsubscribe();
      this.#timer = undefined;
      this.#onRing();
      if (this.#ringsAt === Infinity) this.#stop();
    }
  }
}
