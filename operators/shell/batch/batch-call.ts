import type { AsyncContext } from '#async-context';
import type { Fault } from '../../kernel/machine/batch-host.js';
import type { DrivenMachine } from '../../kernel/machine/batch-machine.js';
import type { Batch, Job } from '../../kernel/machine/job.js';
import { BatchShapeError } from '../../options/errors.js';
import type { FlushReason, Note } from '../../options/events.js';
import type { Permit } from '../../options/permits.js';
import type { BatchResult, CallContext, ErrorClass, ResponseLike, Usage, WorkResult } from '../../options/types.js';
import { PermittedCall } from '../calls/call.js';
import type { BatchWork } from './batch-options.js';

/** A side effect that waits until the current step is over: telling an event, starting or stopping a call. */
export interface Effect {
  run(): void;
}

/** The shell, as its calls see it. */
interface BatchCaller<T, R> {
  readonly operator: string;
  readonly machine: Pick<DrivenMachine<T, R>, 'now' | 'laneName'>;
  readonly permits: { readonly executing: number };
  readonly context: AsyncContext;
  readonly work: BatchWork<T, R>;
  readonly tellNow: ((note: Note) => void) | undefined;
  readonly tell: ((note: Note) => void) | undefined;
  answered(call: BatchCall<T, R>, answer: BatchResult<R> | undefined, fault?: Fault): void;
}

/** One call of the work, for a batch that has its permit. Run as an effect it begins the call, or stops it when `isStopping`. */
export class BatchCall<T, R> extends PermittedCall<BatchResult<R>> implements Effect {
  isStopping = false;
  /** Why it has failed, or was stopped. */
  fault: Fault | undefined = undefined;
  /** What its events have in common; set once its start was told. */
  private fields:
    | { readonly lane: string; readonly batchId: string; readonly parentBatchId?: string; readonly size: number; readonly attempt: number }
    | undefined = undefined;

  constructor(
    private readonly caller: BatchCaller<T, R>,
    readonly batch: Batch<T, R>,
    permit: Permit,
  ) {
    super();
    this.permit = permit;
  }

  run(): void {
    const { batch, caller } = this;
    const { reason } = batch;
    if (this.isStopping) {
      this.cancel(this.fault ? 'error' : 'cancelled', this.fault?.error);
      return;
    }
    if (reason && batch.isUnderWay) this.tellStart(reason);
    // All items left before it began.
    if (!batch.isUnderWay) {
      this.release('unused');
      return;
    }
    this.begin(caller.context);
  }

  work(): WorkResult<BatchResult<R>> {
    const { work, machine } = this.caller;
    const { batch } = this;
    return work(batch.sent(), new Context(this, batch, machine.laneName(batch.lane)));
  }

  done(answer: BatchResult<R>, isEmpty: boolean): void {
    const { caller, batch } = this;
    const problem = 'the work completed without an answer';
    caller.answered(this, answer, isEmpty ? { error: new BatchShapeError(caller.operator, batch.jobs.length, 0, problem) } : undefined);
  }

  failed(error: unknown): void {
    this.caller.answered(this, undefined, { error });
  }

  /**
   * Called when its results are out. Also drops the batch: while calls that are over kept theirs, the items survived the next minor collection, V8 took
   * their arrays for long-lived ones, and from the first full collection on that cost four times the CPU.
   */
  releasePermit(): void {
    this.release(this.fault ? 'error' : 'ok', this.fault?.error);
    (this as { batch: unknown }).batch = undefined;
  }

  tellEnd(outcome: 'ok' | 'cancelled' | 'failed' | ErrorClass): void {
    const { fields, caller, batch } = this;
    const { machine } = caller;
    if (fields) caller.tell?.({ ...fields, type: 'attemptEnded', outcome, latencyMs: machine.now - batch.startedAt });
  }

  /** Tells the events of its start; a listener may do anything. */
  private tellStart(reason: FlushReason): void {
    const { batch, caller } = this;
    const { tellNow, permits, machine } = caller;
    batch.tidy();
    const { jobs, weight, parentId, attempt } = batch;
    const ids = { lane: machine.laneName(batch.lane), batchId: batch.id, ...(parentId !== undefined && { parentBatchId: parentId }) };
    const formed = { ...ids, size: jobs.length, weight, seqs: jobs.map(({ index }) => index) };
    tellNow?.({ ...formed, type: 'batchFormed', reason, waitMs: batch.startedAt - (jobs[0] as Job<T, R>).acceptedAt });
    // The listener may have given it up: then it does not begin.
    if (!batch.isUnderWay) return;
    this.fields = { ...ids, size: jobs.length, attempt };
    tellNow?.({ ...formed, type: 'attemptStarted', attempt, splitDepth: batch.depth, executing: permits.executing });
  }
}

/** The context that a work function gets. What is rarely used is made by getters, of a class: an object that brings its own costs a call microseconds. */
class Context<T, R> implements CallContext {
  readonly attempt: number;
  readonly splitDepth: number;
  readonly batchId: string;
  readonly weight: number;
  readonly deadlineAt: number;
  private readonly permit: Permit | undefined;

  constructor(
    private readonly call: { readonly signal: AbortSignal; readonly permit: Permit | undefined },
    { attempt, depth, origin, weight, timeoutAt }: Batch<T, R>,
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
