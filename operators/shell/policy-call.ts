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
export class PolicyCall<R, F> {
  readonly #rules: CallRules<F>;
  readonly #work: AttemptWork<R>;
  readonly #to: Subscriber<R | F>;
  readonly #alarm: Alarm;
  /** The caller's: attempts begin in timers, and inside other calls that release a permit. */
  readonly #context = captureContext();
  readonly #startedAt: number;
  readonly #deadlineAt: number;
  /** When the attempt is cut off, or the pause is over. */
  #nextAt = Infinity;
  /** What is behind the breaker. */
  #inner = Subscription.EMPTY;
  #guarded: PolicyBreakerContext | undefined = undefined;
  /** Whom the attempts answer: the breaker, if there is one. */
  #out!: Subscriber<R>;
  /** The attempt that is under way, or was last. */
  #attempt: Attempt<R> | undefined = undefined;
  /** Attempts begun, refused ones included. */
  #count = 0;
  /** When the permit of the next attempt was asked for. */
  #askedAt = 0;
  /** What the last attempt has failed with. */
  #failure: unknown = undefined;
  #isRetry = false;
  #hasAnswered = false;
  /** The consumer has left with the whole answer. */
  #hasSucceeded = false;
  /** It gave up because the next pause would have gone beyond the deadline. */
  #isOutOfTime = false;
  #isOver = false;

  constructor(rules: CallRules<F>, work: AttemptWork<R>, to: Subscriber<R | F>) {
    this.#rules = rules;
    this.#work = work;
    this.#to = to;
    this.#alarm = new Alarm(rules.scheduler, () => {
      this.#ring();
    });
    this.#startedAt = this.#alarm.now();
    this.#deadlineAt = this.#startedAt + rules.deadlineMs;
  }

  start(): void {
    const { load, tell, lane, id: batchId, breaker } = this.#rules;
    load.active += 1;
    tell?.({ type: 'accepted', lane, batchId, queued: load.active - load.executing });
    this.#to.add(() => {
      if (!this.#isOver) this.#finish(undefined);
    });
    // A listener may have made the consumer leave.
    if (this.#isOver) return;
    const attempts = new Observable<R>((subscriber) => {
      this.#out = subscriber;
      subscriber.add(() => {
        this.#leaveAttempts();
      });
      this.#makeAttempt();
    });
    const behind = breaker
      ? breaker.run((guarded: PolicyBreakerContext) => {
          this.#guarded = guarded;
          return attempts;
        })
      : attempts;
    const observer = {
      next: (value: R) => {
        this.#to.next(value);
      },
      error: (error: unknown) => {
        this.#fail(this.#isOutOfTime ? this.#deadlineError() : error);
      },
      complete: () => {
        this.#finish('fulfilled');
        this.#to.complete();
      },
    };
    listen(behind, observer, (subscription) => {
      this.#inner = subscription;
    });
    this.#arm();
  }

  /** Called by an attempt. */
  work(attempt: Attempt<R>): WorkResult<R> {
    return this.#work(attempt);
  }

  /** Called by an attempt. */
  got(attempt: Attempt<R>, value: R): void {
    attempt.isAnswered = attempt.hasEnded;
    this.#hasAnswered = true;
    this.#out.next(value);
  }

  /** Called by an attempt. */
  done(attempt: Attempt<R>): void {
    attempt.isOver = true;
    attempt.release('ok');
    this.#tellEnd(attempt, 'ok');
    this.#out.complete();
  }

  /** The error goes out before the permit is released: whoever cancels other calls because of it must not see them begin first. */
  failed(attempt: Attempt<R>, error: unknown): void {
    const verdict = this.#classify(error);
    // A `retry-after` concerns everybody, so that pause begins before the permit is released. An error of another limiter or breaker inside the
    // work says nothing about the backend.
    if (verdict.retryAfterMs && mayPass(verdict) && !isFlowError(error)) this.#rules.limiter?.penalize(verdict.retryAfterMs);
    // `classify`, or a listener to the pause, may have made the consumer leave.
    if (attempt.isOver) return;
    attempt.isOver = true;
    // One that has failed by itself has stopped.
    if (!attempt.hasEnded) attempt.stop();
    this.#tellEnd(attempt, verdict.class);
    if (!this.#out.closed) this.#retryOrFail(error, verdict);
    attempt.release('error', error);
    this.#arm();
  }

  /** What comes first: the deadline, the end of the attempt, or that of the pause. Work that has answered at once needs no timer. */
  #arm(): void {
    if (!this.#isOver) this.#alarm.set(Math.min(this.#nextAt, this.#deadlineAt));
  }

  #ring(): void {
    const attempt = this.#attempt;
    if (this.#alarm.now() >= this.#deadlineAt) {
      this.#guarded?.cutOff?.();
      this.#inner.unsubscribe();
      // Whoever hears of the abort may have made the consumer leave.
      if (!this.#isOver) this.#fail(this.#deadlineError());
    } else if (attempt === undefined || attempt.isOver) this.#makeAttempt();
    else this.failed(attempt, new AttemptTimeoutError(this.#rules.operator, this.#rules.timeoutMs));
    this.#arm();
  }

  /** Asks for a permit and makes the next attempt. */
  #makeAttempt(): void {
    const { limiter, job } = this.#rules;
    this.#count += 1;
    this.#askedAt = this.#alarm.now();
    this.#nextAt = Infinity;
    if (limiter === undefined) {
      this.#begin(undefined);
      return;
    }
    const observer = {
      next: (lease: Lease) => {
        this.#begin(lease);
        this.#arm();
      },
      // Nothing was sent, so nothing is learnt about the backend.
      error: (error: unknown) => {
        this.#retryOrFail(error, this.#classify(error));
        this.#arm();
      },
      complete: noop,
    };
    try {
      attach(limiter.acquire(job), this.#out, observer);
    } catch (error) {
      // The limiter does not take such a job.
      this.#out.error(error);
    }
  }

  #begin(lease: Lease | undefined): void {
    if (this.#out.closed) {
      lease?.release('unused');
      return;
    }
    const { timeoutMs, tell, lane, load, id } = this.#rules;
    const now = this.#alarm.now();
    this.#nextAt = now + timeoutMs;
    const deadlineAt = Math.min(this.#nextAt, this.#deadlineAt);
    const attempt = new Attempt<R>(this, this.#count, now, deadlineAt, now - this.#askedAt, lease);
    this.#attempt = attempt;
    load.executing += 1;
    const { executing } = load;
    tell?.({ type: 'attemptStarted', lane, batchId: id, size: 1, weight: 1, attempt: this.#count, splitDepth: 0, executing });
    // Not when a listener has made the consumer leave.
    attempt.begin(this.#context);
  }

  /** Tries again after a pause, or gives up. */
  #retryOrFail(error: unknown, verdict: Verdict): void {
    const { lane, tell, load, id } = this.#rules;
    this.#failure = error;
    this.#endRetry();
    let repair: Repair<unknown> | undefined;
    try {
      repair = this.#repairOf(error, verdict);
    } catch (fault) {
      this.#out.error(fault);
      return;
    }
    // Asking for the class or a number may have made the consumer leave.
    if (this.#out.closed) return;
    if (repair?.parts?.length !== 1) {
      this.#isOutOfTime = repair?.rejected !== undefined && repair.rejected.length > 0;
      this.#out.error(error);
      return;
    }
    const { delayMs = 0 } = repair;
    this.#nextAt = this.#alarm.now() + delayMs;
    this.#isRetry = true;
    load.retrying += 1;
    tell?.({ type: 'retryScheduled', lane, batchId: id, class: verdict.class, size: 1, attempt: this.#count + 1, delayMs });
  }

  /** Asks the retry rule, as if the call were a batch of one item. */
  #repairOf(error: unknown, verdict: Verdict): Repair<unknown> | undefined {
    const { operator, idempotent, random, retry, load, id } = this.#rules;
    // What has timed out may have had its effect.
    if (retry === undefined || this.#hasAnswered || (verdict.class === 'timeout' && !idempotent)) return undefined;
    const now = this.#alarm.now();
    const jobs = [{ id, weight: 1, acceptedAt: now, deadlineAt: this.#deadlineAt, isDone: false, reason: error }];
    const failure: Failure<(typeof jobs)[number]> = {
      ...{ operator, now, error, verdict, call: jobs, jobs, isPartial: false, attempt: this.#count, depth: 0, search: undefined },
      origin: { id, jobs, calls: this.#count, note: undefined },
      ...{ executing: load.active, retrying: load.retrying, waiting: 0 },
      draw: () => drawnFrom(operator, random),
    };
    return retry.failed(failure);
  }

  /** What an error is, of an attempt or of the whole call. */
  #classify(error: unknown): Verdict {
    const { operator, classify, scheduler } = this.#rules;
    const seen = { size: 1, attempt: Math.max(1, this.#count), aborted: false, epochMs: scheduler.now() };
    return verdictOrFatal(operator, classify, error, seen);
  }

  #endRetry(): void {
    if (this.#isRetry) this.#rules.load.retrying -= 1;
    this.#isRetry = false;
  }

  /** Nobody wants an answer of them any more. */
  #leaveAttempts(): void {
    this.#endRetry();
    const attempt = this.#attempt;
    if (attempt === undefined || attempt.isOver) return;
    const outcome = attempt.isAnswered ? 'ok' : 'cancelled';
    attempt.isOver = true;
    attempt.stop();
    attempt.release(outcome);
    this.#hasSucceeded = outcome === 'ok';
    this.#tellEnd(attempt, outcome);
  }

  #tellEnd({ attempt, startedAt }: Attempt<R>, outcome: 'ok' | 'cancelled' | ErrorClass): void {
    const { lane, load, id, tell } = this.#rules;
    load.executing -= 1;
    tell?.({ type: 'attemptEnded', lane, batchId: id, size: 1, attempt, outcome, latencyMs: this.#alarm.now() - startedAt });
  }

  #deadlineError(): DeadlineError {
    const { operator, deadlineMs } = this.#rules;
    return new DeadlineError(operator, deadlineMs, this.#alarm.now() - this.#startedAt, this.#failure);
  }

  #fail(error: unknown): void {
    this.#finish('rejected');
    const { fallback } = this.#rules;
    // No fallback after the first value: two answers one after the other are worse than an error.
    const found = fallback === undefined || this.#hasAnswered || this.#to.closed ? 'cancelled' : this.#classify(error).class;
    if (fallback === undefined || found === 'cancelled') {
      this.#to.error(error);
      return;
    }
    // The fallback may need the permit. The next grant may make the consumer leave.
    this.#attempt?.release('error', this.#failure);
    if (!this.#to.closed) new FallbackCall<F>(fallback, error, found, this.#count, this.#to).begin(this.#context);
  }

  /** Undefined when the consumer leaves. */
  #finish(outcome: 'fulfilled' | 'rejected' | undefined): void {
    const { load, tell, lane, id: batchId } = this.#rules;
    this.#isOver = true;
    this.#alarm.clear();
    load.active -= 1;
    this.#inner.unsubscribe();
    const told = outcome ?? (this.#hasSucceeded ? 'fulfilled' : undefined);
    if (told === undefined) tell?.({ type: 'cancelled', lane, batchId, count: 1 });
    else tell?.({ type: 'settled', lane, batchId, outcome: told, attempts: this.#count, totalMs: this.#alarm.now() - this.#startedAt });
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
    private readonly owner: PolicyCall<R, unknown>,
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

  override got(value: R): void {
    this.owner.got(this, value);
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
