import type { SchedulerLike } from 'rxjs';
import { asyncScheduler } from 'rxjs';
import { isRefusal, parseRetryAfterMs } from '../../kernel/limits/headers.js';
import type { ResponseLike } from '../../options/types.js';
import { Alarm } from '../../shell/alarm.js';
import { Lingering } from '../limiting/limiter-lingering.js';
import { LIMITER_DEFAULTS } from '../limiting/limiter-options.js';
import type { Bidder, Lease, Limiter, LimiterLimits, Outcome, Place } from '../limiting/limiter-types.js';

/** What a gate needs of its limiter. */
export type GateLimiter = Pick<
  Limiter,
  'borrows' | 'close' | 'concurrency' | 'enlist' | 'executing' | 'load' | 'penalize' | 'setLimits' | 'tokenCapacity'
>;

/**
 * The slots of one engine that shares them with nobody: what a limiter does for a single bidder, without rates. Like one, it grants in a
 * loop and never from inside a grant, and lets nobody in when a call is given up, before the end of the frame.
 */
export class OwnSlots implements GateLimiter, Place {
  readonly tokenCapacity = Infinity;
  readonly borrows = true;
  readonly #scheduler: SchedulerLike;
  readonly #alarm: Alarm;
  readonly #lingering = new Lingering();
  #concurrency: number;
  #executing = 0;
  #pausedUntil = -Infinity;
  #bidder: Bidder | undefined;
  #granting = false;
  #again = false;

  constructor(concurrency: number, scheduler: SchedulerLike = asyncScheduler) {
    this.#concurrency = concurrency;
    this.#scheduler = scheduler;
    this.#alarm = new Alarm(scheduler, () => {
      this.poke();
    });
  }

  get concurrency(): number {
    return this.#concurrency;
  }

  get executing(): number {
    return this.#executing;
  }

  get load(): number {
    if (this.#pausedUntil !== -Infinity && this.#alarm.now() < this.#pausedUntil) return 1;
    return this.#concurrency === Infinity ? 0 : Math.min(1, this.#executing / this.#concurrency);
  }

  enlist(bidder: Bidder): Place {
    this.#bidder = bidder;
    this.poke();
    return this;
  }

  withdraw(): void {
    this.#bidder = undefined;
    this.#rest();
  }

  /** Grants what can be granted now. */
  poke(): void {
    this.#again = true;
    if (this.#granting) return;
    this.#granting = true;
    try {
      while (this.#again) {
        this.#again = false;
        if (this.#lingering.size > 0) this.#lingering.expire(this.#alarm.now());
        this.#grant();
      }
    } finally {
      this.#granting = false;
      this.#rest();
    }
  }

  penalize(pauseMs: number): void {
    const until = this.#alarm.now() + pauseMs;
    if (until <= this.#pausedUntil) return;
    this.#pausedUntil = until;
    this.#rest();
  }

  setLimits({ concurrency = this.#concurrency }: LimiterLimits): void {
    this.#concurrency = concurrency;
    this.poke();
  }

  close(): void {
    this.#lingering.expire(Infinity);
    this.#rest();
  }

  freed(lease: OwnLease, outcome: Outcome): void {
    this.#executing--;
    this.#lingering.delete(lease);
    if (outcome !== 'cancelled') this.poke();
    else if (this.#granting) this.#again = true;
    else this.#rest();
  }

  /** The work was given up and is not over. */
  lingers(lease: OwnLease): void {
    if (!this.#lingering.has(lease)) this.#lingering.add(lease, this.#alarm.now() + LIMITER_DEFAULTS.abortGraceMs);
    this.#rest();
  }

  /** Keeps to the pause that a response asks for. The rates it reports are those of an account: that takes a shared limiter. */
  observed({ status, headers }: ResponseLike): void {
    const pauseMs = isRefusal(status) ? parseRetryAfterMs(headers, this.#scheduler.now()) : undefined;
    if (pauseMs !== undefined) this.penalize(pauseMs);
  }

  #grant(): void {
    const bidder = this.#bidder;
    if (bidder === undefined || this.#executing >= this.#concurrency || this.#isPaused()) return;
    this.#bidder = undefined;
    if (bidder.bid && bidder.bid(Infinity) === undefined) return;
    this.#executing++;
    bidder.granted(new OwnLease(this));
    this.#again = true;
  }

  #isPaused(): boolean {
    if (this.#pausedUntil === -Infinity) return false;
    if (this.#alarm.now() < this.#pausedUntil) return true;
    this.#pausedUntil = -Infinity;
    return false;
  }

  /** One timer, for whatever comes first: the end of a pause, or of a grace, or of the frame in which a call was given up. */
  #rest(): void {
    if (this.#granting) return;
    let at = Infinity;
    if (this.#bidder !== undefined && this.#executing < this.#concurrency) at = Math.max(this.#alarm.now(), this.#pausedUntil);
    this.#alarm.set(Math.min(at, this.#lingering.next));
  }
}

class OwnLease implements Lease {
  readonly #slots: OwnSlots;
  #released = false;

  constructor(slots: OwnSlots) {
    this.#slots = slots;
  }

  /** There is no rate to be charged. */
  settle(): void {
    // nothing to do
  }

  release(outcome: Outcome = 'ok'): void {
    if (this.#released) return;
    this.#released = true;
    this.#slots.freed(this, outcome);
  }

  releaseAfter(work: PromiseLike<unknown>): void {
    if (this.#released) return;
    this.#slots.lingers(this);
    const release = (): void => {
      this.release();
    };
    work.then(release, release);
  }

  observe(response: ResponseLike): void {
    this.#slots.observed(Object(response) as ResponseLike);
  }
}
