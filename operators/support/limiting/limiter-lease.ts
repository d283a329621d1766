import { FlowConfigError } from '../../options/errors.js';
import type { ResponseLike, Usage } from '../../options/types.js';
import { NAME } from './limiter-options.js';
import type { Lease, Outcome } from './limiter-types.js';

/** What a lease reports back to. */
export interface Lessor {
  /** Whether a cost may turn out to be lower. */
  readonly refunds: boolean;
  /** What a usage costs that was reported for a job which has paid so much: the same, unless it is beyond reason. */
  worth(reported: number, paid: number): number;
  freed(lease: LimiterLease, outcome: Outcome, error?: unknown): void;
  /** The real cost differs by so much from what was charged then. */
  corrected(tokens: number, paidAt: number): void;
  /** The work was given up and is not over. */
  lingers(lease: LimiterLease): void;
  /** The request under the lease was answered. */
  observed(lease: LimiterLease, response: ResponseLike): void;
}

export class LimiterLease implements Lease {
  readonly requests: number;
  tokens: number;
  readonly grantedAt: number;
  /** What the limiter had paid in all when this was granted, this included. */
  requestsPaid = 0;
  tokensPaid = 0;
  /** Of the limiter above; settled and released together with this one. */
  readonly #above: LimiterLease | undefined;
  readonly #lessor: Lessor;
  /** The lease of the work that asked for this one. */
  #holder: LimiterLease | undefined;
  #released = false;
  /** Why the work was given up. */
  #failure: unknown;

  constructor(lessor: Lessor, requests: number, tokens: number, grantedAt: number, above?: LimiterLease) {
    this.#lessor = lessor;
    this.#above = above;
    this.grantedAt = grantedAt;
    this.requests = requests;
    this.tokens = tokens;
  }

  get isReleased(): boolean {
    return this.#released;
  }

  /** The lease that a limiter gave for this one: itself, or one of those above. */
  of(lessor: Lessor): LimiterLease | undefined {
    return this.#lessor === lessor ? this : this.#above?.of(lessor);
  }

  /** The lease of the limiter that is held by the work that asked for this one, or by whoever asked for that, and so on. */
  outer(lessor: Lessor): LimiterLease | undefined {
    return this.#holder?.of(lessor) ?? this.#holder?.outer(lessor);
  }

  /** Says whose work has asked for it. */
  askedBy(holder: LimiterLease): void {
    this.#holder = holder;
    this.#above?.askedBy(holder);
  }

  settle(usage: Usage): void {
    const { inputTokens, outputTokens } = usage;
    if (inputTokens === undefined && outputTokens === undefined) return;
    const actual = (inputTokens ?? 0) + (outputTokens ?? 0);
    if (!(actual >= 0)) return;
    const worth = this.#lessor.worth(actual, this.tokens);
    const more = worth - this.tokens;
    if (more > 0 || (more < 0 && this.#lessor.refunds)) {
      this.tokens = worth;
      this.#lessor.corrected(more, this.grantedAt);
    }
    this.#above?.settle(usage);
  }

  release(outcome: Outcome = 'ok', error?: unknown): void {
    if (this.#released) return;
    this.#released = true;
    const told = this.#failure === undefined ? outcome : 'error';
    const reason = this.#failure ?? error;
    this.#holder = undefined;
    try {
      this.#lessor.freed(this, told, reason);
    } finally {
      // Whatever a callback of those who are served now throws.
      this.#above?.release(told, reason);
    }
  }

  observe(response: ResponseLike): void {
    this.#lessor.observed(this, response);
  }

  releaseAfter(work: PromiseLike<unknown>, error?: unknown): void {
    if (typeof (work as Partial<PromiseLike<unknown>> | undefined | null)?.then !== 'function')
      throw new FlowConfigError(NAME, 'work', 'a promise', work);
    if (this.#released) return;
    this.#failure ??= error;
    this.#lessor.lingers(this);
    const failed = (reason: unknown): void => {
      this.release('error', reason);
    };
    try {
      // Once: the `then` of a query builder sends its request.
      work.then(() => {
        this.release();
      }, failed);
    } catch (reason) {
      failed(reason);
    }
  }
}
