import type { AsyncContext } from '#async-context';
import type { BatchMachine } from '../kernel/machine/batch-machine.js';
import type { Batch, Job } from '../kernel/machine/job.js';
import { ItemFailure } from '../kernel/machine/job.js';
import { BatchShapeError } from '../options/errors.js';
import type { FlushReason, Note } from '../options/events.js';
import type { Permit } from '../options/permits.js';
import type { BatchResult, CallContext, ErrorClass, ResponseLike, Usage, WorkResult } from '../options/types.js';
import type { BatchWork } from './batch-options.js';
import { PermittedCall } from './call.js';

/** A side effect that waits until the current step is over: telling an event, starting or stopping a call. */
export interface Effect {
  run(): void;
}

/** The shell, as its calls see it. */
interface BatchCaller<T, R> {
  readonly operator: string;
  readonly machine: BatchMachine<T, R>;
  readonly permits: { readonly executing: number };
  readonly context: AsyncContext;
  readonly work: BatchWork<T, R>;
  /** Calls whose permits are to be released once their results are out. */
  readonly toRelease: { push(call: BatchCall<T, R>): void };
  readonly tellNow: ((note: Note) => void) | undefined;
  readonly tell: ((note: Note) => void) | undefined;
  ended(call: BatchCall<T, R>, answer: BatchResult<R> | undefined, fault: { readonly error: unknown } | undefined): void;
}

/** The result of one item of a call. */
type Outcome<R> = R | ItemFailure;

/** One call of the work, for a batch that has its permit. Run as an effect it begins the call, or stops it when `isStopping`. */
export class BatchCall<T, R> extends PermittedCall<BatchResult<R>> implements Effect {
  isStopping = false;
  /** Why it has failed, or was stopped. */
  fault: { readonly error: unknown } | undefined = undefined;
  /** What its events have in common; set once its start was told. */
  private fields:
    | { readonly lane: string; readonly batchId: string; readonly parentBatchId?: string; readonly size: number; readonly attempt: number }
    | undefined = undefined;

  /** @param reason why the batch was closed; undefined when nobody listens */
  constructor(
    private readonly caller: BatchCaller<T, R>,
    readonly batch: Batch<T, R>,
    permit: Permit,
    private readonly reason: FlushReason | undefined,
  ) {
    super();
    this.permit = permit;
  }

  run(): void {
    const { batch, caller, reason } = this;
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
    return work(machine.sent(batch), new Context(this, batch, machine.laneName(batch.lane)));
  }

  done(answer: BatchResult<R>, isEmpty: boolean): void {
    const { caller, batch } = this;
    const problem = 'the work completed without an answer';
    caller.ended(this, answer, isEmpty ? { error: new BatchShapeError(caller.operator, batch.jobs.length, 0, problem) } : undefined);
  }

  failed(error: unknown): void {
    this.caller.ended(this, undefined, { error });
  }

  /** Decides what becomes of its items. On the way it calls callbacks, which may do anything. */
  conclude(answer: BatchResult<R> | undefined, fault: { readonly error: unknown } | undefined): void {
    const { batch, caller } = this;
    const { machine } = caller;
    let outcomes: readonly Outcome<R>[] = [];
    if (!fault) {
      try {
        outcomes = this.match(answer as BatchResult<R>);
      } catch (error) {
        fault = { error };
      }
    }
    const judged = fault && machine.judge(fault.error, batch);
    this.tellEnd(fault ? (judged?.verdict.class ?? 'failed') : 'ok');
    // A call that was stopped has released its permit already, or will when its work ends.
    if (!this.fault) {
      this.fault = fault;
      caller.toRelease.push(this);
    }
    if (fault) machine.failed(batch, judged ? judged.reason : fault.error, judged?.verdict);
    else machine.succeeded(batch, outcomes);
  }

  /**
   * Matches the answer to the items, in their order.
   *
   * @throws BatchShapeError when that cannot be done without guessing; results are never shifted to a neighbour
   */
  match(answer: BatchResult<R>): readonly Outcome<R>[] {
    const { jobs } = this.batch;
    const shapeError = (received: number, problem?: string): BatchShapeError =>
      new BatchShapeError(this.caller.operator, jobs.length, received, problem);
    if (Array.isArray(answer)) {
      if (answer.length !== jobs.length) throw shapeError(answer.length);
      // Not one `map` of either: V8 would call it for each.
      return answer.every(isSettled) ? (answer as PromiseSettledResult<R>[]).map(ofSettled) : (answer as R[]).map(ofEntry);
    }
    const { get, has, keys } = Object(answer) as Readonly<Record<string, unknown>>;
    if ([get, has, keys].some((method) => typeof method !== 'function'))
      throw shapeError(0, 'expected the work to answer an array, a Map or a list of settled results');
    const map = answer as ReadonlyMap<string, R>;
    const wanted = new Set(jobs.map(({ id }) => id));
    if (wanted.size !== jobs.length)
      throw shapeError(map.size, 'two items of the batch have the same id, so results by id cannot be matched');
    for (const id of map.keys()) if (!wanted.has(id)) throw shapeError(map.size, 'the work answered with an id that was not in the batch');
    return jobs.map(({ id }) =>
      map.has(id) ? ofEntry(map.get(id) as R) : new ItemFailure(shapeError(map.size, 'the work answered without a result for this item')),
    );
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

/** An error in the place of a result is a failure. */
function ofEntry<R>(entry: R): Outcome<R> {
  return entry instanceof Error ? new ItemFailure(entry) : entry;
}

function ofSettled<R>(result: PromiseSettledResult<R>): Outcome<R> {
  return result.status === 'fulfilled' ? result.value : new ItemFailure(result.reason);
}

function isSettled(entry: unknown): boolean {
  if (typeof entry !== 'object' || entry === null || !('status' in entry)) return false;
  return (entry.status === 'fulfilled' && 'value' in entry) || (entry.status === 'rejected' && 'reason' in entry);
}
