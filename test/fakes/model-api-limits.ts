import type { Refusal } from './failing-api.js';

export interface RateLimits {
  /** @defaultValue no limit */
  readonly requestsPerMinute?: number;
  /** @defaultValue no limit */
  readonly tokensPerMinute?: number;
  /** How many seconds of each rate can be saved up; at the start and after a pause all of them are there. @defaultValue 60 */
  readonly burstSeconds?: number;
}

type Unit = 'requests' | 'tokens';

const MINUTE_MS = 60_000;

/** A timer of the client may fire this much early; who waited as told must not be refused for that. */
const TIMER_SLACK_MS = 1;

/** The limits of one account: one bucket per unit, each starts full and is refilled all the time. */
export class AccountLimits {
  readonly #buckets: readonly Bucket[];

  constructor({ requestsPerMinute, tokensPerMinute, burstSeconds = 60 }: RateLimits) {
    const rates = [
      ['requests', requestsPerMinute],
      ['tokens', tokensPerMinute],
    ] as const;
    this.#buckets = rates.flatMap(([unit, perMinute]) => (perMinute === undefined ? [] : [new Bucket(unit, perMinute, burstSeconds)]));
  }

  /** Takes a request and its tokens from the buckets, or says why not, and then takes nothing. */
  admit(tokens: number): Refusal | undefined {
    const waits = this.#buckets.map((bucket) => ({ bucket, waitMs: bucket.waitMs(costIn(bucket, tokens)) }));
    const longest = waits.reduce<(typeof waits)[number] | undefined>((a, b) => (a && a.waitMs >= b.waitMs ? a : b), undefined);
    if (longest !== undefined && longest.waitMs > 0) return refusalOf(longest.bucket, costIn(longest.bucket, tokens), longest.waitMs);
    for (const bucket of this.#buckets) bucket.take(costIn(bucket, tokens));
    return undefined;
  }

  /** What the buckets hold now, in the headers of OpenAI or of Anthropic. */
  headers(style: 'openai' | 'anthropic'): [name: string, value: string][] {
    return this.#buckets.flatMap((bucket) => {
      const { unit, perMinute, level, fullInMs } = bucket;
      const values = { limit: String(perMinute), remaining: String(Math.floor(level)) };
      const name = (field: string): string =>
        style === 'openai' ? `x-ratelimit-${field}-${unit}` : `anthropic-ratelimit-${unit}-${field}`;
      const reset = style === 'openai' ? durationOf(fullInMs) : new Date(Date.now() + fullInMs).toISOString();
      return Object.entries({ ...values, reset }).map(([field, value]): [string, string] => [name(field), value]);
    });
  }

  /** Fills the buckets up. */
  refill(): void {
    for (const bucket of this.#buckets) bucket.refill();
  }
}

class Bucket {
  readonly capacity: number;
  readonly #perMs: number;
  #level: number;
  #at = performance.now();

  constructor(
    readonly unit: Unit,
    readonly perMinute: number,
    burstSeconds: number,
  ) {
    this.#perMs = perMinute / MINUTE_MS;
    this.capacity = Math.max(1, (perMinute * burstSeconds) / 60);
    this.#level = this.capacity;
  }

  get level(): number {
    const now = performance.now();
    this.#level = Math.min(this.capacity, this.#level + (now - this.#at) * this.#perMs);
    this.#at = now;
    return this.#level;
  }

  get fullInMs(): number {
    return Math.ceil((this.capacity - this.level) / this.#perMs);
  }

  /** How long until `cost` is there: 0 is now, Infinity is never. */
  waitMs(cost: number): number {
    if (cost > this.capacity) return Infinity;
    const missing = cost - this.level;
    return missing <= 0 ? 0 : Math.ceil(missing / this.#perMs) + TIMER_SLACK_MS;
  }

  take(cost: number): void {
    this.#level = this.level - cost;
  }

  refill(): void {
    this.#level = this.capacity;
  }
}

function costIn({ unit }: Bucket, tokens: number): number {
  return unit === 'requests' ? 1 : tokens;
}

function refusalOf({ unit, perMinute, capacity, level }: Bucket, cost: number, waitMs: number): Refusal {
  const refusal = { status: 429, code: 'rate_limit_exceeded', type: 'rate_limit_error' };
  const start = `Rate limit reached on ${unit} per min`;
  // Above the capacity no wait helps, and none is named.
  if (waitMs === Infinity) return { ...refusal, message: `Request too large: ${start}: Limit ${Math.floor(capacity)}, Requested ${cost}.` };
  const used = Math.ceil(capacity - level);
  return {
    ...refusal,
    message: `${start}: Limit ${perMinute}, Used ${used}, Requested ${cost}. Please try again in ${waitMs}ms.`,
    headers: { 'retry-after-ms': String(waitMs), 'retry-after': String(Math.ceil(waitMs / 1000)) },
  };
}

/** As OpenAI writes it: `12ms`, `1.5s`, `6m0s`. */
function durationOf(ms: number): string {
  if (ms < 1000) return `${ms}ms`;
  const minutes = Math.floor(ms / MINUTE_MS);
  const seconds = (ms % MINUTE_MS) / 1000;
  return minutes === 0 ? `${seconds}s` : `${minutes}m${seconds}s`;
}
