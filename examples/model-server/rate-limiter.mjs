// @ts-check
import { ApiError, retryAfter } from './api-error.mjs';

/**
 * Requests and tokens per minute, each a bucket that refills steadily and holds `burstSeconds` worth of its rate.
 * A request is charged in both buckets or in neither, so a 429 costs nothing.
 */
export class RateLimiter {
  #requests;
  #tokens;
  #model;

  /**
   * @param {{ requestsPerMinute: number, tokensPerMinute: number, burstSeconds: number }} limits
   * @param {string} model named in the refusal
   */
  constructor({ requestsPerMinute, tokensPerMinute, burstSeconds }, model) {
    this.#requests = new Bucket(requestsPerMinute, burstSeconds);
    this.#tokens = new Bucket(tokensPerMinute, burstSeconds);
    this.#model = model;
  }

  /**
   * Charges one request, or says when to come back.
   *
   * @param {number} tokens
   * @param {number} nowMs
   * @returns {ApiError | undefined} the 429, when there is not enough left
   */
  charge(tokens, nowMs) {
    const forRequest = this.#requests.waitMs(1, nowMs);
    const forTokens = this.#tokens.waitMs(tokens, nowMs);
    if (tokens > this.#tokens.perMinute) {
      return this.#refusal(
        'tokens',
        `Request too large for ${this.#model} on tokens per min (TPM): Limit ${this.#tokens.perMinute}, Requested ${tokens}.`,
        {},
      );
    }
    const waitMs = Math.max(forRequest, forTokens);
    if (waitMs > 0) {
      const [kind, unit, bucket] =
        forRequest >= forTokens
          ? /** @type {const} */ (['requests', 'RPM', this.#requests])
          : /** @type {const} */ (['tokens', 'TPM', this.#tokens]);
      const limit = `Limit ${bucket.perMinute}, Remaining ${bucket.remaining}, Requested ${kind === 'tokens' ? tokens : 1}`;
      const message = `Rate limit reached for ${this.#model} on ${kind} per min (${unit}): ${limit}. Please try again in ${duration(waitMs)}.`;
      return this.#refusal(kind, message, retryAfter(waitMs));
    }
    this.#requests.take(1);
    this.#tokens.take(tokens);
    return undefined;
  }

  /**
   * `x-ratelimit-*` of the rates that have a limit.
   *
   * @param {number} nowMs
   * @returns {Record<string, string>}
   */
  headers(nowMs) {
    return { ...this.#requests.headers('requests', nowMs), ...this.#tokens.headers('tokens', nowMs) };
  }

  /**
   * @param {'requests' | 'tokens'} kind
   * @param {string} message
   * @param {Record<string, string>} headers
   */
  #refusal(kind, message, headers) {
    return new ApiError(429, message, { type: kind, code: 'rate_limit_exceeded', headers });
  }
}

/** Room for rounding: the client that waits exactly as told must be let in. */
const ROUNDING = 1e-6;

class Bucket {
  #perMs;
  #capacity;
  #level;
  #filledAtMs = 0;

  /**
   * @param {number} perMinute
   * @param {number} burstSeconds
   */
  constructor(perMinute, burstSeconds) {
    this.perMinute = perMinute;
    this.#perMs = perMinute / 60_000;
    this.#capacity = Math.max(1, (perMinute * burstSeconds) / 60);
    this.#level = this.#capacity;
  }

  get remaining() {
    return Math.max(0, Math.floor(this.#level + ROUNDING));
  }

  /**
   * A full bucket admits a cost above its capacity and goes into debt: the rate holds, and no request waits for ever.
   *
   * @param {number} cost
   * @param {number} nowMs
   */
  waitMs(cost, nowMs) {
    if (this.perMinute === Infinity) return 0;
    this.#fill(nowMs);
    const missing = Math.min(cost, this.#capacity) - this.#level;
    return missing <= ROUNDING ? 0 : missing / this.#perMs;
  }

  /** @param {number} cost */
  take(cost) {
    if (this.perMinute !== Infinity) this.#level -= cost;
  }

  /**
   * @param {string} kind
   * @param {number} nowMs
   * @returns {Record<string, string>}
   */
  headers(kind, nowMs) {
    if (this.perMinute === Infinity) return {};
    this.#fill(nowMs);
    return {
      [`x-ratelimit-limit-${kind}`]: String(this.perMinute),
      [`x-ratelimit-remaining-${kind}`]: String(this.remaining),
      [`x-ratelimit-reset-${kind}`]: duration((this.#capacity - this.#level) / this.#perMs),
    };
  }

  /** @param {number} nowMs */
  #fill(nowMs) {
    this.#level = Math.min(this.#capacity, this.#level + (nowMs - this.#filledAtMs) * this.#perMs);
    this.#filledAtMs = nowMs;
  }
}

/**
 * OpenAI's spelling: `12ms`, `1.5s`, `6m0s`, `1h0m0s`.
 *
 * @param {number} ms
 */
export function duration(ms) {
  const whole = Math.ceil(ms - ROUNDING);
  if (whole <= 0) return '0s';
  if (whole < 1000) return `${whole}ms`;
  const hours = Math.floor(whole / 3_600_000);
  const minutes = Math.floor(whole / 60_000) % 60;
  const seconds = (whole % 60_000) / 1000;
  if (hours > 0) return `${hours}h${minutes}m${seconds}s`;
  return minutes > 0 ? `${minutes}m${seconds}s` : `${seconds}s`;
}
