import { TokenBucket } from '../../kernel/token-bucket.js';
import { ItemTooHeavyError } from '../errors.js';
import type { LimiterConfig } from './limiter-options.js';
import { NAME } from './limiter-options.js';
import type { LimiterLimits } from './limiter-types.js';

/** A limit that has to do with time. */
export type TimedLimit = 'pause' | 'requestsPerMinute' | 'tokensPerMinute';

/** The two rates, and the pauses the other side asks for. */
export class Rates {
  readonly #config: LimiterConfig;
  #requests: TokenBucket | undefined;
  #tokens: TokenBucket | undefined;
  #pausedUntil = -Infinity;

  constructor(config: LimiterConfig, now: number) {
    this.#config = config;
    this.setLimits(config.limits, now);
  }

  /** Whether anything here depends on the time; when nothing does, nobody has to look at the clock. */
  get isTimed(): boolean {
    return this.#requests !== undefined || this.#tokens !== undefined || this.#pausedUntil !== -Infinity;
  }

  get tokenCapacity(): number {
    return this.#tokens?.capacity ?? Infinity;
  }

  setLimits({ requestsPerMinute, tokensPerMinute }: Required<LimiterLimits>, now: number): void {
    this.#requests = this.#bucket(requestsPerMinute, this.#requests, now);
    this.#tokens = this.#bucket(tokensPerMinute, this.#tokens, now);
  }

  /** What is saved up. */
  requestsLeft(now: number): number {
    return this.#requests?.level(now) ?? Infinity;
  }

  tokensLeft(now: number): number {
    return this.#tokens?.level(now) ?? Infinity;
  }

  /** The share of what can be saved up that has been spent, 0 to 1; 1 during a pause. */
  load(now: number): number {
    return now < this.#pausedUntil ? 1 : Math.min(1, Math.max(spent(this.#requests, now), spent(this.#tokens, now)));
  }

  /** How much longer everything is paused, in ms. */
  pausedForMs(now: number): number {
    return Math.max(0, this.#pausedUntil - now);
  }

  /** Answers whether that is longer than the pause already made. */
  pauseUntil(at: number): boolean {
    if (at <= this.#pausedUntil) return false;
    this.#pausedUntil = at;
    return true;
  }

  blockedBy(requests: number, tokens: number, now: number): TimedLimit | undefined {
    if (now < this.#pausedUntil) return 'pause';
    if (this.#requests && !this.#requests.canPay(requests, now)) return 'requestsPerMinute';
    if (this.#tokens && !this.#tokens.canPay(tokens, now)) return 'tokensPerMinute';
    return undefined;
  }

  /** When nothing here stands in the way any more. */
  payableAt(requests: number, tokens: number, now: number): number {
    return Math.max(this.#pausedUntil, this.#requests?.payableAt(requests, now) ?? now, this.#tokens?.payableAt(tokens, now) ?? now, now);
  }

  /** Negative amounts are given back. */
  pay(requests: number, tokens: number, now: number): void {
    this.#requests?.pay(requests, now);
    this.#tokens?.pay(tokens, now);
  }

  /** The error for a job that can never be paid, when nothing may be borrowed. */
  tooHeavy(requests: number, tokens: number): ItemTooHeavyError | undefined {
    if (this.#config.borrows) return undefined;
    if (tokens > this.tokenCapacity) return new ItemTooHeavyError(NAME, tokens, this.tokenCapacity);
    const most = this.#requests?.capacity ?? Infinity;
    return requests > most ? new ItemTooHeavyError(NAME, requests, most) : undefined;
  }

  #bucket(perMinute: number, current: TokenBucket | undefined, now: number): TokenBucket | undefined {
    if (perMinute === Infinity) return undefined;
    const rate = perMinute * this.#config.headroom;
    // A slow rate must still be able to save up one whole request.
    const capacity = Math.max(1, (rate / 60) * this.#config.burstSeconds);
    if (current === undefined) return new TokenBucket(rate, capacity, now);
    current.resize(rate, capacity, now);
    return current;
  }
}

/** More than 1 in debt. */
function spent(bucket: TokenBucket | undefined, now: number): number {
  return bucket ? 1 - bucket.level(now) / bucket.capacity : 0;
}
