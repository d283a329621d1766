import type { CallContext, ResponseLike, Usage } from '../../options/types.js';
import type { Call } from './job.js';

/** What a work function sees of its call. Getters make what is rarely asked for, as functions that may be taken out of the context. */
export class Context implements CallContext {
  readonly attempt: number;
  readonly splitDepth: number;
  readonly batchId: string;
  readonly weight: number;
  readonly deadlineAt: number;
  readonly #call: Call<unknown, unknown>;

  constructor(
    call: Call<unknown, unknown>,
    readonly lane: string,
  ) {
    this.#call = call;
    this.attempt = call.attempt;
    this.splitDepth = call.depth;
    this.batchId = call.root.id;
    this.weight = call.weight;
    this.deadlineAt = call.timeoutAt;
  }

  get signal(): AbortSignal {
    return this.#call.abort.signal;
  }

  get settle(): (usage: Usage) => void {
    const { lease } = this.#call;
    return (usage) => {
      lease.settle(usage);
    };
  }

  get observe(): (response: ResponseLike) => void {
    const { lease } = this.#call;
    return (response) => {
      lease.observe(response);
    };
  }
}
