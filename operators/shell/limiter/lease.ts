import type { Charge } from '../../kernel/limits/limit.js';
import { FlowConfigError } from '../../options/errors.js';
import type { Outcome, Permit } from '../../options/permits.js';
import type { ResponseLike, Usage } from '../../options/types.js';
import { NAME } from './settings.js';

/** What a lease reports to: the limiter that gave it. */
export interface Lessor {
  settled(lease: Lease, tokens: number): void;
  freed(lease: Lease, outcome: Outcome, error: unknown): void;
  observe(response: ResponseLike, lease: Lease): void;
  /** The work was given up, and is not over. */
  lingers(lease: Lease): void;
}

export class Lease implements Permit {
  readonly charge: Charge;
  /** What it has paid for, by now. */
  tokens: number;
  readonly grantedAt: number;
  isReleased = false;
  /** Of whoever learns from responses. */
  mark: unknown = undefined;
  readonly pump: Lessor;
  /** Of the limiter above; settled and released together with this one. */
  readonly above: Lease | undefined;
  /** The lease of the work that asked for this one. */
  declare holder?: Lease | undefined;
  /** Why the work was given up. */
  declare private failure?: unknown;

  constructor(pump: Lessor, charge: Charge, grantedAt: number, above: Lease | undefined) {
    this.pump = pump;
    this.charge = charge;
    this.tokens = charge.tokens;
    this.grantedAt = grantedAt;
    this.above = above;
  }

  settle({ inputTokens, outputTokens }: Usage): void {
    if (inputTokens === undefined && outputTokens === undefined) return;
    const tokens = (inputTokens ?? 0) + (outputTokens ?? 0);
    if (!(tokens >= 0)) return;
    this.pump.settled(this, tokens);
    for (let { above } = this; above; above = above.above) above.pump.settled(above, tokens);
  }

  release(outcome: Outcome = 'ok', error?: unknown): void {
    if (this.isReleased) return;
    this.isReleased = true;
    const { above, failure } = this;
    if (this.holder) this.holder = undefined;
    if (above === undefined) {
      this.pump.freed(this, failure === undefined ? outcome : 'error', failure ?? error);
      return;
    }
    try {
      this.pump.freed(this, failure === undefined ? outcome : 'error', failure ?? error);
    } finally {
      // Whatever a callback of those who are served now throws.
      above.release(failure === undefined ? outcome : 'error', failure ?? error);
    }
  }

  observe(response: ResponseLike): void {
    this.pump.observe(response, this);
  }

  releaseAfter(work: PromiseLike<unknown>, error?: unknown): void {
    if (typeof (work as Partial<PromiseLike<unknown>> | undefined | null)?.then !== 'function')
      throw new FlowConfigError(NAME, 'work', 'a promise', work);
    if (this.isReleased) return;
    if (error !== undefined) this.failure ??= error;
    this.pump.lingers(this);
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
