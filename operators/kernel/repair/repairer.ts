import type { BatchHost, BatchRules } from '../machine/batch-host.js';
import type { ItemFailure, Job } from '../machine/job.js';
import { Batch, DONE, IN_FLIGHT, WAITING, weightOf } from '../machine/job.js';
import { DeadlineHeap } from '../queues/deadline-heap.js';
import type { Failure, Repair, RepairRule, Search } from './rule.js';
import type { Classify, ClassifyContext, Verdict } from './verdict.js';
import { mayPass } from './verdict.js';

/** The verdict on a failure, and the reason that its items are rejected with. */
export interface Judgement {
  readonly verdict: Verdict;
  readonly reason: unknown;
}

/** How callbacks are called, and their answers checked. */
export interface RepairCallbacks {
  verdict(operator: string, classify: Classify, error: unknown, context: ClassifyContext): Verdict;
  draw(operator: string, random: () => number): number;
}

/** The machine, as far as repairs go. */
export interface RepairedMachine<T, R> {
  readonly now: number;
  readonly calls: readonly { readonly attempt: number }[];
  readonly rules: Pick<BatchRules<T>, 'classify' | 'random' | 'scheduler' | 'repair'>;
  readonly refusal: unknown;
  readonly host: BatchHost<T, R>;
  laneName(lane: number): string;
  /** One more item waits in the lane, or one less. */
  count(lane: number, change: number): void;
  /** Puts a batch ahead of everything fresh in its lane. */
  bringBack(batch: Batch<T, R>): void;
  detach(job: Job<T, R>): void;
  settle(job: Job<T, R>, failed: boolean, outcome: unknown): void;
}

/** Items that failed alone in a call that succeeded and may be sent again, and the verdict that makes them wait longest. */
export interface FailedAlone<T, R> {
  readonly jobs: Job<T, R>[];
  slowest: Judgement | undefined;
}

/** Does what the repair rules decide: sends items again, now or after a pause, or holds them for the next step of a search. Rules bring it along. */
export class Repairer<T, R> {
  /** Batches between two attempts. */
  private waiting = 0;
  private readonly pauses = new DeadlineHeap<Batch<T, R>>();
  private readonly held = new Map<Search<Job<T, R>>, Batch<T, R>>();

  constructor(
    private readonly machine: RepairedMachine<T, R>,
    private readonly rules: readonly RepairRule[],
    private readonly callbacks: RepairCallbacks,
  ) {}

  /** Classifies a failure. When `classify` itself throws, the items are rejected with that error. */
  judge(error: unknown, size: number, attempt: number): Judgement {
    const { host, rules } = this.machine;
    const classify = rules.classify ?? this.rules.find((rule) => rule.classify)?.classify;
    try {
      const context = { size, attempt, aborted: false, ...(rules.scheduler && { epochMs: rules.scheduler.now() }) };
      if (classify) return { verdict: this.callbacks.verdict(host.operator, classify, error, context), reason: error };
    } catch (fault) {
      error = fault;
    }
    return { verdict: { class: 'fatal' }, reason: error };
  }

  /** When the next pause is over; Infinity when there is none. */
  get nextAt(): number {
    while (this.pauses.peek()?.live === 0) this.pauses.pop();
    return this.pauses.peekAt();
  }

  /** Queues the batches whose pause is over. */
  wake(): void {
    while (this.nextAt <= this.machine.now) this.ready(this.pauses.pop() as Batch<T, R>);
  }

  /** A call has succeeded as a whole. */
  answered({ origin }: Batch<T, R>): FailedAlone<T, R> {
    for (const rule of this.rules) rule.succeeded?.(origin);
    return { jobs: [], slowest: undefined };
  }

  /** One of its items has failed all the same. */
  failedAlone(batch: Batch<T, R>, job: Job<T, R>, { reason }: ItemFailure, alone: FailedAlone<T, R>): void {
    const judged = this.judge(reason, 1, batch.attempt);
    // The callback may have made the item leave.
    if (job.isDone) return;
    job.outcome = judged.reason;
    if (!mayPass(judged.verdict)) {
      this.machine.settle(job, true, judged.reason);
      return;
    }
    alone.jobs.push(job);
    if ((judged.verdict.retryAfterMs ?? 0) > (alone.slowest?.verdict.retryAfterMs ?? -1)) alone.slowest = judged;
  }

  /** All items of a call that succeeded have been handled. */
  concluded(batch: Batch<T, R>, { jobs, slowest }: FailedAlone<T, R>, allGood: boolean): void {
    const { search, origin } = batch;
    if (slowest) this.repair(batch, jobs, slowest, true);
    if (search) this.apply(batch, allGood ? search.succeeded(batch.jobs, origin) : search.inconclusive(origin));
  }

  /** A call has failed as a whole. */
  failed(batch: Batch<T, R>, jobs: readonly Job<T, R>[], reason: unknown, verdict: Verdict): void {
    if (verdict.class === 'throttled' && verdict.retryAfterMs !== undefined) this.machine.host.pause(verdict.retryAfterMs);
    if (!this.repair(batch, jobs, { verdict, reason }, false)) this.inconclusive(batch);
  }

  /** The batch's search goes on without an answer. */
  inconclusive(batch: Batch<T, R>): void {
    const { search, origin } = batch;
    if (search && this.machine.refusal === undefined) this.apply(batch, search.inconclusive(origin));
  }

  /** Everybody has left a batch that waits. */
  emptied(batch: Batch<T, R>): void {
    if (batch.isPausing) this.waiting--;
    this.inconclusive(batch);
  }

  /** Takes out all that waits. */
  takeAll(): Batch<T, R>[] {
    const all: Batch<T, R>[] = [];
    for (let batch = this.pauses.pop(); batch; batch = this.pauses.pop()) all.push(batch);
    all.push(...this.held.values());
    this.held.clear();
    return all;
  }

  /** Asks the rules, and rejects the items that they do not mention. True when the answer is the next step of the call's search. */
  private repair(batch: Batch<T, R>, jobs: readonly Job<T, R>[], { verdict, reason }: Judgement, isPartial: boolean): boolean {
    const { jobs: call, attempt, depth, origin } = batch;
    const { machine, waiting } = this;
    const { host, now, calls } = machine;
    const search = isPartial ? undefined : batch.search;
    const failure: Failure<Job<T, R>> = {
      ...{ operator: host.operator, now, error: reason, verdict, call, jobs, isPartial, attempt, depth, origin, search },
      ...{ executing: calls.length, retrying: calls.filter((one) => one.attempt > 1).length, waiting },
      ids: () => call.map(({ id }) => id),
      draw: () => this.callbacks.draw(host.operator, machine.rules.random),
    };
    let repair: Repair<Job<T, R>> | undefined;
    try {
      for (const rule of this.rules) if (jobs.length > 0) repair ??= rule.failed(failure);
    } catch (fault) {
      for (const job of jobs) job.outcome = fault;
    }
    if (repair) this.apply(batch, repair);
    for (const job of jobs) if (job.state === IN_FLIGHT) machine.settle(job, true, job.outcome);
    return repair?.search !== undefined;
  }

  /** Does what a rule has decided. All items are moved before any result is handed out. */
  private apply(batch: Batch<T, R>, { parts = [], attempt = 1, delayMs = 0, rejected = [], search, ...repair }: Repair<Job<T, R>>): void {
    const { origin } = batch;
    const { machine } = this;
    const { depth = batch.depth, held, pauseMs, note } = repair;
    const was = search && held && this.held.get(search);
    if (pauseMs !== undefined) machine.host.pause(pauseMs);
    if (was) {
      this.held.delete(search);
      for (const job of was.jobs) {
        if (job.batch !== was) continue;
        // In no batch now; the parts or `held` below take it.
        machine.count(job.lane, -1);
        job.state = IN_FLIGHT;
        job.batch = undefined;
      }
    }
    // Items that are in another call are settled by that call.
    const settled = rejected.filter(
      ({ job: { state, batch: at } }) => state === WAITING || (state === IN_FLIGHT && (at ?? batch) === batch),
    );
    for (const { job } of settled) {
      if (job.state === WAITING) machine.detach(job);
      job.state = DONE;
    }
    let isSent = false;
    for (const part of parts) {
      const jobs = part.filter(({ state }) => state === IN_FLIGHT);
      if (jobs.length === 0) continue;
      if (attempt === 1) origin.calls++;
      const again = this.regroup(batch, jobs, attempt, depth, search);
      isSent = true;
      if (delayMs > 0) {
        again.isPausing = true;
        this.waiting++;
        this.pauses.push(machine.now + delayMs, again);
      } else machine.bringBack(again);
    }
    if (search && held && held.length > 0) this.held.set(search, this.regroup(batch, held, 1, depth, undefined));
    for (const { job, reason } of settled) machine.settle(job, true, reason);
    if (was) for (const job of was.jobs) if (job.state === IN_FLIGHT && job.batch === undefined) machine.settle(job, true, job.outcome);
    if (note) machine.host.tell?.({ ...note, lane: machine.laneName(batch.lane), batchId: batch.id });
    // All items of the part have left while the rule was asked.
    if (search && !isSent && this.held.has(search)) this.apply(batch, search.inconclusive(origin));
  }

  /** Makes a batch of items that are to be sent again. The next step of a search may have items that the step before did not: they are of the searched batch. */
  private regroup(
    before: Batch<T, R>,
    jobs: readonly Job<T, R>[],
    attempt: number,
    depth: number,
    search: Batch<T, R>['search'],
  ): Batch<T, R> {
    const { searched, origin } = before;
    const batch = searched && jobs.some((job) => !before.jobs.includes(job)) ? searched : before;
    const id = `${batch.id}.${String(++batch.children)}`;
    const again = new Batch<T, R>(jobs, batch.lane, weightOf(jobs), id);
    Object.assign(again, {
      origin,
      parentId: batch.id,
      attempt,
      depth,
      search,
      searched: search && (search === before.search ? searched : batch),
    });
    for (const job of jobs) {
      job.state = WAITING;
      job.batch = again;
      this.machine.count(job.lane, 1);
    }
    return again;
  }

  private ready(batch: Batch<T, R>): void {
    this.waiting--;
    batch.isPausing = false;
    this.machine.bringBack(batch);
  }
}

const UNCHECKED: RepairCallbacks = {
  verdict: (_operator, classify, error, context) => classify(error, context),
  draw: (_operator, random) => random(),
};

/** What a rule's value has as its `createRepairer`. */
export function createRepairer<T, R>(machine: RepairedMachine<T, R>, rules: readonly RepairRule[], callbacks = UNCHECKED): Repairer<T, R> {
  return new Repairer(machine, rules, callbacks);
}
