import type { AsyncContext } from '#async-context';
import type { BatchMachine, Judgement } from '../kernel/machine/batch-machine.js';
import type { Batch, ItemFailure, Job } from '../kernel/machine/job.js';
import { BatchShapeError } from '../options/errors.js';
import type { FlushReason, Note } from '../options/events.js';
import type { Permit, Permits } from '../options/permits.js';
import type { BatchResult, CallContext, ErrorClass, ResponseLike, Usage, WorkResult } from '../options/types.js';
import type { BatchConfig, BatchWork } from './batch-options.js';
import { Call } from './call.js';
import { stitch } from './stitch.js';

/** What a call needs of whoever makes it. */
export interface BatchCaller<T, R> {
  readonly operator: string;
  readonly config: BatchConfig<T>;
  readonly machine: BatchMachine<T, R>;
  readonly permits: Permits;
  readonly context: AsyncContext;
  readonly work: BatchWork<T, R>;
  readonly say: ((note: Note) => void) | undefined;
  act(run: () => void): void;
  judge(error: unknown, size: number, attempt: number): Judgement;
  ended(call: BatchCall<T, R>, answer: BatchResult<R> | undefined, fault: { readonly error: unknown } | undefined): void;
  spend(call: BatchCall<T, R>): void;
}

/** One call of the work, for a batch that has its permit. It is an act of its shell: first it begins; once it is to stop, it stops. */
export class BatchCall<T, R> extends Call<BatchResult<R>> {
  isStopping = false;
  /** Why it has failed, or was stopped. */
  fault: { readonly error: unknown } | undefined = undefined;
  /** Listeners have heard of it. */
  private isAnnounced = false;

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
    if (reason && batch.slot !== -1) this.announce(reason);
    // Everybody has left before it was made.
    if (batch.slot === -1) {
      this.release('unused');
      return;
    }
    caller.machine.sent(batch);
    this.begin(caller.context);
  }

  work(): WorkResult<BatchResult<R>> {
    const { work, machine } = this.caller;
    const { batch } = this;
    return work(
      batch.jobs.map(({ input }) => input),
      new Context(this, batch, machine.laneName(batch.lane)),
    );
  }

  done(answer: BatchResult<R>, isEmpty: boolean): void {
    const { operator } = this.caller;
    const size = this.batch.jobs.length;
    this.caller.ended(
      this,
      answer,
      isEmpty ? { error: new BatchShapeError(operator, size, 0, 'the work completed without an answer') } : undefined,
    );
  }

  failed(error: unknown): void {
    this.caller.ended(this, undefined, { error });
  }

  /** Decides what becomes of its items. Callbacks are asked on the way, and may do anything. */
  conclude(answer: BatchResult<R> | undefined, fault: { readonly error: unknown } | undefined): void {
    const { batch, caller } = this;
    const { machine, operator, config } = caller;
    const { jobs, attempt } = batch;
    let outcomes: readonly (R | ItemFailure)[] | undefined;
    if (fault === undefined) {
      try {
        outcomes = stitch(operator, answer as BatchResult<R>, () => jobs.map(({ id }) => id), jobs.length);
      } catch (error) {
        fault = { error };
      }
    }
    const judged = fault && config.repair.length > 0 ? caller.judge(fault.error, jobs.length, attempt) : undefined;
    this.tellEnd(fault ? (judged?.verdict.class ?? 'failed') : 'ok');
    // One that was stopped gives its permit back as the work lets it.
    if (this.fault === undefined) {
      this.fault = fault;
      caller.spend(this);
    }
    if (outcomes) machine.succeeded(batch, outcomes);
    else machine.failed(batch, judged ? judged.reason : fault?.error, judged?.verdict);
  }

  /**
   * Its results are out. It forgets its batch: with it, the items of every call that is over were still there at the next collection of the young,
   * and V8 then made their lists old from the start, which cost four times the CPU from the first full collection on.
   */
  giveUpPermit(): void {
    this.release(this.fault ? 'error' : 'ok', this.fault?.error);
    (this as { batch: unknown }).batch = undefined;
  }

  tellEnd(outcome: 'ok' | 'cancelled' | 'failed' | ErrorClass): void {
    const { say, machine } = this.caller;
    if (!this.isAnnounced || say === undefined) return;
    const { jobs, attempt, startedAt } = this.batch;
    const note = { type: 'attemptEnded', ...this.ids, size: jobs.length, attempt, outcome, latencyMs: machine.now - startedAt } as const;
    this.caller.act(() => {
      say(note);
    });
  }

  private get ids(): { readonly lane: string; readonly batchId: string; readonly parentBatchId?: string } {
    const { lane, id: batchId, parentId } = this.batch;
    return { lane: this.caller.machine.laneName(lane), batchId, ...(parentId !== undefined && { parentBatchId: parentId }) };
  }

  /** Tells of it before it is made; a listener may do anything. */
  private announce(reason: FlushReason): void {
    const { batch, ids } = this;
    const { say, permits } = this.caller;
    batch.tidy();
    const { jobs, attempt, depth: splitDepth, weight, startedAt } = batch;
    const about = { ...ids, size: jobs.length, weight, seqs: jobs.map(({ index }) => index) };
    this.isAnnounced = true;
    say?.({ type: 'batchFormed', ...about, reason, waitMs: startedAt - (jobs[0] as Job<T, R>).acceptedAt });
    say?.({ type: 'attemptStarted', ...about, attempt, splitDepth, executing: permits.executing });
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
