import type { LimiterClock } from './limiter-clock.js';
import type { Lessor } from './limiter-lease.js';
import { LimiterLease } from './limiter-lease.js';
import type { LimiterConfig } from './limiter-options.js';
import { changedLimits } from './limiter-options.js';
import type { WaitingRoom } from './limiter-queue.js';
import type { Rates, TimedLimit } from './limiter-rates.js';
import type { Cost, LimiterLimits, LimiterSnapshot } from './limiter-types.js';

/** What is left for one more. */
interface Left {
  readonly isFull: boolean;
  readonly requests: number;
  readonly tokens: number;
}

const ALL_FREE: Left = { isFull: false, requests: Infinity, tokens: Infinity };

/** What a limiter has to give, and how much of it is taken: its slots and its rates, and those of the limiters above. */
export class Capacity {
  readonly #config: LimiterConfig;
  readonly #clock: LimiterClock;
  readonly #rates: Rates;
  readonly #above: Capacity | undefined;
  #limits: Required<LimiterLimits>;
  #executing = 0;

  constructor(config: LimiterConfig, clock: LimiterClock, rates: Rates, above: Capacity | undefined) {
    this.#config = config;
    this.#clock = clock;
    this.#rates = rates;
    this.#above = above;
    this.#limits = config.limits;
  }

  get concurrency(): number {
    return Math.min(this.#limits.concurrency, this.#above?.concurrency ?? Infinity);
  }

  get executing(): number {
    return this.#executing;
  }

  /** Slots that nobody has, here. */
  get freeSlots(): number {
    return this.#limits.concurrency - this.#executing;
  }

  get load(): number {
    const { concurrency } = this.#limits;
    const slots = concurrency === Infinity ? 0 : Math.min(1, this.#executing / concurrency);
    const own = this.#rates.isTimed ? Math.max(slots, this.#rates.load(this.#clock.read())) : slots;
    return Math.max(own, this.#above?.load ?? 0);
  }

  get tokenCapacity(): number {
    return Math.min(this.#rates.tokenCapacity, this.#above?.tokenCapacity ?? Infinity);
  }

  get requestCapacity(): number {
    return Math.min(this.#rates.requestCapacity, this.#above?.requestCapacity ?? Infinity);
  }

  get borrows(): boolean {
    return this.#config.borrows && this.#above?.borrows !== false;
  }

  /** Tokens that could be spent at once, here and above. */
  get affordable(): number {
    this.#clock.read();
    return this.affordableWith();
  }

  /** The same without a look at the clock here, when so many can be spent above. */
  affordableWith(above = this.#above?.affordable ?? Infinity): number {
    return Math.min(above, this.#rates.tokensLeft(this.#clock.time));
  }

  snapshot(room: WaitingRoom): LimiterSnapshot {
    const now = this.#clock.read();
    const queued = room.size;
    const { isFull, requests, tokens } = this.#left(now);
    // How many would go at once if there were slots, here and above.
    const heldBySlot = isFull ? room.payable(requests, tokens) : 0;
    return {
      concurrency: this.concurrency,
      executing: this.#executing,
      queued,
      heldByRate: queued - heldBySlot,
      heldBySlot,
      ...this.#limitsInForce(),
    };
  }

  /** The tightest here and above. Each limiter has its own idea of the time when the clock was set back. */
  #limitsInForce(): Pick<LimiterSnapshot, 'requests' | 'tokens' | 'pausedForMs' | 'requestsPerMinute' | 'tokensPerMinute'> {
    const now = this.#clock.read();
    const above = this.#above && this.#above.#limitsInForce();
    return {
      requests: Math.min(this.#rates.requestsLeft(now), above?.requests ?? Infinity),
      tokens: Math.min(this.#rates.tokensLeft(now), above?.tokens ?? Infinity),
      pausedForMs: Math.max(this.#rates.pausedForMs(now), above?.pausedForMs ?? 0),
      requestsPerMinute: Math.min(this.#rates.perMinute('requests'), above?.requestsPerMinute ?? Infinity),
      tokensPerMinute: Math.min(this.#rates.perMinute('tokens'), above?.tokensPerMinute ?? Infinity),
    };
  }

  /** Answers what holds now. */
  setLimits(limits: LimiterLimits): Required<LimiterLimits> {
    this.#limits = changedLimits(limits, this.#limits);
    this.#rates.setLimits(this.#limits, this.#clock.read());
    return this.#limits;
  }

  /** What stands in the way of a job, here. */
  blockedBy(requests: number, tokens: number): 'concurrency' | TimedLimit | undefined {
    if (this.#executing >= this.#limits.concurrency) return 'concurrency';
    return this.#rates.isTimed ? this.#rates.blockedBy(requests, tokens, this.#clock.time) : undefined;
  }

  /** When the rate here would let it go, if there were a slot. */
  payableAt({ requests, tokens }: Required<Cost>): number {
    return this.#rates.payableAt(requests, tokens, this.#clock.time);
  }

  /** The error for a job that can never be paid, here or above. */
  tooHeavy(cost: Required<Cost>): Error | undefined {
    return this.#rates.tooHeavy(cost.requests, cost.tokens) ?? this.#above?.tooHeavy(cost);
  }

  /** Takes a slot, and pays. With `isDated` the lease knows when it was granted even if nothing here depends on the time. */
  take(lessor: Lessor, requests: number, tokens: number, above: LimiterLease | undefined, isDated: boolean): LimiterLease {
    this.#executing++;
    const { isTimed } = this.#rates;
    if (isTimed) this.#rates.pay(requests, tokens, this.#clock.time);
    else if (isDated) this.#clock.read();
    const lease = new LimiterLease(lessor, requests, tokens, this.#clock.time, above);
    if (isTimed) this.#rates.stamp(lease);
    return lease;
  }

  /** The slot is free again. */
  free(): void {
    this.#executing--;
  }

  /** The lease was not used: what was paid for it comes back. */
  refund(lease: LimiterLease): void {
    this.#rates.correct(-lease.requests, -lease.tokens, lease.grantedAt, this.#clock.read());
    lease.tokens = 0;
  }

  #left(now: number): Left {
    const above = this.#above ? this.#above.#left(this.#above.#clock.read()) : ALL_FREE;
    const isPaused = this.#rates.pausedForMs(now) > 0;
    return {
      isFull: above.isFull || this.freeSlots <= 0,
      // Nobody goes in a pause, whatever it costs.
      requests: isPaused ? -Infinity : Math.min(above.requests, this.#rates.requestsLeft(now)),
      tokens: Math.min(above.tokens, this.#rates.tokensLeft(now)),
    };
  }
}
