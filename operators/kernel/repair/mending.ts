import type { BatchHost, BatchRules } from '../machine/batch-host.js';
import type { ItemFailure, Job } from '../machine/job.js';
import { Batch, DONE, FLYING, WAITING, weightOf } from '../machine/job.js';
import { DeadlineHeap } from '../queues/deadline-heap.js';
import type { Failure, Repair, RepairRule, Search } from './rule.js';
import type { Classify, ClassifyContext, Verdict } from './verdict.js';
import { mayPass } from './verdict.js';

/** What a failure is, and what its items are to be told. */
export interface Judgement {
  readonly verdict: Verdict;
  readonly reason: unknown;
}

/** How callbacks are asked, and their answers checked. */
export interface Asking {
  verdict(operator: string, classify: Classify, error: unknown, context: ClassifyContext): Verdict;
  draw(operator: string, random: () => number): number;
}

/** What a mending needs of its machine. */
export interface Mended<T, R> {
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

/** Single items of a call that have failed and may be sent again, and the verdict that makes them wait longest. */
export interface FailedAlone<T, R> {
  readonly jobs: Job<T, R>[];
  slowest: Judgement | undefined;
}

/** Does what rules decide: what is sent again, now or after a pause, and what waits for the next step of a search. Values of rules bring it along. */
export class Mending<T, R> {
  /** Batches between two attempts. */
  private waiting = 0;
  private readonly pauses = new DeadlineHeap<Batch<T, R>>();
  private readonly held = new Map<Search<Job<T, R>>, Batch<T, R>>();

  constructor(
    private readonly machine: Mended<T, R>,
    private readonly rules: readonly RepairRule[],
    private readonly asking: Asking,
  ) {}

  /** That `classify` failed in its turn is for the items' owners to know as well. */
  judge(error: unknown, size: number, attempt: number): Judgement {
    const { host, rules } = this.machine;
    const classify = rules.classify ?? this.rules.find((rule) => rule.classify)?.classify;
    try {
      const context = { size, attempt, aborted: false, ...(rules.scheduler && { epochMs: rules.scheduler.now() }) };
      if (classify) return { verdict: this.asking.verdict(host.operator, classify, error, context), reason: error };
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

  /** Lets those go whose pause is over. */
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
    // The callback may have made it leave.
    if (job.isDone) return;
    job.outcome = judged.reason;
    if (!mayPass(judged.verdict)) {
      this.machine.settle(job, true, judged.reason);
      return;
    }
    alone.jobs.push(job);
    if ((judged.verdict.retryAfterMs ?? 0) > (alone.slowest?.verdict.retryAfterMs ?? -1)) alone.slowest = judged;
  }

  /** All its items have been seen to. */
  concluded(batch: Batch<T, R>, { jobs, slowest }: FailedAlone<T, R>, allGood: boolean): void {
    const { search, origin } = batch;
    if (slowest) this.repair(batch, jobs, slowest, true);
    if (search) this.apply(batch, allGood ? search.succeeded(batch.jobs, origin) : search.untold(origin));
  }

  /** A call has failed as a whole. */
  failed(batch: Batch<T, R>, jobs: readonly Job<T, R>[], reason: unknown, verdict: Verdict): void {
    if (verdict.class === 'throttled' && verdict.retryAfterMs !== undefined) this.machine.host.pause(verdict.retryAfterMs);
    if (!this.repair(batch, jobs, { verdict, reason }, false)) this.untold(batch);
  }

  /** The batch's search goes on without an answer. */
  untold(batch: Batch<T, R>): void {
    const { search, origin } = batch;
    if (search && this.machine.refusal === undefined) this.apply(batch, search.untold(origin));
  }

  /** Everybody has left a batch that waits. */
  emptied(batch: Batch<T, R>): void {
    if (batch.isPausing) this.waiting--;
    this.untold(batch);
  }

  /** Takes out all that waits. */
  takeAll(): Batch<T, R>[] {
    const all: Batch<T, R>[] = [];
    for (let batch = this.pauses.pop(); batch; batch = this.pauses.pop()) all.push(batch);
    all.push(...this.held.values());
    this.held.clear();
    return all;
  }

  /** Asks the rules, and rejects whoever they do not mention; true when that was the next step of the call's search. */
  private repair(batch: Batch<T, R>, jobs: readonly Job<T, R>[], { verdict, reason }: Judgement, isPartial: boolean): boolean {
    const { jobs: call, attempt, depth, origin } = batch;
    const { machine, waiting } = this;
    const { host, now, calls } = machine;
    const search = isPartial ? undefined : batch.search;
    const failure: Failure<Job<T, R>> = {
      ...{ operator: host.operator, now, error: reason, verdict, call, jobs, isPartial, attempt, depth, origin, search },
      ...{ executing: calls.length, retrying: calls.filter((one) => one.attempt > 1).length, waiting },
      ids: () => call.map(({ id }) => id),
      draw: () => this.asking.draw(host.operator, machine.rules.random),
    };
    let repair: Repair<Job<T, R>> | undefined;
    try {
      for (const rule of this.rules) if (jobs.length > 0) repair ??= rule.failed(failure);
    } catch (fault) {
      for (const job of jobs) job.outcome = fault;
    }
    if (repair) this.apply(batch, repair);
    for (const job of jobs) if (job.state === FLYING) machine.settle(job, true, job.outcome);
    return repair?.search !== undefined;
  }

  /** Does what a rule has decided. The items are where they belong before anybody is told. */
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
        // In no batch, and about to be put into one.
        machine.count(job.lane, -1);
        job.state = FLYING;
        job.batch = undefined;
      }
    }
    // Those that are in another call have their end there.
    const settled = rejected.filter(({ job: { state, batch: at } }) => state === WAITING || (state === FLYING && (at ?? batch) === batch));
    for (const { job } of settled) {
      if (job.state === WAITING) machine.detach(job);
      job.state = DONE;
    }
    let isSent = false;
    for (const part of parts) {
      const jobs = part.filter(({ state }) => state === FLYING);
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
    if (was) for (const job of was.jobs) if (job.state === FLYING && job.batch === undefined) machine.settle(job, true, job.outcome);
    if (note) machine.host.tell?.({ ...note, lane: machine.laneName(batch.lane), batchId: batch.id });
    // Everybody in the part has left while the rule was asked.
    if (search && !isSent && this.held.has(search)) this.apply(batch, search.untold(origin));
  }

  /** Items that are to be sent again, as a batch of their own. The next step of a search may have others than the one before: those of the whole. */
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

const UNCHECKED: Asking = {
  verdict: (_operator, classify, error, context) => classify(error, context),
  draw: (_operator, random) => random(),
};

/** What a rule's value has as its `mend`. */
export function mend<T, R>(machine: Mended<T, R>, rules: readonly RepairRule[], asking = UNCHECKED): Mending<T, R> {
  return new Mending(machine, rules, asking);
}
