import type { Order, OrderRule } from '../queues/order.js';
import type { LaneRule, Overflow, QueueRule } from '../queues/queue.js';
import type { ReorderBuffer } from '../queues/reorder-buffer.js';
import type { RepairNote, RepairRule } from '../repair/rule.js';
import type { Verdict } from '../repair/verdict.js';
import type { Batch, Job } from './job.js';
import { DONE } from './job.js';

/** What an operator says of its batches. */
export interface BatchRules<T> {
  readonly maxSize: number;
  readonly maxWeight: number;
  readonly maxQueued: number;
  readonly overflow: Overflow;
  readonly queue: QueueRule<T>;
  readonly order: Order<T> | undefined;
  readonly repair: readonly RepairRule[];
  readonly timeoutMs: number;
}

/** What happens to items; whoever drives the machine adds who tells it and when. */
export type BatchNote =
  | { readonly type: 'dropped'; readonly lane: string; readonly policy: string; readonly seq: number }
  | { readonly type: 'queueLong'; readonly lane: string; readonly queued: number }
  | { readonly type: 'expired'; readonly lane: string; readonly deadlineMs: number; readonly seq: number }
  | { readonly type: 'cancelled'; readonly lane: string; readonly count: number }
  | {
      readonly type: 'settled';
      readonly lane: string;
      readonly outcome: 'fulfilled' | 'rejected';
      readonly attempts: number;
      readonly totalMs: number;
      readonly seq: number;
    }
  | (RepairNote & { readonly lane: string; readonly batchId: string });

/** What a failure is, and what its items are to be told. */
export interface Judgement {
  readonly verdict: Verdict;
  readonly reason: unknown;
}

/** Whoever drives a machine: asked for what a machine cannot know, and told what is to be done outside once this step is over. */
export interface BatchHost<T, R> {
  readonly operator: string;
  /** Undefined when nobody listens. */
  readonly tell: ((note: BatchNote) => void) | undefined;
  /** False for whoever pulls: that is done while there is room, and what was on its way when repairs came back is still taken. */
  readonly isBounded: boolean;
  /** Sorts an error; asks a callback, which may do anything. */
  judge(error: unknown, size: number, attempt: number): Judgement;
  /** A random number; asks a callback. */
  draw(): number;
  deadlineError(job: Job<T, R>, now: number): unknown;
  overflowError(limit: number, policy: Overflow): unknown;
  /** Nobody is to send anything for a while. */
  pause(pauseMs: number): void;
  /** Everybody has left the call. */
  stop(batch: Batch<T, R>): void;
}

/** Most results held back while `maxQueued` is no bound. */
const MOST_HELD = 1000;

/** Where every item gets its result, once, and waits to be handed out: at once, or when those before it have theirs. */
export abstract class BatchResults<T, R> {
  /** The time of what is being told, in ms. */
  now = 0;
  /** Rejects everything that comes. */
  refusal: { readonly error: unknown } | undefined = undefined;
  protected readonly lanes: readonly LaneRule[];
  protected readonly order: ReorderBuffer<Job<T, R>> | undefined;
  /** Results that can be handed out. */
  protected readonly results: Job<T, R>[] = [];
  protected resultsAt = 0;
  /** Parts whose item has been rejected. */
  protected readonly orphans: Job<T, R>[] = [];

  constructor(
    protected readonly rules: BatchRules<T>,
    readonly host: BatchHost<T, R>,
  ) {
    this.lanes = rules.queue.lanes;
    this.order = (rules.order as OrderRule<T> | undefined)?.lines<Job<T, R>>((job) => this.results.push(job));
  }

  laneName(lane: number): string {
    return this.lanes[lane]?.name ?? '';
  }

  /** Gives the next item its place in the order of results. */
  place(job: Job<T, R>, key: unknown): void {
    if (this.order === undefined) return;
    const place = this.order.enter(key);
    place.item = job;
    job.extras.place = place;
  }

  /** Results that wait for those of earlier items. */
  get heldBack(): number {
    return this.order === undefined ? 0 : this.order.held;
  }

  /** Results that are not handed out. */
  get waitingResults(): number {
    return this.results.length - this.resultsAt + this.heldBack;
  }

  /** Whether there is nothing to hand out and nothing to clear away. */
  get isIdle(): boolean {
    return this.resultsAt === this.results.length && this.orphans.length === 0;
  }

  /** The next result to be handed out. */
  shift(): Job<T, R> | undefined {
    const { results } = this;
    if (this.resultsAt === results.length) {
      if (results.length > 0) results.length = this.resultsAt = 0;
      return undefined;
    }
    return results[this.resultsAt++];
  }

  /** Gives the item a result of its own that has not been in a call, or has failed there for good. */
  reject(job: Job<T, R>, reason: unknown, counts = true): void {
    const whole = job.more?.whole;
    if (whole === undefined || whole.job === job) this.settle(job, true, reason, counts);
    else {
      job.state = DONE;
      if (whole.job.state === DONE) return;
      this.settle(whole.job, true, reason, counts);
      this.orphans.push(...whole.parts);
    }
  }

  /** Whether so many results are held back that only the item they wait for may be worked on. */
  get isBlocked(): boolean {
    const { maxQueued, order } = this.rules;
    return order?.gates === true && this.heldBack >= (maxQueued === Infinity ? MOST_HELD : maxQueued);
  }

  protected fulfil(job: Job<T, R>, value: R): void {
    const whole = job.more?.whole;
    if (whole === undefined) {
      this.settle(job, false, value, true);
      return;
    }
    job.state = DONE;
    const joined = whole.job.state === DONE ? undefined : whole.fulfilled(job, value);
    // Joining asks a callback, which may have given the item up.
    if (joined && !whole.job.isDone) this.settle(whole.job, joined.failed, joined.outcome, true);
  }

  /** The one place where an item gets its result. */
  protected settle(job: Job<T, R>, failed: boolean, outcome: unknown, counts: boolean): void {
    job.state = DONE;
    job.batch = undefined;
    job.failed = failed;
    job.outcome = outcome;
    const place = job.more?.place;
    if (place === undefined) this.results.push(job);
    // What was dropped takes up no room.
    else this.order?.ready(place, counts);
    this.host.tell?.({
      type: 'settled',
      lane: this.laneName(job.lane),
      outcome: failed ? 'rejected' : 'fulfilled',
      attempts: job.attempts,
      totalMs: this.now - job.acceptedAt,
      seq: job.index,
    });
  }
}
