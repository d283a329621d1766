import type { SchedulerLike, Subscriber } from 'rxjs';
import { noop, Observable, Subscription } from 'rxjs';
import { captureContext } from '#async-context';
import type { Failure, Repair, RepairRule } from '../kernel/repair/rule.js';
import { mayPass } from '../kernel/repair/verdict.js';
import { drawnFrom, verdictOrFatal } from '../options/ask.js';
import type { Breaker, PolicyBreakerContext } from '../options/breaker.js';
import { AttemptTimeoutError, DeadlineError, isFlowError } from '../options/errors.js';
import type { Note } from '../options/events.js';
import type { Lease, Limiter, LimiterJob } from '../options/limiter.js';
import type { Outcome, Permit } from '../options/permits.js';
import type { Classify, ErrorClass, ResponseLike, Usage, Verdict, WorkResult } from '../options/types.js';
import { Alarm } from './alarm.js';
import { PermittedCall, Relay } from './call.js';
import { attach } from './connect.js';
import { listen } from './listen.js';
import type { CallOwner } from './owned-call.js';

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

/** What a fallback is told about the failure. */
export interface FallbackContext {
  /** What `classify` makes of the error. */
  readonly class: ErrorClass;
  /** Attempts that were made; 0 when the breaker was open. */
  readonly attempts: number;
  /** Aborts when nobody wants the result any more; never once a promise has answered. Made on the first look. */
  readonly signal: AbortSignal;
}

export type Fallback<F> = (error: unknown, context: FallbackContext) => WorkResult<F>;

/** How much the calls of one policy have under way, for the retry budget. */
export interface PolicyLoad {
  calls: number;
  active: number;
  retrying: number;
  executing: number;
}

/** Where attempts get their permits: a limiter, or what stands for one. */
export type PermitSource = Pick<Limiter, 'acquire' | 'penalize'>;

/** The options of a call. */
export interface CallRules<F> {
  readonly operator: string;
  readonly fallback: Fallback<F> | undefined;
  readonly deadlineMs: number;
  readonly breaker: Breaker | undefined;
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
 * One call: its attempts one after the other behind the breaker, all of them before the deadline, and the fallback behind all of it. Each attempt waits
 * for a permit, is aborted at its timeout, and releases its permit before the next one is planned; no permit is held during a pause.
 */
export function policyCall<R, F>(rules: CallRules<F>, work: AttemptWork<R>, to: Subscriber<R | F>): void {
  const { operator, breaker, limiter, deadlineMs, timeoutMs, scheduler, tell, load, lane, id } = rules;
  const alarm = new Alarm(scheduler, ring);
  /** The caller's: attempts begin in timers, and inside other calls that release a permit. */
  const context = captureContext();
  const startedAt = alarm.now();
  const deadlineAt = startedAt + deadlineMs;
  /** When the attempt is cut off, or the pause is over. */
  let nextAt = Infinity;
  /** What is behind the breaker. */
  let inner = Subscription.EMPTY;
  let guarded: PolicyBreakerContext | undefined;
  /** Whom the attempts answer: the breaker, if there is one. */
  let out!: Subscriber<R>;
  /** The attempt that is under way, or was last. */
  let attempt: Attempt<R> | undefined;
  /** Attempts begun, refused ones included. */
  let count = 0;
  /** What the last attempt has failed with. */
  let failure: unknown;
  let isRetry = false;
  let hasAnswered = false;
  /** The consumer has left with the whole answer. */
  let hasSucceeded = false;
  /** It gave up because the next pause would have gone beyond the deadline. */
  let isOutOfTime = false;
  let isOver = false;

  const owner: CallOwner<Attempt<R>, R> = {
    work: (one) => work(one),
    got: (one, value, isWhole) => {
      one.isAnswered = isWhole;
      hasAnswered = true;
      out.next(value);
    },
    done: (one) => {
      one.isOver = true;
      one.release('ok');
      tellEnd(one, 'ok');
      out.complete();
    },
    failed: attemptFailed,
  };

  load.active += 1;
  tell?.({ type: 'accepted', lane, batchId: id, queued: load.active - load.executing });
  to.add(() => {
    if (!isOver) finish(undefined);
  });
  // A listener may have made the consumer leave.
  if (isOver as boolean) return;
  const attempts = new Observable<R>((subscriber) => {
    out = subscriber;
    out.add(leaveAttempts);
    makeAttempt();
  });
  const behind = breaker
    ? breaker.run((seen: PolicyBreakerContext) => {
        guarded = seen;
        return attempts;
      })
    : attempts;
  const observer = {
    next: (value: R) => {
      to.next(value);
    },
    error: (error: unknown) => {
      fail(isOutOfTime ? deadlineError() : error);
    },
    complete: () => {
      finish('fulfilled');
      to.complete();
    },
  };
  listen(behind, observer, (subscription) => {
    inner = subscription;
  });
  arm();

  /** What comes first: the deadline, the end of the attempt, or that of the pause. Work that has answered at once needs no timer. */
  function arm(): void {
    if (!isOver) alarm.set(Math.min(nextAt, deadlineAt));
  }

  function ring(): void {
    if (alarm.now() >= deadlineAt) {
      guarded?.cutOff?.();
      inner.unsubscribe();
      // Whoever hears of the abort may have made the consumer leave.
      if (!isOver) fail(deadlineError());
    } else if (attempt === undefined || attempt.isOver) makeAttempt();
    else attemptFailed(attempt, new AttemptTimeoutError(operator, timeoutMs));
    arm();
  }

  /** Asks for a permit and makes the next attempt. */
  function makeAttempt(): void {
    const askedAt = alarm.now();
    count += 1;
    nextAt = Infinity;
    if (limiter === undefined) {
      begin(undefined, askedAt);
      return;
    }
    const observer = {
      next: (lease: Lease) => {
        begin(lease, askedAt);
        arm();
      },
      // Nothing was sent, so nothing is learnt about the backend.
      error: (error: unknown) => {
        retryOrFail(error, classify(error));
        arm();
      },
      complete: noop,
    };
    try {
      attach(limiter.acquire(rules.job), out, observer);
    } catch (error) {
      // The limiter does not take such a job.
      out.error(error);
    }
  }

  function begin(lease: Lease | undefined, askedAt: number): void {
    if (out.closed) {
      lease?.release('unused');
      return;
    }
    const now = alarm.now();
    nextAt = now + timeoutMs;
    attempt = new Attempt<R>(owner, count, now, Math.min(nextAt, deadlineAt), now - askedAt, lease);
    load.executing += 1;
    const { executing } = load;
    tell?.({ type: 'attemptStarted', lane, batchId: id, size: 1, weight: 1, attempt: count, splitDepth: 0, executing });
    // Not when a listener has made the consumer leave.
    attempt.begin(context);
  }

  /** The error goes out before the permit is released: whoever cancels other calls because of it must not see them begin first. */
  function attemptFailed(one: Attempt<R>, error: unknown): void {
    const verdict = classify(error);
    // A `retry-after` concerns everybody, so that pause begins before the permit is released. An error of another limiter or breaker inside the
    // work says nothing about the backend.
    if (verdict.retryAfterMs && mayPass(verdict) && !isFlowError(error)) limiter?.penalize(verdict.retryAfterMs);
    // `classify`, or a listener to the pause, may have made the consumer leave.
    if (one.isOver) return;
    one.isOver = true;
    // One that has failed by itself has stopped.
    if (!one.hasEnded) one.stop();
    tellEnd(one, verdict.class);
    if (!out.closed) retryOrFail(error, verdict);
    one.release('error', error);
    arm();
  }

  /** Tries again after a pause, or gives up. */
  function retryOrFail(error: unknown, verdict: Verdict): void {
    failure = error;
    endRetry();
    let repair: Repair<unknown> | undefined;
    try {
      repair = repairOf(error, verdict);
    } catch (fault) {
      out.error(fault);
      return;
    }
    // Asking for the class or a number may have made the consumer leave.
    if (out.closed) return;
    if (repair?.parts?.length !== 1) {
      isOutOfTime = repair?.rejected !== undefined && repair.rejected.length > 0;
      out.error(error);
      return;
    }
    const { delayMs = 0 } = repair;
    nextAt = alarm.now() + delayMs;
    isRetry = true;
    load.retrying += 1;
    tell?.({ type: 'retryScheduled', lane, batchId: id, class: verdict.class, size: 1, attempt: count + 1, delayMs });
  }

  /** Asks the retry rule, as if the call were a batch of one item. */
  function repairOf(error: unknown, verdict: Verdict): Repair<unknown> | undefined {
    const { retry, idempotent, random } = rules;
    // What has timed out may have had its effect.
    if (retry === undefined || hasAnswered || (verdict.class === 'timeout' && !idempotent)) return undefined;
    const now = alarm.now();
    const jobs = [{ id, weight: 1, acceptedAt: now, deadlineAt, isDone: false, reason: error }];
    const failed: Failure<(typeof jobs)[number]> = {
      ...{ operator, now, error, verdict, call: jobs, jobs, isPartial: false, attempt: count, depth: 0, search: undefined },
      origin: { id, jobs, calls: count, note: undefined },
      ...{ executing: load.active, retrying: load.retrying, waiting: 0 },
      ids: () => [id],
      draw: () => drawnFrom(operator, random),
    };
    return retry.failed(failed);
  }

  /** What an error is, of an attempt or of the whole call. */
  function classify(error: unknown): Verdict {
    const seen = { size: 1, attempt: Math.max(1, count), aborted: false, epochMs: scheduler.now() };
    return verdictOrFatal(operator, rules.classify, error, seen);
  }

  function endRetry(): void {
    if (isRetry) load.retrying -= 1;
    isRetry = false;
  }

  /** Nobody wants an answer of them any more. */
  function leaveAttempts(): void {
    endRetry();
    if (attempt === undefined || attempt.isOver) return;
    const outcome = attempt.isAnswered ? 'ok' : 'cancelled';
    attempt.isOver = true;
    attempt.stop();
    attempt.release(outcome);
    hasSucceeded = outcome === 'ok';
    tellEnd(attempt, outcome);
  }

  function tellEnd(one: Attempt<R>, outcome: 'ok' | 'cancelled' | ErrorClass): void {
    load.executing -= 1;
    tell?.({ type: 'attemptEnded', lane, batchId: id, size: 1, attempt: one.attempt, outcome, latencyMs: alarm.now() - one.startedAt });
  }

  function deadlineError(): DeadlineError {
    return new DeadlineError(operator, deadlineMs, alarm.now() - startedAt, failure);
  }

  function fail(error: unknown): void {
    finish('rejected');
    const { fallback } = rules;
    // No fallback after the first value: two answers one after the other are worse than an error.
    const found = fallback === undefined || hasAnswered || to.closed ? 'cancelled' : classify(error).class;
    if (fallback === undefined || found === 'cancelled') {
      to.error(error);
      return;
    }
    // The fallback may need the permit. The next grant may make the consumer leave.
    attempt?.release('error', failure);
    if (!to.closed) new FallbackCall<F>(fallback, error, found, count, to).begin(context);
  }

  /** Undefined when the consumer leaves. */
  function finish(outcome: 'fulfilled' | 'rejected' | undefined): void {
    isOver = true;
    alarm.clear();
    load.active -= 1;
    inner.unsubscribe();
    const told = outcome ?? (hasSucceeded ? 'fulfilled' : undefined);
    if (told === undefined) tell?.({ type: 'cancelled', lane, batchId: id, count: 1 });
    else tell?.({ type: 'settled', lane, batchId: id, outcome: told, attempts: count, totalMs: alarm.now() - startedAt });
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
    private readonly owner: CallOwner<Attempt<R>, R>,
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
    return this.owner.work(this);
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
    this.owner.got(this, value, isWhole);
  }

  done(): void {
    this.owner.done(this);
  }

  failed(error: unknown): void {
    this.owner.failed(this, error);
  }
}

/** The call of the fallback, whose values are the result. */
class FallbackCall<F> extends Relay<F> implements FallbackContext {
  readonly class: ErrorClass;

  constructor(
    private readonly fallback: Fallback<F>,
    private readonly error: unknown,
    found: ErrorClass,
    readonly attempts: number,
    to: Subscriber<F>,
  ) {
    super(to);
    this.class = found;
  }

  work(): WorkResult<F> {
    return this.fallback(this.error, this);
  }
}
