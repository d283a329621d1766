import { FlowConfigError } from '../errors.js';
import type { Usage } from '../types.js';
import { NAME } from './limiter-options.js';
import type { Lease, Outcome } from './limiter-types.js';

/** What a lease reports back to. */
export interface Lessor {
  freed(lease: LimiterLease, outcome: Outcome, error?: unknown): void;
  /** The real cost differs from what was charged. */
  corrected(tokens: number): void;
  /** The work was given up and is not over. */
  lingers(lease: LimiterLease): void;
}

export class LimiterLease implements Lease {
  readonly requests: number;
  tokens: number;
  readonly grantedAt: number;
  readonly #lessor: Lessor;
  #released = false;

  constructor(lessor: Lessor, requests: number, tokens: number, grantedAt: number) {
    this.#lessor = lessor;
    this.grantedAt = grantedAt;
    this.requests = requests;
    this.tokens = tokens;
  }

  settle({ inputTokens, outputTokens }: Usage): void {
    if (inputTokens === undefined && outputTokens === undefined) return;
    const actual = (inputTokens ?? 0) + (outputTokens ?? 0);
    if (!(actual >= 0 && actual < Infinity) || actual === this.tokens) return;
    const more = actual - this.tokens;
    this.tokens = actual;
    this.#lessor.corrected(more);
  }

  release(outcome: Outcome = 'ok', error?: unknown): void {
    if (this.#released) return;
    this.#released = true;
    this.#lessor.freed(this, outcome, error);
  }

  releaseAfter(work: PromiseLike<unknown>): void {
    if (typeof (work as Partial<PromiseLike<unknown>> | undefined | null)?.then !== 'function')
      throw new FlowConfigError(NAME, 'work', 'a promise', work);
    if (this.#released) return;
    this.#lessor.lingers(this);
    work.then(
      () => {
        this.release();
      },
      (error: unknown) => {
        this.release('error', error);
      },
    );
  }
}
