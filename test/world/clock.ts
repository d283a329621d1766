import type { SchedulerAction, SchedulerLike } from 'rxjs';
import { Subscription } from 'rxjs';

interface Alarm {
  at: number;
  readonly seq: number;
  run: (() => void) | undefined;
}

/** More than any small schedule needs: an operator that asks the time so often is in a loop. */
const MOST_READINGS = 60_000;
const MOST_ALARMS = 10_000;
/** A set-back of less looks like a clock that is rounded down. */
const COARSE_MS = 250;

/** Something ran in an endless loop. Thrown at the next reader of the clock, so that the loop ends here and not at the end of the day. */
export class Runaway extends Error {
  override readonly name = 'Runaway';
}

/** Virtual time that goes from one instant to the next. What is read off it may jump; what is due comes when it is due. */
export class Clock {
  /** Time that has passed, whatever the clock shows. */
  passed = 0;
  ranAway = false;
  /** The clock was never set, and timers were never late. */
  isSteady = true;
  /** The most time that a reader of the clock can have seen go by. */
  get elapsed(): number {
    return this.passed + this.#leaps;
  }

  /** The clock was set forward, or back when it had just been read, or timers were late. */
  hasLeapt = false;
  /** By how much it was set back, in all. */
  setBackMs = 0;

  #shift = 0;
  #leaps = 0;
  #seq = 0;
  #readings = 0;
  /** A heap, the next alarm first. */
  readonly #alarms: Alarm[] = [];

  now(): number {
    if (++this.#readings > MOST_READINGS) this.runAway('the time was asked too often');
    return this.passed + this.#shift;
  }

  runAway(why: string): never {
    this.ranAway = true;
    throw new Runaway(why);
  }

  /** Sets the clock forward or back. */
  jump(ms: number): void {
    this.isSteady = false;
    this.hasLeapt = true;
    this.#shift += ms;
    if (ms > 0) this.#leaps += ms;
    else this.setBackMs -= ms;
  }

  /** Lets time pass in which nothing runs: what was due then is late. */
  sleep(ms: number): void {
    this.isSteady = false;
    this.hasLeapt = true;
    this.passed += ms;
  }

  /** Sets the clock back so much later than it was last read, but before the next timer is due: no timer is late. */
  setBack(ms: number, unseenMs: number): void {
    this.isSteady = false;
    this.passed += Math.max(0, Math.min(unseenMs, this.next - this.passed));
    this.#shift -= ms;
    this.setBackMs += ms;
  }

  after(ms: number, run: () => void): () => void {
    if (this.#seq > MOST_ALARMS) this.runAway('too many timers');
    const alarm: Alarm = { at: this.passed + ms, seq: this.#seq++, run };
    if (ms !== Infinity) this.#push(alarm);
    return () => {
      alarm.run = undefined;
    };
  }

  /** When the next alarm rings. */
  get next(): number {
    this.#skip();
    return this.#alarms[0]?.at ?? Infinity;
  }

  /** Runs all that is due at the next instant, up to a time. False when there is nothing to run. */
  step(until = Infinity): boolean {
    const { next } = this;
    if (next === Infinity || next > until) return false;
    this.passed = Math.max(this.passed, next);
    for (;;) {
      this.#skip();
      const alarm = this.#alarms[0];
      if (alarm === undefined || alarm.at > this.passed) return true;
      this.#pop();
      const { run } = alarm;
      alarm.run = undefined;
      run?.();
    }
  }

  #skip(): void {
    while (this.#alarms[0] !== undefined && this.#alarms[0].run === undefined) this.#pop();
  }

  #push(alarm: Alarm): void {
    const heap = this.#alarms;
    let i = heap.push(alarm) - 1;
    while (i > 0) {
      const parent = (i - 1) >> 1;
      if (before(heap[parent]!, alarm)) break;
      heap[i] = heap[parent]!;
      i = parent;
    }
    heap[i] = alarm;
  }

  #pop(): void {
    const heap = this.#alarms;
    const last = heap.pop()!;
    const size = heap.length;
    if (size === 0) return;
    let i = 0;
    for (;;) {
      let child = 2 * i + 1;
      if (child >= size) break;
      if (child + 1 < size && before(heap[child + 1]!, heap[child]!)) child++;
      if (before(last, heap[child]!)) break;
      heap[i] = heap[child]!;
      i = child;
    }
    heap[i] = last;
  }
}

function before(a: Alarm, b: Alarm): boolean {
  return a.at < b.at || (a.at === b.at && a.seq < b.seq);
}

/** The scheduler of one operator or handle: the clock, with a count of what it has left there. */
export class Timers implements SchedulerLike {
  live = 0;
  /** From outside: 'it is over, and timers are left' is looked for then. */
  constructor(readonly clock: Clock) {}

  #readAt = 0;
  #setBackMs = 0;
  /** The first readings after a set-back: by how much, and how long ago the last reading was. */
  readonly #backs: { readonly at: number; readonly ms: number; readonly unseenMs: number }[] = [];

  /**
   * How much later than without set-backs something may come that a timer has been running for since `since`. What passed between the readings
   * before and after a set-back is not known without a timer that ran meanwhile. With one all of it is, but a set-back that a coarse clock hides.
   */
  behind(since = Infinity): number {
    let sum = 0;
    for (const { at, ms, unseenMs } of this.#backs) sum += at <= since ? unseenMs : ms <= COARSE_MS ? Math.min(ms, unseenMs) : 0;
    return sum;
  }

  now(): number {
    const { passed, setBackMs } = this.clock;
    if (setBackMs > this.#setBackMs) {
      this.#backs.push({ at: passed, ms: setBackMs - this.#setBackMs, unseenMs: passed - this.#readAt });
      this.#setBackMs = setBackMs;
    }
    this.#readAt = passed;
    return this.clock.now();
  }

  schedule<T>(work: (this: SchedulerAction<T>, state: T) => void, delay = 0, state?: T): Subscription {
    const start = (given: T | undefined, ms: number): void => {
      this.live++;
      let isCounted = true;
      const over = (): void => {
        if (isCounted) this.live--;
        isCounted = false;
      };
      const cancel = this.clock.after(ms, () => {
        action.remove(stop);
        over();
        work.call(action, given as T);
      });
      const stop = new Subscription(() => {
        cancel();
        over();
      });
      action.add(stop);
    };
    const action = Object.assign(new Subscription(), {
      schedule: (given?: T, ms = 0): Subscription => {
        start(given, ms);
        return action;
      },
    });
    start(state, Math.max(0, delay));
    return action;
  }
}
