import type { SchedulerLike, Subscriber, Subscription } from 'rxjs';
import { Observable } from 'rxjs';
import type { Breaker, PolicyBreakerContext, WatchedBreaker } from '../../options/breaker.js';
import { listen } from '../streams/listen.js';
import { Alarm } from '../time/alarm.js';

/** A call that waits: in the queue of a limiter, between two attempts, or for the circuit itself. */
export interface GateMember {
  readonly lane: string;
  /** The circuit has opened. */
  circuitOpened(): void;
  /** The circuit may let the call through: it asks for its permit again. */
  letThrough(): void;
}

/** Calls of one lane that may ask for their permits at a time after the circuit has closed, so that they do not overflow the limiter's queue. */
const AT_ONCE = 16;

/**
 * What the waiting calls of one policy know of its breaker. Calls in a queue or a pause (`watch`) are told when the circuit opens; calls that wait for
 * the circuit (`park`) are let through when it lets calls through: one probe after the other while it is half open, then a few of each lane at a time,
 * in the order in which they came.
 *
 * It listens to the breaker, and sets its timer, only while calls wait here.
 */
export class BreakerGate {
  readonly #breaker: WatchedBreaker;
  readonly #alarm: Alarm;
  readonly #watching = new Set<GateMember>();
  /** By lane, oldest first. */
  readonly #parked = new Map<string, Set<GateMember>>();
  /** Let through, and not yet asked the breaker. */
  readonly #woken = new Map<string, Set<GateMember>>();
  #unwatch: (() => void) | undefined = undefined;
  #isLooking = false;
  #looksAgain = false;

  constructor(breaker: Breaker, scheduler: SchedulerLike) {
    this.#breaker = breaker;
    this.#alarm = new Alarm(scheduler, () => {
      this.#look();
    });
  }

  /** Whether a call would be refused, and not because of a probe that is under way. */
  get isOpen(): boolean {
    return this.#breaker.state === 'open';
  }

  get retryAfterMs(): number {
    return this.#breaker.snapshot().retryAfterMs;
  }

  /** The call waits for something else, and is told when the circuit opens. */
  watch(member: GateMember): void {
    this.#watching.add(member);
    this.#listen();
  }

  /** The call waits until the circuit lets calls through. */
  park(member: GateMember): void {
    this.#remove(member);
    let lane = this.#parked.get(member.lane);
    if (lane === undefined) this.#parked.set(member.lane, (lane = new Set()));
    lane.add(member);
    this.#listen();
    this.#look();
  }

  /** The call has asked the breaker, or has left. */
  leave(member: GateMember): void {
    this.#remove(member);
    if (this.#parked.size > 0) this.#look();
    this.#listen();
  }

  #remove(member: GateMember): void {
    this.#watching.delete(member);
    take(this.#parked, member);
    take(this.#woken, member);
  }

  #listen(): void {
    if (this.#watching.size === 0 && this.#parked.size === 0) {
      this.#unwatch?.();
      this.#unwatch = undefined;
      this.#alarm.clear();
    } else {
      this.#unwatch ??= this.#breaker.watch?.(() => {
        this.#changed();
      });
    }
  }

  #changed(): void {
    if (this.isOpen) for (const member of [...this.#watching]) if (this.#watching.has(member)) member.circuitOpened();
    this.#look();
  }

  /** Lets through what may go. A call that is let through may ask the breaker at once, so this goes round again instead of recursing. */
  #look(): void {
    this.#looksAgain = true;
    if (this.#isLooking) return;
    this.#isLooking = true;
    try {
      while (this.#looksAgain) {
        this.#looksAgain = false;
        for (const member of this.#next()) this.#wake(member);
      }
    } finally {
      this.#isLooking = false;
    }
  }

  #wake(member: GateMember): void {
    if (!take(this.#parked, member)) return;
    let lane = this.#woken.get(member.lane);
    if (lane === undefined) this.#woken.set(member.lane, (lane = new Set()));
    lane.add(member);
    this.#looksAgain = true;
    member.letThrough();
  }

  /** Which calls are let through now; sets the timer when that is a matter of time. */
  #next(): readonly GateMember[] {
    this.#alarm.clear();
    if (this.#parked.size === 0) return [];
    const { state, retryAfterMs } = this.#breaker.snapshot();
    if (state === 'closed') {
      return [...this.#parked].flatMap(([name, lane]) => {
        const [first] = lane;
        return first && (this.#woken.get(name)?.size ?? 0) < AT_ONCE ? [first] : [];
      });
    }
    if (retryAfterMs > 0) {
      this.#alarm.set(this.#alarm.now() + retryAfterMs);
      return [];
    }
    // The call that was let through before has not become a probe yet.
    if (this.#woken.size > 0) return [];
    const [lane = []] = this.#parked.values();
    const [first] = lane;
    return first ? [first] : [];
  }
}

function take(lanes: Map<string, Set<GateMember>>, member: GateMember): boolean {
  const lane = lanes.get(member.lane);
  if (lane?.delete(member) !== true) return false;
  if (lane.size === 0) lanes.delete(member.lane);
  return true;
}

/**
 * Asks the breaker for one attempt, whose values and end go out when the breaker has heard of them.
 *
 * @param start - begins the attempt that is let through, and answers the subscriber
 * @param hasFailed - called when the breaker has heard an error: whether it is that of the attempt
 * @param started - called with what makes the breaker forget the attempt
 */
export function askBreaker<R>(
  breaker: Breaker,
  out: Subscriber<R>,
  start: (to: Subscriber<R>, context: PolicyBreakerContext) => void,
  hasFailed: (error: unknown) => boolean,
  started: (guard: Subscription) => void,
) {
  const asked: { isLetThrough: boolean; refusal?: { readonly error: unknown } } = { isLetThrough: false };
  const guarded = breaker.run(
    (context: PolicyBreakerContext) =>
      new Observable<R>((subscriber) => {
        asked.isLetThrough = true;
        start(subscriber, context);
      }),
  );
  const observer = {
    next: (value: R) => {
      out.next(value);
    },
    error: (error: unknown) => {
      if (!asked.isLetThrough || !hasFailed(error)) asked.refusal = { error };
    },
    complete: () => {
      out.complete();
    },
  };
  listen(guarded, observer, (guard) => {
    started(guard);
    out.add(guard);
  });
  return asked;
}
