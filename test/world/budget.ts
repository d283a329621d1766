import type { Timers } from './clock.js';
import type { World } from './world.js';

export type RateKind = 'none' | 'bucket' | 'strict';

/** A bucket of `burst` requests that fills at one for every `everyMs`; or so many in any minute. */
export interface RatePlan {
  readonly kind: RateKind;
  readonly everyMs: number;
  readonly burst: number;
  readonly perMinute: number;
}

/**
 * What a limiter may let go, kept a second time in the plainest way: never less than what it may, so that more is a fault.
 *
 * A clock that is set back hides the time since it was last read, until a timer that ran meanwhile fires and reveals it. Events in between (a
 * pause, a grant in a window) are dated earlier by that time. A bucket gets that refill after the spending in between, not before. So the model
 * allows this much (`timers.behind()`), and no more, however far the clock was set back.
 */
export class Budget {
  #level: number;
  #at = 0;
  #scale = 1;
  #scaledAt = -1;
  /** The limiter may have a little less than stands here. */
  #isUnsure = false;
  #pausedUntil = 0;
  #pauseMadeAt = -1;
  readonly #grants: number[] = [];
  #refundedAt = 0;

  constructor(
    readonly world: World,
    readonly timers: Timers,
    readonly plan: RatePlan,
  ) {
    this.#level = plan.burst;
  }

  /** Changes the rate; `isSure` says that all permits that were given have been heard of. */
  scale(scale: number, isSure: boolean): void {
    this.#refill();
    if (scale !== this.#scale) this.#isUnsure = true;
    this.#scale = scale;
    // What was granted in this instant may be heard of after the change: then what is too much goes when the instant is over.
    if (isSure) this.#level = Math.min(this.#level, this.#capacity);
    else this.#scaledAt = this.world.clock.passed;
  }

  /** What is heard of in the instant of a change may have been given before. */
  get #isChanging(): boolean {
    return this.#scaledAt === this.world.clock.passed;
  }

  get #capacity(): number {
    return Math.max(1, this.plan.burst * this.#scale);
  }

  pause(ms: number): void {
    const { clock } = this.world;
    this.#pausedUntil = Math.max(this.#pausedUntil, clock.elapsed + ms);
    this.#pauseMadeAt = clock.passed;
  }

  grant(): void {
    const { clock } = this.world;
    const behind = this.timers.behind();
    if (clock.elapsed < this.#pausedUntil - behind - 0.001 && this.#pauseMadeAt !== clock.passed)
      this.world.problem(`a permit in a pause, ${Math.round(this.#pausedUntil - clock.elapsed)} ms too early`);
    if (this.plan.kind === 'bucket') {
      this.#refill();
      this.#level--;
      if (this.#isChanging) this.#level = Math.max(0, this.#level);
      if (this.#level < -0.001 - (behind / this.plan.everyMs) * this.#scale) this.world.problem('a permit more than the rate allows');
    } else if (this.plan.kind === 'strict') {
      this.#grants.push(clock.elapsed);
      const inWindow = this.#grants.filter((at) => at > clock.elapsed + behind - 60_000).length;
      if (inWindow > Math.max(1, this.plan.perMinute * this.#scale) && !this.#isChanging)
        this.world.problem('more permits in a minute than a strict rate allows');
    }
  }

  /** How the limiter's own books differ from these. */
  differs(requests: number): boolean {
    if (this.plan.kind !== 'bucket' || this.#isUnsure || !this.world.clock.isSteady) return false;
    this.#refill();
    return Math.abs(requests - Math.min(this.#level, this.#capacity)) > 0.01;
  }

  /** When one more may go at the latest, as far as these books know it. */
  get dueAt(): number | undefined {
    if (this.#isUnsure || this.world.clock.hasLeapt) return undefined;
    const { everyMs, kind, perMinute } = this.plan;
    const { passed } = this.world.clock;
    let at = this.#refundedAt;
    if (kind === 'bucket') {
      this.#refill();
      at = Math.max(at, passed + (1 - Math.min(this.#level, this.#capacity)) * everyMs);
    } else if (kind === 'strict') at = Math.max(at, (this.#grants.at(-perMinute) ?? -Infinity) + 60_000);
    return Math.max(at, this.#pausedUntil);
  }

  /** A permit came back that was not used; `isSure` says that all permits that were given have been heard of. */
  refund(isSure: boolean, grantedAt: number): void {
    this.#refundedAt = this.world.clock.passed;
    this.#refill();
    this.#level++;
    // An excess over the capacity is lost before the next grant.
    if (isSure) this.#level = Math.min(this.#level, this.#capacity);
    else if (this.#level > this.#capacity) this.#isUnsure = true;
    const place = this.#grants.lastIndexOf(grantedAt);
    if (place >= 0) this.#grants.splice(place, 1);
  }

  #refill(): void {
    const { elapsed } = this.world.clock;
    if (elapsed === this.#at) return;
    this.#level = Math.min(
      this.#capacity,
      Math.min(this.#level, this.#capacity) + ((elapsed - this.#at) / this.plan.everyMs) * this.#scale,
    );
    this.#at = elapsed;
  }
}

/** What a lease used of a rate that was added later, and what it paid for that. */
export interface PageBill {
  readonly estimate: number;
  grantedIn: number;
  used: number | undefined;
  paid: number;
  paidIn: number;
  /** Its lease is from before the rate was added or lifted, and is heard of later. */
  isEarlier: boolean;
}

/** A rate of pages that `setLimits` adds, changes and lifts while leases are out. What stands here is never less than what the limiter may have. */
export class PageBudget {
  /** How often it was added and lifted: a lease has paid nothing to a rate that was added after it was granted. */
  #term = 0;
  #amount = Infinity;
  #perMs = 0;
  #most = 0;
  #level: number | undefined;
  #at = 0;
  #changedAt = -1;
  #isUnsure = false;

  constructor(
    readonly world: World,
    readonly timers: Timers,
  ) {}

  /** Never set, so that it cannot keep anything waiting. */
  get isUnknown(): boolean {
    return this.#level === undefined;
  }

  bill(estimate: number): PageBill {
    return { estimate, grantedIn: -1, used: undefined, paid: 0, paidIn: -1, isEarlier: false };
  }

  /** A lease is not heard of yet, and may be from before the rate was added or lifted, or from after: from here on nothing is known. */
  doubt(): void {
    this.#isUnsure = true;
  }

  /** Another amount in 50 ms, Infinity for none; `isSure` as for a `Budget`. */
  set(amount: number, isSure: boolean): void {
    this.#refill();
    if ((amount === Infinity) !== (this.#amount === Infinity)) this.#term++;
    this.#amount = amount;
    this.#changedAt = this.world.clock.passed;
    if (amount === Infinity) return;
    this.#perMs = amount / 50;
    this.#most = amount;
    this.#level ??= amount;
    if (isSure) this.#level = Math.min(this.#level, amount);
  }

  /** A lease was granted, and `isSure` says that it is heard of at once. */
  grant(bill: PageBill, isSure: boolean): void {
    // It has paid nothing to this rate.
    if (bill.isEarlier) return;
    bill.grantedIn = bill.paidIn = this.#term;
    bill.paid = bill.estimate;
    if (this.#amount === Infinity || this.#level === undefined) return;
    this.#refill();
    const wanted = Math.min(bill.estimate, this.#most);
    if (isSure && !this.#isUnsure && this.#changedAt !== this.world.clock.passed && this.#level + this.#hidden < wanted - 0.01)
      this.world.problem('a permit for more pages than the rate allows');
    this.#level -= bill.estimate;
  }

  /** A lease has used so many. It gets back what it paid, and nothing else. */
  correct(bill: PageBill, used: number, isSure: boolean): void {
    const paid = bill.paidIn === this.#term ? bill.paid : 0;
    bill.used = used;
    bill.paid = bill.grantedIn === this.#term ? used : Math.max(0, used - bill.estimate);
    bill.paidIn = this.#term;
    if (this.#amount === Infinity || this.#level === undefined) return;
    this.#refill();
    this.#level += paid - bill.paid;
    // What is too much is lost before anything is granted.
    if (isSure) this.#level = Math.min(this.#level, this.#most);
  }

  /** All is heard of: the limiter may have no more. */
  rest(left: number): void {
    if (this.#isUnsure || this.#amount === Infinity || this.#level === undefined) return;
    this.#refill();
    this.#level = Math.min(this.#level, this.#most);
    if (left > this.#level + this.#hidden + 0.01) this.world.problem('the limiter has more pages than were paid back');
  }

  /** What may come in late, as in a `Budget`. */
  get #hidden(): number {
    return this.timers.behind() * this.#perMs;
  }

  #refill(): void {
    const { elapsed } = this.world.clock;
    if (elapsed === this.#at) return;
    if (this.#level !== undefined)
      this.#level = Math.min(this.#most, Math.min(this.#level, this.#most) + (elapsed - this.#at) * this.#perMs);
    this.#at = elapsed;
  }
}
