import type { Batch } from '../kernel/machine/job.js';
import { BatchShapeError } from '../options/errors.js';
import type { FlushReason } from '../options/events.js';
import type { Permit } from '../options/permits.js';
import type { BatchResult, CallContext, ResponseLike, Usage, WorkResult } from '../options/types.js';
import { Call } from './call.js';

/** What a call needs of whoever makes it. */
export interface BatchCaller<T, R> {
  readonly operator: string;
  begin(call: BatchCall<T, R>): void;
  send(call: BatchCall<T, R>): WorkResult<BatchResult<R>>;
  ended(call: BatchCall<T, R>, answer: BatchResult<R> | undefined, failure: { readonly error: unknown } | undefined): void;
}

/** One call of the work, for a batch that has its permit. It is an act of its shell: first it begins; once it is to stop, it stops. */
export class BatchCall<T, R> extends Call<BatchResult<R>> {
  isStopping = false;
  /** Listeners have heard of it. */
  isAnnounced = false;
  /** Why it has failed, or was stopped. */
  fault: { readonly error: unknown } | undefined = undefined;

  /** @param reason why the batch was closed; undefined when nobody listens */
  constructor(
    private readonly caller: BatchCaller<T, R>,
    readonly batch: Batch<T, R>,
    permit: Permit,
    readonly reason: FlushReason | undefined,
  ) {
    super();
    this.permit = permit;
  }

  run(): void {
    if (this.isStopping) this.cancel(this.fault ? 'error' : 'cancelled', this.fault?.error);
    // Everybody has left before it was made.
    else if (this.batch.slot === -1) this.release('unused');
    else this.caller.begin(this);
  }

  work(): WorkResult<BatchResult<R>> {
    return this.caller.send(this);
  }

  done(answer: BatchResult<R>, isEmpty: boolean): void {
    const { operator } = this.caller;
    const size = this.batch.jobs.length;
    const failure = isEmpty ? { error: new BatchShapeError(operator, size, 0, 'the work completed without an answer') } : undefined;
    this.caller.ended(this, answer, failure);
  }

  failed(error: unknown): void {
    this.caller.ended(this, undefined, { error });
  }

  /**
   * Its results are out. It forgets its batch: with it, the items of every call that is over were still there at the next collection of the young,
   * and V8 then made their lists old from the start, which cost four times the CPU from the first full collection on.
   */
  giveUpPermit(): void {
    this.release(this.fault ? 'error' : 'ok', this.fault?.error);
    (this as { batch: unknown }).batch = undefined;
  }

  context(lane: string): CallContext {
    return new Context(this, this.batch as Batch<never, never>, lane);
  }
}

/** What a work function sees of its call. Getters make what is rarely asked for, as functions that may be taken out of the context. */
class Context implements CallContext {
  readonly attempt: number;
  readonly splitDepth: number;
  readonly batchId: string;
  readonly weight: number;
  readonly deadlineAt: number;
  private readonly permit: Permit | undefined;

  constructor(
    private readonly call: { readonly signal: AbortSignal; readonly permit: Permit | undefined },
    { attempt, depth, origin, weight, timeoutAt }: Batch<never, never>,
    readonly lane: string,
  ) {
    this.permit = call.permit;
    this.attempt = attempt;
    this.splitDepth = depth;
    this.batchId = origin.id;
    this.weight = weight;
    this.deadlineAt = timeoutAt;
  }

  get signal(): AbortSignal {
    return this.call.signal;
  }

  get settle(): (usage: Usage) => void {
    return (usage) => {
      this.permit?.settle(usage);
    };
  }

  get observe(): (response: ResponseLike) => void {
    return (response) => {
      this.permit?.observe(response);
    };
  }
}
