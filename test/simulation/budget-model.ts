import type { LimiterPlan } from './plan.js';

type Rates = Pick<LimiterPlan, 'requestsPerMinute' | 'tokensPerMinute'>;

/** The rates a limiter was given, kept a second time in the plainest way, with its default headroom and burst. */
export class BudgetModel {
  readonly #now: () => number;
  readonly #requests = new Budget();
  readonly #tokens = new Budget();

  constructor(rates: Rates, now: () => number) {
    this.#now = now;
    this.change(rates);
  }

  /** Most tokens that can be saved up. */
  get tokenCapacity(): number {
    return this.#tokens.capacity;
  }

  change({ requestsPerMinute, tokensPerMinute }: Rates): void {
    this.#requests.change(requestsPerMinute, this.#now());
    this.#tokens.change(tokensPerMinute, this.#now());
  }

  pay(requests: number, tokens: number): void {
    this.#requests.pay(requests, this.#now());
    this.#tokens.pay(tokens, this.#now());
  }

  /** Says how the limiter's books differ from these. */
  compare(requests: number, tokens: number): string | undefined {
    return this.#requests.differs('requests', requests, this.#now()) ?? this.#tokens.differs('tokens', tokens, this.#now());
  }
}

class Budget {
  capacity = Infinity;
  #perMs = Infinity;
  #level = Infinity;
  #at = 0;

  /** What is saved up stays, as far as it fits; without a rate there is nothing to save up. */
  change(perMinute: number, now: number): void {
    this.#level = this.#levelAt(now);
    this.#at = now;
    this.#perMs = (perMinute * 0.9) / 60_000;
    this.capacity = Math.max(1, this.#perMs * 2000);
    this.#level = Math.min(this.#level, this.capacity);
  }

  pay(amount: number, now: number): void {
    this.#level = Math.min(this.capacity, this.#levelAt(now) - amount);
    this.#at = now;
  }

  differs(name: string, level: number, now: number): string | undefined {
    const expected = this.#levelAt(now);
    if (level === expected || Math.abs(level - expected) < 0.001) return undefined;
    return `the limiter has ${String(level)} ${name} left, ${String(expected)} are`;
  }

  #levelAt(now: number): number {
    return this.#perMs === Infinity ? Infinity : Math.min(this.capacity, this.#level + (now - this.#at) * this.#perMs);
  }
}
