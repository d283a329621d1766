import type { World } from './world.js';

export type RateKind = 'none' | 'bucket' | 'strict';

/** A bucket of `burst` requests that fills at one for every `everyMs`; or so many in any minute. */
export interface RatePlan {
  readonly kind: RateKind;
  readonly everyMs: number;
  readonly burst: number;
  readonly perMinute: number;
}

/** What a limiter may let go, kept a second time in the plainest way: never less than what it may, so that more is a fault. */
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

  constructor(
    readonly world: World,
    readonly plan: RatePlan,
  ) {
    this.#level = plan.burst;
  }

  /** Changes the rate; `isSure` says that all permits that were given have been heard of. */
  scale(scale: number, isSure: boolean): void {
    this.#refill();
    this.#scale = scale;
    this.#isUnsure = true;
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
    if (clock.elapsed < this.#pausedUntil - 0.001 && this.#pauseMadeAt !== clock.passed)
      this.world.problem(`a permit in a pause, ${Math.round(this.#pausedUntil - clock.elapsed)} ms too early`);
    if (this.plan.kind === 'bucket') {
      this.#refill();
      this.#level--;
      if (this.#isChanging) this.#level = Math.max(0, this.#level);
      if (this.#level < -0.001) this.world.problem('a permit more than the rate allows');
    } else if (this.plan.kind === 'strict') {
      this.#grants.push(clock.elapsed);
      const inWindow = this.#grants.filter((at) => at > clock.elapsed - 60_000).length;
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

  /** A permit came back that was not used; `isSure` says that all permits that were given have been heard of. */
  refund(isSure: boolean): void {
    this.#refill();
    this.#level++;
    // What is too much is lost before anybody is let in.
    if (isSure) this.#level = Math.min(this.#level, this.#capacity);
    else if (this.#level > this.#capacity) this.#isUnsure = true;
    this.#grants.pop();
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
