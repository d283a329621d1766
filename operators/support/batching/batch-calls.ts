import { captureContext } from '#async-context';
import { Bag } from '../../kernel/queues/bag.js';
import { AttemptTimeoutError, BatchShapeError } from '../../options/errors.js';
import type { FlushReason } from '../../options/events.js';
import type { BatchResult, CallContext, ErrorClass, WorkResult } from '../../options/types.js';
import type { WorkObserver } from '../../shell/work.js';
import { startWork } from '../../shell/work.js';
import type { Lease } from '../limiting/limiter-types.js';
import { SpentLeases } from '../limiting/spent-leases.js';
import type { BatchGate } from './batch-gate.js';
import type { EngineConfig } from './batch-options.js';
import { Context } from './context.js';
import type { Effects } from './effects.js';
import type { Job, Root, Search } from './job.js';
import { Call } from './job.js';

/** Sends one batch: as many results as items, in one of the shapes `BatchResult` names, at once or later. */
export type BatchWork<T, R> = (items: readonly T[], context: CallContext) => WorkResult<BatchResult<R>>;

/** A batch that has its permit. */
export interface Launch<T, R> {
  readonly jobs: readonly Job<T, R>[];
  readonly lane: number;
  readonly root: Root<T, R>;
  readonly attempt: number;
  readonly depth: number;
  readonly weight: number;
  readonly reason: FlushReason;
  /** What waits for the end of the call. */
  readonly search?: Search<T, R> | undefined;
}

/** What calls need of the engine they belong to. */
export interface CallsHost<T, R> {
  now(): number;
  laneName(lane: number): string;
  succeeded(call: Call<T, R>, answer: BatchResult<R>): void;
  failed(call: Call<T, R>, error: unknown): void;
  /** Its last member has left. */
  abandoned(call: Call<T, R>): void;
  /** Whether the engine was closed. */
  isOver(): boolean;
}

/** The calls under way: starts them, listens to them, stops them, and gives their leases back. */
export class BatchCalls<T, R> {
  readonly #config: EngineConfig<T>;
  readonly #work: BatchWork<T, R>;
  readonly #gate: BatchGate<T, R>;
  readonly #effects: Effects;
  readonly #host: CallsHost<T, R>;
  /** Of whoever made the engine: a batch has items of several callers, and must not run as whoever freed the slot. */
  readonly #context = captureContext();
  readonly #calls = new Bag<Call<T, R>>();
  /** Leases of finished calls. */
  readonly #spent = new SpentLeases();
  #retrying = 0;
  /** No attempt takes too long before this; it may be the time of one that is over. */
  #timeoutAt = Infinity;

  constructor(config: EngineConfig<T>, work: BatchWork<T, R>, gate: BatchGate<T, R>, effects: Effects, host: CallsHost<T, R>) {
    this.#config = config;
    this.#work = work;
    this.#gate = gate;
    this.#effects = effects;
    this.#host = host;
  }

  get size(): number {
    return this.#calls.size;
  }

  /** Items in them. */
  get items(): number {
    return this.#calls.items.reduce((sum, { live }) => sum + live, 0);
  }

  /** A copy: whoever looks at them may end them. */
  get all(): readonly Call<T, R>[] {
    return [...this.#calls.items];
  }

  /** Those that are not a first attempt. */
  get retrying(): number {
    return this.#retrying;
  }

  /** Leases to be given back. */
  get spent(): number {
    return this.#spent.length;
  }

  launch({ jobs, lane, root, attempt, depth, weight, reason, search }: Launch<T, R>, lease: Lease): void {
    const now = this.#host.now();
    const call = new Call<T, R>(jobs, lane, root, attempt, depth, weight, lease, now, now + this.#config.attemptTimeoutMs);
    call.search = search;
    this.#calls.add(call);
    this.#timeoutAt = Math.min(this.#timeoutAt, call.timeoutAt);
    if (attempt > 1) this.#retrying++;
    this.#effects.add(() => {
      this.#announce(call, reason);
      this.#effects.add(() => {
        this.#start(call);
      });
    });
  }

  /** Tells of a call that is about to be made, if anybody still waits for it. */
  #announce(call: Call<T, R>, reason: FlushReason): void {
    const { operator, onEvent } = this.#config;
    if (call.over || onEvent === undefined) return;
    call.forgetThoseWhoLeft();
    call.isAnnounced = true;
    const { jobs, root, attempt, depth, weight, startedAt } = call;
    const lane = this.#host.laneName(call.lane);
    const size = jobs.length;
    onEvent({ type: 'batchFormed', operator, lane, reason, size, weight, waitMs: startedAt - (jobs[0] as Job<T, R>).acceptedAt });
    const { executing } = this.#gate.limiter;
    onEvent({ type: 'attemptStarted', operator, lane, batchId: root.id, size, weight, attempt, splitDepth: depth, executing });
  }

  /** Calls the work for those who have not left meanwhile. */
  #start(call: Call<T, R>): void {
    if (call.over) {
      call.lease.release('unused');
      return;
    }
    call.forgetThoseWhoLeft();
    call.sent();
    const { jobs } = call;
    const { operator } = this.#config;
    const context = new Context(call, this.#host.laneName(call.lane));
    const items = jobs.map((job) => job.input);
    const observer: WorkObserver<BatchResult<R>> = {
      done: (answer, empty) => {
        if (call.over) return;
        if (empty) this.#host.failed(call, new BatchShapeError(operator, jobs.length, 0, 'the work completed without an answer'));
        else this.#host.succeeded(call, answer);
      },
      failed: (error) => {
        if (!call.over) this.#host.failed(call, error);
      },
    };
    call.running = this.#context.run(
      (work) => startWork(work, observer),
      () => this.#work(items, context),
    );
    // The work may have made its last member leave before it returned.
    if (call.abort.aborted) this.#letGo(call);
  }

  /** The call is over. */
  close(call: Call<T, R>): void {
    call.over = true;
    this.#calls.delete(call);
    if (this.#calls.size === 0) this.#timeoutAt = Infinity;
    if (call.attempt > 1) this.#retrying--;
  }

  /** Reports a call that is over; its lease goes back once its results are out, with the error that ended it. */
  end(call: Call<T, R>, outcome: 'ok' | 'cancelled' | ErrorClass, failure?: { readonly error: unknown }): void {
    if (!call.isStopped) this.#spent.push(call.lease, failure);
    const { operator, onEvent } = this.#config;
    const { attempt, root, jobs } = call;
    const isTimed = outcome === 'ok' && this.#gate.isTimed;
    if (!isTimed && !call.isAnnounced) return;
    const latencyMs = this.#host.now() - call.startedAt;
    if (isTimed) this.#gate.took(latencyMs);
    if (!call.isAnnounced) return;
    onEvent?.({
      type: 'attemptEnded',
      operator,
      lane: this.#host.laneName(call.lane),
      batchId: root.id,
      size: jobs.length,
      attempt,
      outcome,
      latencyMs,
    });
  }

  /** Everybody has left the call. */
  abandon(call: Call<T, R>): void {
    if (call.over) return;
    this.close(call);
    this.#stop(call);
    this.end(call, 'cancelled');
    this.#host.abandoned(call);
  }

  /** Ends the attempts that have taken too long. */
  expire(now: number): void {
    if (now < this.#timeoutAt) return;
    const { operator, attemptTimeoutMs } = this.#config;
    // From the end: what takes the place of one that is over has been looked at already.
    for (let i = this.#calls.size - 1; i >= 0; i--) {
      const call = this.#calls.items[i];
      if (call === undefined || call.timeoutAt > now) continue;
      const error = new AttemptTimeoutError(operator, attemptTimeoutMs);
      this.#stop(call, error);
      this.#host.failed(call, error);
    }
    this.#timeoutAt = Infinity;
    for (const call of this.#calls.items) this.#timeoutAt = Math.min(this.#timeoutAt, call.timeoutAt);
  }

  /** When to look again whether an attempt has taken too long. */
  nextTimeoutAt(): number {
    return this.#timeoutAt;
  }

  /** Gives one lease back. */
  release(): void {
    this.#spent.release();
  }

  releaseAll(): void {
    this.#spent.releaseAll();
  }

  /** Stops listening to the call and aborts it: what the work says to that is not its answer. */
  #stop(call: Call<T, R>, error?: AttemptTimeoutError): void {
    call.over = true;
    call.isStopped = true;
    this.#effects.add(() => {
      call.running?.cancel();
      call.abort.abort();
      if (call.running) this.#letGo(call, error);
    });
  }

  /** An Observable has stopped, so its slot is free; a promise goes on, and keeps it for a while. */
  #letGo({ running, lease }: Call<T, R>, error?: AttemptTimeoutError): void {
    running?.cancel();
    if (running?.settled && !(this.#host.isOver() && this.#gate.ownsLimiter)) lease.releaseAfter(running.settled, error);
    else lease.release(error ? 'error' : 'cancelled', error);
  }
}
