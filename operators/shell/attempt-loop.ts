import type { SchedulerLike, Subscriber } from 'rxjs';
import { captureContext } from '#async-context';
import type { Failure, Repair, RepairRule } from '../kernel/repair/rule.js';
import { mayPass } from '../kernel/repair/verdict.js';
import { drawnFrom, verdictOrFatal } from '../options/ask.js';
import { AttemptTimeoutError, isFlowError } from '../options/errors.js';
import type { Note } from '../options/events.js';
import type { Lease, Limiter, LimiterJob } from '../options/limiter.js';
import type { Outcome, Permit } from '../options/permits.js';
import type { Classify, ErrorClass, ResponseLike, Usage, Verdict, WorkResult } from '../options/types.js';
import { Alarm } from './alarm.js';
import { PermittedCall } from './call.js';

/** What the work of a policy is told about its attempt. The functions may be taken out of it. */
export interface PolicyContext {
  /**
   * Aborts when the attempt has timed out, the deadline has passed, or nobody wants the result any more; never once a promise has answered.
   * Made on the first look.
   */
  readonly signal: AbortSignal;
  /** 1 on the first attempt. */
  readonly attempt: number;
  /** When this attempt is cut off, on the policy's scheduler; Infinity when it is not. */
  readonly deadlineAt: number;
  /** How long it has waited for its permit, in ms. */
  readonly queuedMs: number;
  /** The attempt's own permit, with a `limiter`; it is released when the attempt ends. */
  readonly lease: Lease | undefined;
  /** Replaces the estimated token cost by the real one. */
  readonly settle: (usage: Usage) => void;
  /** Lets the limiter read `retry-after` from a response. */
  readonly observe: (response: ResponseLike) => void;
}

export type PolicyWork<R> = (context: PolicyContext) => WorkResult<R>;

/** The same for work that is part of this package. */
export interface AttemptContext extends PolicyContext {
  /** Called when the signal aborts, or would. */
  whenAborted: (() => void) | undefined;
  /** When set, it says when the permit goes back: the other side sees a connection close later than we close it. */
  giveBack: ((release: () => void) => void) | undefined;
}

export type AttemptWork<R> = (context: AttemptContext) => WorkResult<R>;

/** How much the calls of one policy have under way, for the retry budget. */
export interface PolicyLoad {
  calls: number;
  active: number;
  retrying: number;
  executing: number;
}

/** Where attempts get their permits: a limiter, or what stands for one. */
export type PermitSource = Pick<Limiter, 'acquire' | 'penalize'>;

/** The options of the attempts of a call. */
export interface AttemptRules {
  readonly operator: string;
  readonly retry: RepairRule | undefined;
  readonly limiter: PermitSource | undefined;
  readonly job: LimiterJob | undefined;
  readonly timeoutMs: number;
  readonly idempotent: boolean;
  readonly classify: Classify;
  readonly scheduler: SchedulerLike;
  readonly random: () => number;
  readonly tell: ((note: Note) => void) | undefined;
  readonly load: PolicyLoad;
  /** Names the call and its lane in events. */
  readonly id: string;
  readonly lane: string;
}

/**
 * The attempts of one call, one after the other. Each waits for a permit, is aborted at its timeout, and releases its permit before the next one is
 * planned. No permit is held during a pause.
 */
export class AttemptLoop<R> {
  readonly #rules: AttemptRules;
  /** When the whole call is cut off; Infinity when it is not. */
  readonly #deadlineAt: number;
  readonly #work: AttemptWork<R>;
  readonly #alarm: Alarm;
  /** The caller's context: attempts begin in timers, and inside other calls that release a permit. */
  readonly context = captureContext();
  #to!: Subscriber<R>;
  /** The running attempt, or the last one. */
  #attempt: Attempt<R> | undefined;
  #hasAnswered = false;
  #isRetry = false;
  /** When the permit of the next attempt was asked for. */
  #askedAt = 0;
  /** Attempts begun, refused ones included. */
  count = 0;
  /** What the last attempt failed with. */
  failure: unknown = undefined;
  /** The consumer has left with the whole answer. */
  hasSucceeded = false;
  /** It gave up because the next pause would have gone beyond the deadline. */
  isOutOfTime = false;

  constructor(rules: AttemptRules, deadlineAt: number, work: AttemptWork<R>) {
    this.#rules = rules;
    this.#deadlineAt = deadlineAt;
    this.#work = work;
    this.#alarm = new Alarm(rules.scheduler, () => {
      this.#onTimer();
    });
  }

  /** Makes attempts until one answers, or there are no more. */
  start(to: Subscriber<R>): void {
    this.#to = to;
    to.add(() => {
      this.#stop();
    });
    this.#next();
  }

  /** Asks for a permit and makes the next attempt. */
  #next(): void {
    const { limiter, job } = this.#rules;
    this.count += 1;
    this.#askedAt = this.#alarm.now();
    if (limiter === undefined) {
      this.#begin(undefined);
      return;
    }
    try {
      const waiting = limiter.acquire(job).subscribe({
        next: (lease) => {
          this.#begin(lease);
        },
        error: (error: unknown) => {
          this.#refused(error);
        },
      });
      this.#to.add(waiting);
    } catch (error) {
      // The limiter does not take such a job.
      this.#to.error(error);
    }
  }

  #stop(): void {
    this.#alarm.clear();
    this.#endRetry();
    const attempt = this.#attempt;
    if (attempt === undefined || attempt.isOver) return;
    const outcome = attempt.isAnswered ? 'ok' : 'cancelled';
    attempt.isOver = true;
    attempt.stop();
    attempt.release(outcome);
    this.hasSucceeded = outcome === 'ok';
    this.#ended(attempt, outcome);
  }

  /** Releases the permit of the last attempt, if it still has it, for the fallback. */
  giveBack(): void {
    this.#attempt?.release('error', this.failure);
  }

  #begin(lease: Lease | undefined): void {
    if (this.#to.closed) {
      lease?.release('unused');
      return;
    }
    const { timeoutMs, tell, lane, load, id } = this.#rules;
    const now = this.#alarm.now();
    const timeoutAt = now + timeoutMs;
    const attempt = new Attempt<R>(this, this.count, now, Math.min(timeoutAt, this.#deadlineAt), now - this.#askedAt, lease);
    this.#attempt = attempt;
    load.executing += 1;
    const { executing } = load;
    tell?.({ type: 'attemptStarted', lane, batchId: id, size: 1, weight: 1, attempt: this.count, splitDepth: 0, executing });
    // Not when a listener has made the consumer leave.
    attempt.begin(this.context);
    // The deadline of the whole call has a timer of its own.
    if (!attempt.isOver && timeoutAt < this.#deadlineAt) this.#alarm.set(timeoutAt);
  }

  /** Called by an attempt. */
  callWork(attempt: Attempt<R>): WorkResult<R> {
    return this.#work(attempt);
  }

  /** Called by an attempt. */
  got(value: R): void {
    this.#hasAnswered = true;
    this.#to.next(value);
  }

  /** Called by an attempt. */
  done(attempt: Attempt<R>): void {
    attempt.isOver = true;
    attempt.release('ok');
    this.#ended(attempt, 'ok');
    this.#to.complete();
  }

  /** The attempt has taken too long, or the pause is over. */
  #onTimer(): void {
    const attempt = this.#attempt;
    if (attempt === undefined || attempt.isOver) {
      this.#next();
      return;
    }
    this.failed(attempt, new AttemptTimeoutError(this.#rules.operator, this.#rules.timeoutMs));
  }

  /** The error goes out before the permit is released: whoever cancels other calls because of it must not see them begin first. */
  failed(attempt: Attempt<R>, error: unknown): void {
    const verdict = this.#judge(error);
    // `classify`, or a listener to the pause, may have made the consumer leave.
    if (attempt.isOver) return;
    attempt.isOver = true;
    // One that has failed by itself has stopped.
    if (!attempt.hasEnded) attempt.stop();
    this.#ended(attempt, verdict.class);
    if (!this.#to.closed) this.#retryOrFail(error, verdict);
    attempt.release('error', error);
  }

  /** Classifies an error. A `retry-after` concerns everybody, so that pause begins before the permit is released. */
  #judge(error: unknown): Verdict {
    const verdict = this.classify(error);
    // An error of another limiter or breaker inside the work says nothing about the backend.
    if (verdict.retryAfterMs && mayPass(verdict) && !isFlowError(error)) this.#rules.limiter?.penalize(verdict.retryAfterMs);
    return verdict;
  }

  /** The limiter gave no permit: nothing was sent, so nothing is learnt about the backend. */
  #refused(error: unknown): void {
    this.#retryOrFail(error, this.classify(error));
  }

  /** Tries again after a pause, or gives up. */
  #retryOrFail(error: unknown, verdict: Verdict): void {
    const { lane, tell, load, id } = this.#rules;
    this.failure = error;
    this.#endRetry();
    let repair: Repair<unknown> | undefined;
    try {
      repair = this.#repairOf(error, verdict);
    } catch (fault) {
      this.#to.error(fault);
      return;
    }
    // Asking for the class or a number may have made the consumer leave.
    if (this.#to.closed) return;
    if (repair?.parts?.length !== 1) {
      this.isOutOfTime = repair?.rejected !== undefined && repair.rejected.length > 0;
      this.#to.error(error);
      return;
    }
    const { delayMs = 0 } = repair;
    const retryAt = this.#alarm.now() + delayMs;
    this.#isRetry = true;
    load.retrying += 1;
    tell?.({ type: 'retryScheduled', lane, batchId: id, class: verdict.class, size: 1, attempt: this.count + 1, delayMs });
    if (!(this.#to.closed as boolean)) this.#alarm.set(retryAt);
  }

  /** Asks the retry rule, as if the call were a batch of one item. */
  #repairOf(error: unknown, verdict: Verdict): Repair<unknown> | undefined {
    const { operator, idempotent, random, retry, load, id } = this.#rules;
    // What has timed out may have had its effect.
    if (retry === undefined || this.#hasAnswered || (verdict.class === 'timeout' && !idempotent)) return undefined;
    const now = this.#alarm.now();
    const job = { id, weight: 1, acceptedAt: now, deadlineAt: this.#deadlineAt, isDone: false, reason: error };
    const jobs = [job];
    const failure: Failure<typeof job> = {
      ...{ operator, now, error, verdict, call: jobs, jobs, isPartial: false, attempt: this.count, depth: 0, search: undefined },
      origin: { id, jobs, calls: this.count, note: undefined },
      ...{ executing: load.active, retrying: load.retrying, waiting: 0 },
      draw: () => drawnFrom(operator, random),
    };
    return retry.failed(failure);
  }

  /** What an error is, of an attempt or of the whole call. */
  classify(error: unknown): Verdict {
    const { operator, classify, scheduler } = this.#rules;
    return verdictOrFatal(operator, classify, error, {
      size: 1,
      attempt: Math.max(1, this.count),
      aborted: false,
      epochMs: scheduler.now(),
    });
  }

  #endRetry(): void {
    if (!this.#isRetry) return;
    this.#isRetry = false;
    this.#rules.load.retrying -= 1;
  }

  #ended(attempt: Attempt<R>, outcome: 'ok' | 'cancelled' | ErrorClass): void {
    const { lane, load, id, tell } = this.#rules;
    load.executing -= 1;
    if (tell === undefined) return;
    const latencyMs = this.#alarm.now() - attempt.startedAt;
    tell({ type: 'attemptEnded', lane, batchId: id, size: 1, attempt: attempt.attempt, outcome, latencyMs });
  }
}

/** One attempt; also the context that its work gets. */
class Attempt<R> extends PermittedCall<R> implements AttemptContext {
  whenAborted: (() => void) | undefined = undefined;
  giveBack: ((release: () => void) => void) | undefined = undefined;
  /** Ended, cancelled or timed out. */
  isOver = false;
  /** The whole answer is out: leaving now cancels nothing. */
  isAnswered = false;

  constructor(
    private readonly loop: AttemptLoop<R>,
    readonly attempt: number,
    readonly startedAt: number,
    readonly deadlineAt: number,
    readonly queuedMs: number,
    readonly lease: Lease | undefined,
  ) {
    super();
    this.permit = lease;
  }

  get settle(): (usage: Usage) => void {
    return (usage) => {
      this.lease?.settle(usage);
    };
  }

  get observe(): (response: ResponseLike) => void {
    return (response) => {
      this.lease?.observe(response);
    };
  }

  work(): WorkResult<R> {
    return this.loop.callWork(this);
  }

  override abort(): void {
    const { whenAborted } = this;
    this.whenAborted = undefined;
    whenAborted?.();
    super.abort();
  }

  protected override returnPermit(permit: Permit, outcome: Outcome, error: unknown): void {
    const free = (): void => {
      super.returnPermit(permit, outcome, error);
    };
    if (this.giveBack) this.giveBack(free);
    else free();
  }

  override got(value: R, isWhole: boolean): void {
    this.isAnswered = isWhole;
    this.loop.got(value);
  }

  done(): void {
    this.loop.done(this);
  }

  failed(error: unknown): void {
    this.loop.failed(this, error);
  }
}
