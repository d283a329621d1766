import type { Subscriber } from 'rxjs';
import { noop, Subscription } from 'rxjs';
import type { Lease, Limiter } from '../../options/limiter.js';
import { listen } from '../streams/listen.js';
import type { CallRules, OwnRules } from './policy-rules.js';

/** What a call does with its permits. */
interface PermitOwner {
  readonly clock: { arm(): void };
  begin(lease: Lease): void;
  /** The limiter has refused the call, which has waited. */
  refused(error: unknown): void;
}

/** Gets the permits of one call, one for each attempt. */
export class PolicyPermits {
  readonly #rules: CallRules<unknown>;
  readonly #own: OwnRules;
  readonly #owner: PermitOwner;
  /** The place in the limiter's queue. */
  #place = Subscription.EMPTY;
  #isQueued = false;
  /** It has had a permit: the limiter let it in, and does not refuse its next attempt because the queue is full. */
  #wasAdmitted = false;

  constructor(rules: CallRules<unknown>, own: OwnRules, owner: PermitOwner) {
    this.#rules = rules;
    this.#own = own;
    this.#owner = owner;
  }

  /** Asks for a permit. True when the call waits for it. */
  ask(limiter: Limiter, out: Subscriber<unknown>): boolean {
    const { job } = this.#own;
    try {
      if (this.#beginNow(limiter)) return false;
      this.#isQueued = true;
      const observer = {
        next: (lease: Lease) => {
          this.#isQueued = false;
          this.#wasAdmitted = true;
          this.#owner.begin(lease);
          this.#owner.clock.arm();
        },
        error: (error: unknown) => {
          this.#isQueued = false;
          this.#owner.refused(error);
          this.#owner.clock.arm();
        },
        complete: noop,
      };
      listen(limiter.acquire(this.#wasAdmitted ? { ...job, waitsForRoom: true } : job), observer, (place) => {
        this.#place = place;
        out.add(place);
      });
    } catch (error) {
      // The limiter does not take such a job.
      this.#isQueued = false;
      out.error(error);
    }
    return this.#isQueued && !out.closed;
  }

  /** A permit that is free needs no place in the queue. False when there is none. */
  #beginNow(limiter: Limiter): boolean {
    const { load } = this.#rules;
    const lease = load.isStarting ? undefined : limiter.tryAcquire(this.#own.job);
    if (lease === undefined) return false;
    load.isStarting = true;
    this.#wasAdmitted = true;
    try {
      this.#owner.begin(lease);
    } finally {
      load.isStarting = false;
    }
    return true;
  }

  /** Leaves the queue. False when the call does not wait in it. */
  leave(): boolean {
    if (!this.#isQueued) return false;
    this.#isQueued = false;
    this.#place.unsubscribe();
    return true;
  }
}
