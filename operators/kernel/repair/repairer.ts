import { boundedHintMs } from '../limits/headers.js';
import type { BatchHost, BatchRules } from '../machine/batch-host.js';
import type { ItemFailure, Job } from '../machine/job.js';
import { Batch, DONE, IN_FLIGHT, WAITING, weightOf } from '../machine/job.js';
import { Refusals } from './refusals.js';
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

/** Does what the repair rules decide: sends items again, now or after a pause, or holds them for a later step of a search. Rules bring it along. */
export class Repairer<T, R> {
  /** Batches between two attempts. */
  private readonly pausing = new Set<Batch<T, R>>();
  /** Items that wait for a later step of their search. */
  private readonly held = new Set<Batch<T, R>>();
  private readonly refusals = new Refusals();
  /** When the next pause is over; Infinity when there is none. */
  nextAt = Infinity;

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

  /** Queues the batches whose pause is over. */
  wake(): void {
    const { machine, pausing } = this;
    if (machine.now < this.nextAt) return;
    this.nextAt = Infinity;
    for (const batch of pausing) {
      if (batch.readyAt > machine.now) this.nextAt = Math.min(this.nextAt, batch.readyAt);
      else {
        pausing.delete(batch);
        machine.bringBack(batch);
      }
    }
  }

  /** A call has succeeded as a whole. */
  answered({ origin, startedAt }: Batch<T, R>): FailedAlone<T, R> {
    this.refusals.answered(startedAt);
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
    if (slowest) this.repair(batch, jobs, slowest, true);
    this.searchOn(batch, allGood ? batch.jobs : undefined);
  }

  /** A call has failed as a whole. */
  failed(batch: Batch<T, R>, jobs: readonly Job<T, R>[], reason: unknown, verdict: Verdict): void {
    const { class: found, retryAfterMs, isTierOnly } = verdict;
    const { host } = this.machine;
    if (found === 'throttled' && retryAfterMs !== undefined && !isTierOnly) host.pause(boundedHintMs(retryAfterMs, host.tell));
    if (!this.repair(batch, jobs, { verdict, reason }, false)) this.inconclusive(batch);
  }

  /** A call is over, or was never made, and says nothing of its items. */
  inconclusive(batch: Batch<T, R>): void {
    if (this.machine.refusal === undefined) this.searchOn(batch, undefined);
  }

  /** All items have left a waiting batch. */
  emptied(batch: Batch<T, R>): void {
    this.held.delete(batch);
    if (this.pausing.delete(batch)) this.nextAt = Array.from(this.pausing).reduce((at, { readyAt }) => Math.min(at, readyAt), Infinity);
    this.inconclusive(batch);
  }

  /** Takes out all that waits. */
  takeAll(): Batch<T, R>[] {
    const all = [...this.pausing, ...this.held];
    this.pausing.clear();
    this.held.clear();
    this.nextAt = Infinity;
    return all;
  }

  /** Batches between two attempts that count as retries. */
  private get waiting(): number {
    let waiting = 0;
    for (const { isRefused } of this.pausing) if (!isRefused) waiting++;
    return waiting;
  }

  /** The search that the batch was a step of takes its next one. */
  private searchOn(batch: Batch<T, R>, good: readonly Job<T, R>[] | undefined): void {
    const { search, origin } = batch;
    if (search) this.apply(batch, search.next(good, origin), search);
  }

  /** Asks the rules, and rejects the items that they do not mention. True when the answer is the next step of the call's search. */
  private repair(batch: Batch<T, R>, jobs: readonly Job<T, R>[], { verdict, reason }: Judgement, isPartial: boolean): boolean {
    const { jobs: call, attempt, depth, origin, refusedMs, startedAt } = batch;
    const { host, now, calls, rules } = this.machine;
    const { operator } = host;
    const search = isPartial ? undefined : batch.search;
    const failure: Failure<Job<T, R>> = {
      ...{ operator, now, error: reason, verdict, call, jobs, isPartial, attempt, depth, origin, search },
      ...{ executing: calls.length, retrying: calls.filter((one) => one.attempt > 1).length, waiting: this.waiting, refusedMs },
      refusals: verdict.class === 'throttled' ? this.refusals.refused(startedAt, now) : 0,
      draw: () => this.callbacks.draw(operator, rules.random),
    };
    let repair: Repair<Job<T, R>> | undefined;
    try {
      for (const rule of this.rules) if (jobs.length > 0) repair ??= rule.failed(failure);
    } catch (fault) {
      for (const job of jobs) job.outcome = fault;
    }
    // Another attempt at a step is still that step.
    const isAgain = repair?.parts?.length && ((repair.attempt ?? 1) > 1 || repair.isRefusal);
    const next = repair?.search ?? (isAgain ? search : undefined);
    if (repair) this.apply(batch, repair, next);
    for (const job of jobs) if (job.state === IN_FLIGHT) this.machine.settle(job, true, job.outcome);
    return next !== undefined;
  }

  /** Does what a rule has decided. All items are moved before any result is handed out. */
  private apply(batch: Batch<T, R>, repair: Repair<Job<T, R>>, search: Search<Job<T, R>> | undefined): void {
    const {
      parts = [],
      attempt = 1,
      depth = batch.depth,
      delayMs = 0,
      pauseMs,
      isRefusal = false,
      rejected = [],
      held = [],
      note,
    } = repair;
    const { machine, pausing } = this;
    if (pauseMs !== undefined) {
      this.refusals.pause(machine.now + pauseMs);
      machine.host.pause(boundedHintMs(pauseMs));
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
      const again = this.regroup(batch, part, attempt, depth, search);
      if (again === undefined) continue;
      isSent = true;
      if (isRefusal) {
        again.isRefused = true;
        again.refusedMs = batch.refusedMs + delayMs;
        for (const job of again.jobs) job.attempts--;
      } else if (attempt === 1) batch.origin.calls++;
      if (delayMs > 0) {
        again.readyAt = machine.now + delayMs;
        this.nextAt = Math.min(this.nextAt, again.readyAt);
        pausing.add(again);
      } else machine.bringBack(again);
    }
    const rest = this.regroup(batch, held, 1, depth, undefined);
    if (rest) this.held.add(rest);
    for (const { job, reason } of settled) machine.settle(job, true, reason);
    if (note) machine.host.tell?.({ ...note, lane: machine.laneName(batch.lane), batchId: batch.id });
    // All items of the part have left while the rule was asked.
    if (search && parts.length > 0 && !isSent) this.apply(batch, search.next(undefined, batch.origin), search);
  }

  /** Makes a batch of items that are to be sent again, or held: those of a call that is over, and those that were held until now. */
  private regroup(
    before: Batch<T, R>,
    members: readonly Job<T, R>[],
    attempt: number,
    depth: number,
    search: Batch<T, R>['search'],
  ): Batch<T, R> | undefined {
    const { machine, held } = this;
    const { origin } = before;
    const jobs = members.filter(({ state, batch }) => state === IN_FLIGHT || (batch && held.has(batch)));
    if (jobs.length === 0) return undefined;
    // A step of a search may have items that the step before did not.
    const batch = search && jobs.some((job) => !before.jobs.includes(job)) ? origin : before;
    const again = new Batch<T, R>(jobs, batch.lane, weightOf(jobs), `${batch.id}.${String(++batch.children)}`);
    Object.assign(again, { origin, parentId: batch.id, attempt, depth, search });
    for (const job of jobs) {
      if (job.state === WAITING) machine.detach(job);
      job.state = WAITING;
      job.batch = again;
      machine.count(job.lane, 1);
    }
    return again;
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
