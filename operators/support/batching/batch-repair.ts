import { asyncScheduler } from 'rxjs';
import { ItemFailure } from '../../kernel/machine/job.js';
import { isWithinBudget, retryDelayMs } from '../../kernel/repair/backoff.js';
import type { SearchSpent, SearchStep } from '../../kernel/repair/bad-item-search.js';
import { BadItemSearch } from '../../kernel/repair/bad-item-search.js';
import { positionsOf, trustedBlame } from '../../kernel/repair/blame.js';
import { dividePlan } from '../../kernel/repair/divide-plan.js';
import { FaultWatch } from '../../kernel/repair/fault-watch.js';
import { drawnFrom, verdictOf } from '../../options/ask.js';
import { DeadlineError, SplitBudgetError } from '../../options/errors.js';
import { isRetryable } from '../../options/retry.js';
import type { BatchResult, ErrorClass, Verdict } from '../../options/types.js';
import type { Outcome } from '../../shell/stitch.js';
import { stitch } from '../../shell/stitch.js';
import type { EngineConfig, SplitRule } from './batch-options.js';
import type { BatchQueue } from './batch-queue.js';
import type { Call, Job, Root, Search } from './job.js';
import { DONE, FLYING, Group, WAITING } from './job.js';

/** What a repair needs of the engine it belongs to. */
export interface RepairHost<T, R> {
  now(): number;
  /** Calls under way. */
  executing(): number;
  /** Those of them that are not a first attempt. */
  retrying(): number;
  laneName(lane: number): string;
  /** Holds back everything behind the limiter. */
  pause(pauseMs: number): void;
  /** The call is over; comes before its jobs go anywhere. */
  ended(call: Call<T, R>, outcome: 'ok' | ErrorClass, failure?: { readonly error: unknown }): void;
  fulfil(job: Job<T, R>, value: R): void;
  reject(job: Job<T, R>, reason: unknown): void;
}

/** Decides what becomes of the members of a call that has ended: their results, another try, or a search for the bad one. */
export class BatchRepair<T, R> {
  readonly #config: EngineConfig<T>;
  readonly #queue: BatchQueue<T, R>;
  readonly #host: RepairHost<T, R>;

  constructor(config: EngineConfig<T>, queue: BatchQueue<T, R>, host: RepairHost<T, R>) {
    this.#config = config;
    this.#queue = queue;
    this.#host = host;
  }

  succeed(call: Call<T, R>, answer: BatchResult<R>): void {
    let outcomes;
    try {
      outcomes = stitch(this.#config.operator, answer, () => call.jobs.map((job) => job.id), call.jobs.length);
    } catch (error) {
      this.fail(call, error);
      return;
    }
    this.#host.ended(call, 'ok');
    call.root.watch?.ruleOut();
    const again: Job<T, R>[] = [];
    let allGood = true;
    let slowest: Verdict | undefined;
    for (let i = 0; i < call.jobs.length; i++) {
      const job = call.jobs[i] as Job<T, R>;
      if (job.state !== FLYING) continue;
      const outcome = outcomes[i] as Outcome<R>;
      if (!(outcome instanceof ItemFailure)) {
        this.#host.fulfil(job, outcome);
        continue;
      }
      allGood = false;
      const { verdict, reason } = this.#judge(outcome.reason, 1, call.attempt);
      if (!isUnderWay(job)) continue;
      if (!isRetryable(verdict) || !this.#mayRetry(call)) {
        this.#host.reject(job, reason);
        continue;
      }
      job.reason = reason;
      again.push(job);
      if (slowest === undefined || (verdict.retryAfterMs ?? 0) > (slowest.retryAfterMs ?? 0)) slowest = verdict;
    }
    if (slowest) this.#retry(call, again, slowest);
    if (call.search && allGood) this.#advance(call.search, call.search.plan.succeeded(call.jobs, spent(call.root)));
    else if (call.search) this.carryOn(call.search);
  }

  fail(call: Call<T, R>, error: unknown): void {
    const { verdict, reason } = this.#judge(error, call.jobs.length, call.attempt);
    this.#host.ended(call, verdict.class, { error });
    if (verdict.class === 'throttled' && verdict.retryAfterMs !== undefined) this.#host.pause(verdict.retryAfterMs);
    const live = call.jobs.filter((job) => job.state === FLYING);
    for (const job of live) job.reason = reason;
    const { split } = this.#config;
    if (live.length > 0 && isRetryable(verdict) && this.#mayRetry(call)) {
      if (this.#retry(call, live, verdict, call.search)) return;
    } else if (live.length > 0 && split && (verdict.class === 'itemFault' || verdict.class === 'tooLarge')) {
      if (this.#divide(call, live, verdict, error, split(call.root.jobs.length))) return;
    } else {
      call.root.watch?.ruleOut();
      for (const job of live) if (job.state === FLYING) this.#host.reject(job, reason);
    }
    if (call.search) this.carryOn(call.search);
  }

  /** What was to be sent in a search has gone another way: whatever waited for its end is sent now. */
  carryOn(search: Search<T, R>): void {
    this.#advance(search, search.plan.untold(spent(search.root)));
  }

  /** What a failure is, and what its items are to be told: that `classify` failed in its turn is theirs to know as well. */
  #judge(error: unknown, size: number, attempt: number): { readonly verdict: Verdict; readonly reason: unknown } {
    const { operator, classify, scheduler } = this.#config;
    const context = { size, attempt, aborted: false, epochMs: (scheduler ?? asyncScheduler).now() };
    try {
      return { verdict: verdictOf(operator, classify, error, context), reason: error };
    } catch (fault) {
      return { verdict: { class: 'fatal' }, reason: fault };
    }
  }

  #mayRetry(call: Call<T, R>): boolean {
    const { retry } = this.#config;
    if (retry === undefined || call.attempt >= retry.maxAttempts) return false;
    const waiting = this.#queue.backingOff;
    return isWithinBudget(this.#host.retrying() + waiting, this.#host.executing() + waiting, retry.budget);
  }

  /** Sends the jobs again as they were, after a pause in which they hold no slot. False when none of them can wait for that. */
  #retry(call: Call<T, R>, jobs: readonly Job<T, R>[], verdict: Verdict, search?: Search<T, R>): boolean {
    const { retry, operator, random } = this.#config;
    if (retry === undefined) return false;
    const now = this.#host.now();
    let delayMs: number;
    try {
      delayMs = retryDelayMs(call.attempt, verdict.retryAfterMs, retry, drawnFrom(operator, random));
    } catch (fault) {
      for (const job of jobs) this.#host.reject(job, fault);
      return false;
    }
    // A 429 is about the account, not about this batch: everybody waits.
    if (verdict.class === 'throttled') this.#host.pause(delayMs);
    const inTime: Job<T, R>[] = [];
    for (const job of jobs) {
      if (job.state !== FLYING) continue;
      if (now + delayMs < job.deadlineAt) inTime.push(job);
      else this.#host.reject(job, new DeadlineError(operator, job.deadlineMs, now - job.acceptedAt, job.reason));
    }
    if (inTime.length === 0) return false;
    const attempt = call.attempt + 1;
    this.#queue.addBackoff(new Group(inTime, call.lane, call.root, attempt, call.depth, 'retry', search), now + delayMs);
    this.#config.onEvent?.({
      type: 'retryScheduled',
      operator,
      lane: this.#host.laneName(call.lane),
      class: verdict.class,
      size: inTime.length,
      attempt,
      delayMs,
    });
    return true;
  }

  /** Rejects what the error names, or cuts the batch up, until the bad item stands alone. True when that moves the call's search on. */
  #divide(call: Call<T, R>, live: readonly Job<T, R>[], verdict: Verdict, error: unknown, rule: SplitRule): boolean {
    const { root, jobs, depth, lane } = call;
    const size = jobs.length;
    const blame = verdict.blame && positionsOf(verdict.blame, () => jobs.map((job) => job.id), size);
    const trusted = trustedBlame(blame, size);
    const watch = (root.watch ??= new FaultWatch(rule.strategy === 'parallel' ? rule.factor : undefined));
    if (verdict.unrecognised && trusted === undefined) watch.failed(error, size, depth);
    else watch.ruleOut();
    if (watch.isHopeless) {
      this.#giveUp(root, live, error);
      return true;
    }
    if (rule.strategy === 'parallel' || verdict.class === 'tooLarge') {
      this.#spread(call, verdict, blame, error, rule);
      return false;
    }
    const plan = call.search?.plan ?? new BadItemSearch<Job<T, R>>(depth, rule, (job) => job.state !== DONE);
    const step = plan.failed(jobs, depth, trusted, spent(root));
    if (step.blamed) root.blameRounds++;
    const { operator, onEvent } = this.#config;
    const laneName = this.#host.laneName(lane);
    this.#advance(call.search ?? { plan, root, lane, maxCalls: rule.maxCalls, held: undefined }, step);
    if (step.blamed) onEvent?.({ type: 'blamed', operator, lane: laneName, size, blamed: step.reject.length, round: root.blameRounds });
    else if (size > 1 && step.send.length > 0) onEvent?.({ type: 'split', operator, lane: laneName, size, parts: 2, depth: depth + 1 });
    return true;
  }

  /** Sends the parts of a failed call at once, each under its own permit. */
  #spread(call: Call<T, R>, verdict: Verdict, blame: readonly number[] | undefined, error: unknown, rule: SplitRule): void {
    const { operator, onEvent } = this.#config;
    const { root, jobs, depth } = call;
    const size = jobs.length;
    const plan = dividePlan(
      {
        size,
        weights: jobs.map((job) => job.weight),
        blame,
        tooLarge: verdict.class === 'tooLarge' ? (verdict.tooLarge ?? true) : undefined,
        depth,
        calls: root.calls,
        blameRounds: root.blameRounds,
      },
      rule,
    );
    const live = (positions: readonly number[]): Job<T, R>[] =>
      positions.map((i) => jobs[i] as Job<T, R>).filter((job) => job.state === FLYING);
    for (const job of live(plan.reject)) if (job.state === FLYING) this.#host.reject(job, error);
    for (const job of live(plan.giveUp)) this.#host.reject(job, new SplitBudgetError(operator, rule.maxCalls, root.calls, error));
    const parts = plan.parts.map(live).filter((part) => part.length > 0);
    root.calls += parts.length;
    root.watch?.cut(depth, parts.length);
    if (plan.blamed) root.blameRounds++;
    for (const part of parts) this.#queue.addReady(new Group(part, call.lane, root, 1, depth + 1, 'split'));
    const lane = this.#host.laneName(call.lane);
    if (plan.blamed) onEvent?.({ type: 'blamed', operator, lane, size, blamed: plan.reject.length, round: root.blameRounds });
    else if (parts.length > 0) onEvent?.({ type: 'split', operator, lane, size, parts: parts.length, depth: depth + 1 });
  }

  /** Takes one step of a search: what goes out, what goes on waiting, what is settled. */
  #advance(search: Search<T, R>, step: SearchStep<Job<T, R>>): void {
    const { root, lane, plan } = search;
    const { reject, infer, giveUp, send, depth } = step;
    if (search.held) this.#queue.letGo(search.held);
    search.held = undefined;
    // The jobs are where they belong before anybody is told: a listener may make some of them leave.
    for (const job of [...reject, ...infer, ...giveUp]) job.state = DONE;
    if (send.length > 0) {
      root.calls++;
      this.#queue.addReady(new Group(send, lane, root, 1, depth, 'split', search));
    }
    if (plan.held.length > 0) {
      search.held = new Group(plan.held, lane, root, 1, depth, 'split');
      this.#queue.hold(search.held);
    }
    for (const job of [...reject, ...infer]) this.#host.reject(job, job.reason);
    const { operator } = this.#config;
    for (const job of giveUp) this.#host.reject(job, new SplitBudgetError(operator, search.maxCalls, root.calls, job.reason));
  }

  /** Nothing of the batch has ever succeeded, and no item is to blame. */
  #giveUp(root: Root<T, R>, live: readonly Job<T, R>[], error: unknown): void {
    for (const job of live) if (job.state === FLYING) this.#host.reject(job, error);
    for (const job of root.jobs) {
      if (job.state !== WAITING) continue;
      this.#queue.remove(job);
      this.#host.reject(job, error);
    }
  }
}

function spent<T, R>({ calls, blameRounds, watch }: Root<T, R>): SearchSpent {
  return { calls, blameRounds, alone: watch?.alone ?? 0 };
}

/** Asked again after your callbacks: they may have made it leave. */
function isUnderWay({ state }: Job<unknown, unknown>): boolean {
  return state === FLYING;
}
