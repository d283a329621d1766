import type { Limiter } from '../limiting/limiter-types.js';
import type { CallContext, ResponseLike, Usage } from '../types.js';
import type { Call } from './job.js';

/** What a work function sees of its call. Getters make what is rarely asked for, as functions that may be taken out of the context. */
export class Context implements CallContext {
  readonly attempt: number;
  readonly splitDepth: number;
  readonly batchId: string;
  readonly weight: number;
  readonly deadlineAt: number;
  readonly #call: Call<unknown, unknown>;
  readonly #limiter: Limiter;

  constructor(
    call: Call<unknown, unknown>,
    readonly lane: string,
    limiter: Limiter,
  ) {
    this.#call = call;
    this.#limiter = limiter;
    this.attempt = call.attempt;
    this.splitDepth = call.depth;
    this.batchId = call.root.id;
    this.weight = call.weight;
    this.deadlineAt = call.timeoutAt;
  }

  get signal(): AbortSignal {
    return this.#call.abort.signal;
  }

  get reconcile(): (usage: Usage) => void {
    const { lease } = this.#call;
    return (usage) => {
      lease.settle(usage);
    };
  }

  get observe(): (response: ResponseLike) => void {
    const limiter = this.#limiter;
    return (response) => {
      limiter.observe(response);
    };
  }
}
