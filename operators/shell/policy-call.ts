import type { Subscriber } from 'rxjs';
import { noop, Observable, Subscription } from 'rxjs';
import { captureContext } from '#async-context';
import { boundedHintMs } from '../kernel/limits/headers.js';
import type { Failure, Repair } from '../kernel/repair/rule.js';
import type { Verdict } from '../kernel/repair/verdict.js';
import { mayPass } from '../kernel/repair/verdict.js';
import { drawnFrom, verdictOrFatal } from '../options/ask.js';
import type { PolicyBreakerContext } from '../options/breaker.js';
import { AttemptTimeoutError, BreakerOpenError, DeadlineError, isFlowError } from '../options/errors.js';
import type { Lease } from '../options/limiter.js';
import type { ErrorClass, WorkResult } from '../options/types.js';
import { Alarm } from './alarm.js';
import type { GateMember } from './breaker-gate.js';
import { listen } from './listen.js';
import { Attempt, FallbackCall } from './policy-attempt.js';
import type { AttemptWork, CallRules } from './policy-rules.js';

/**
 * One call: its attempts one after the other, all of them before the deadline, and the fallback behind all of it. Each attempt waits for a permit, asks
 * the breaker, is aborted at its timeout, and releases its permit before the next one is planned; no permit is held during a pause, or while the
 * circuit is open.
 */
export class PolicyCall<R, F> implements GateMember {
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
  /** All attempts. */
  #inner = Subscription.EMPTY;
  /** Whom the attempts answer. */
  #out!: Subscriber<R>;
  /** The place in the limiter's queue. */
  #place = Subscription.EMPTY;
  #isQueued = false;
  /** What the breaker hears of the attempt that is under way. */
  #guard = Subscription.EMPTY;
  /** The attempt that is under way, or was last. */
  #attempt: Attempt<R> | undefined = undefined;
  /** Attempts begun, refused ones included. */
  #count = 0;
  /** When the permit of the next attempt was asked for. */
  #askedAt = 0;
  /** What the last attempt has failed with. */
  #failure: unknown = undefined;
  #isRetry = false;
  /** How long it has waited after refusals. */
  #refusedMs = 0;
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
    const { load, tell, lane, id: batchId } = this.#rules;
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
    listen(attempts, observer, (subscription) => {
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
    attempt.to.next(value);
  }

  /** Called by an attempt. */
  done(attempt: Attempt<R>): void {
    attempt.isOver = true;
    this.#rules.load.refusals.answered(attempt.startedAt);
    attempt.guarded?.endsWell?.();
    attempt.release('ok');
    this.#tellEnd(attempt, 'ok');
    attempt.to.complete();
  }

  /** The error goes out before the permit is released: whoever cancels other calls because of it must not see them begin first. */
  failed(attempt: Attempt<R>, error: unknown): void {
    const verdict = this.#classify(error);
    // A `retry-after` concerns everybody, so that pause begins before the permit is released. An error of another limiter or breaker inside the
    // work says nothing about the backend.
    const { limiter, tell } = this.#rules;
    if (limiter && verdict.retryAfterMs && mayPass(verdict) && !verdict.isTierOnly && !isFlowError(error))
      limiter.penalize(boundedHintMs(verdict.retryAfterMs, tell));
    // `classify`, or a listener to the pause, may have made the consumer leave.
    if (attempt.isOver) return;
    attempt.isOver = true;
    // One that has failed by itself has stopped.
    if (!attempt.hasEnded) attempt.stop();
    this.#tellEnd(attempt, verdict.class);
    if (!this.#out.closed) {
      attempt.verdict = verdict;
      // Behind a breaker the error comes back once that has heard of it.
      if (attempt.guarded) attempt.to.error(error);
      else this.#afterFailure(error, verdict);
    }
    attempt.release('error', error);
    this.#arm();
  }

  #isLeft(): boolean {
    return this.#out.closed;
  }

  /** Called by the gate. */
  get lane(): string {
    return this.#rules.lane;
  }

  /** Called by the gate. */
  circuitOpened(): void {
    if (this.#rules.whenOpen === 'fail') {
      this.#failOpen(undefined);
      return;
    }
    // A pause goes on; at its end the call waits for the circuit.
    if (!this.#isQueued) return;
    this.#leaveQueue();
    this.#waitForCircuit();
  }

  /** Called by the gate. */
  letThrough(): void {
    this.#makeAttempt();
    this.#arm();
  }

  #leaveQueue(): void {
    this.#isQueued = false;
    this.#place.unsubscribe();
    this.#count -= 1;
  }

  #waitForCircuit(): void {
    this.#nextAt = Infinity;
    this.#endRetry();
    this.#rules.gate?.park(this);
    this.#arm();
  }

  /** The breaker has refused the call, or would. */
  #refused(error: BreakerOpenError | undefined): void {
    if (this.#rules.whenOpen === 'wait') this.#waitForCircuit();
    else this.#failOpen(error);
  }

  #failOpen(error: BreakerOpenError | undefined): void {
    const { gate } = this.#rules;
    const cause = this.#failure;
    this.#out.error(
      error === undefined || cause !== undefined ? new BreakerOpenError('createBreaker', gate?.retryAfterMs ?? 0, cause) : error,
    );
  }

  /** What comes first: the deadline, the end of the attempt, or that of the pause. Work that has answered at once needs no timer. */
  #arm(): void {
    if (!this.#isOver) this.#alarm.set(Math.min(this.#nextAt, this.#deadlineAt));
  }

  #ring(): void {
    const attempt = this.#attempt;
    if (this.#alarm.now() >= this.#deadlineAt) {
      attempt?.guarded?.cutOff?.();
      this.#inner.unsubscribe();
      // Whoever hears of the abort may have made the consumer leave.
      if (!this.#isOver) this.#fail(this.#deadlineError());
    } else if (attempt === undefined || attempt.isOver) this.#makeAttempt();
    else this.failed(attempt, new AttemptTimeoutError(this.#rules.operator, this.#rules.timeoutMs));
    this.#arm();
  }

  /** Asks for a permit and makes the next attempt. */
  #makeAttempt(): void {
    const { limiter, job, gate, load } = this.#rules;
    this.#nextAt = Infinity;
    // Before it joins a queue only to be refused at the end of it.
    if (gate?.isOpen) {
      this.#refused(undefined);
      return;
    }
    // Without a limiter to pause, a refusal pauses the policy.
    if (limiter === undefined && load.refusals.until > this.#alarm.now()) {
      this.#nextAt = load.refusals.until;
      gate?.watch(this);
      return;
    }
    this.#count += 1;
    this.#askedAt = this.#alarm.now();
    if (limiter === undefined) {
      this.#begin(undefined);
      return;
    }
    const observer = {
      next: (lease: Lease) => {
        this.#isQueued = false;
        this.#begin(lease);
        this.#arm();
      },
      // Nothing was sent, so nothing is learnt about the backend.
      error: (error: unknown) => {
        this.#isQueued = false;
        this.#retryOrFail(error, this.#classify(error));
        this.#arm();
      },
      complete: noop,
    };
    this.#isQueued = true;
    try {
      listen(limiter.acquire(job), observer, (place) => {
        this.#place = place;
        this.#out.add(place);
      });
    } catch (error) {
      // The limiter does not take such a job.
      this.#isQueued = false;
      this.#out.error(error);
    }
    if (this.#isQueued && !this.#out.closed) gate?.watch(this);
  }

  #begin(lease: Lease | undefined): void {
    const { breaker, gate, asksInside } = this.#rules;
    if (this.#out.closed) {
      lease?.release('unused');
      return;
    }
    if (breaker === undefined || asksInside) {
      gate?.leave(this);
      this.#start(lease, this.#out, undefined);
      return;
    }
    const asked: { isLetThrough: boolean; refusal?: { readonly error: unknown } } = { isLetThrough: false };
    const guarded = breaker.run(
      (context: PolicyBreakerContext) =>
        new Observable<R>((subscriber) => {
          asked.isLetThrough = true;
          gate?.leave(this);
          // What goes through now may have made the consumer leave.
          if (subscriber.closed) lease?.release('unused');
          else this.#start(lease, subscriber, context);
        }),
    );
    const observer = {
      next: (value: R) => {
        this.#out.next(value);
      },
      error: (error: unknown) => {
        const attempt = this.#attempt;
        if (asked.isLetThrough && attempt?.verdict) this.#afterFailure(error, attempt.verdict);
        else asked.refusal = { error };
      },
      complete: () => {
        this.#out.complete();
      },
    };
    listen(guarded, observer, (guard) => {
      this.#guard = guard;
      this.#out.add(guard);
    });
    const { isLetThrough, refusal } = asked;
    if (!isLetThrough) {
      this.#count -= 1;
      lease?.release('unused');
    }
    if (refusal === undefined || this.#isLeft()) return;
    if (isFlowError(refusal.error, 'FLOW_BREAKER_OPEN')) this.#refused(refusal.error);
    else this.#out.error(refusal.error);
  }

  /** @param to - whom the attempt answers: the breaker, if there is one */
  #start(lease: Lease | undefined, to: Subscriber<R>, guarded: PolicyBreakerContext | undefined): void {
    const { timeoutMs, tell, lane, load, id } = this.#rules;
    const now = this.#alarm.now();
    this.#nextAt = now + timeoutMs;
    const deadlineAt = Math.min(this.#nextAt, this.#deadlineAt);
    const attempt = new Attempt<R>(this, this.#count, now, deadlineAt, now - this.#askedAt, lease, to, guarded);
    this.#attempt = attempt;
    load.executing += 1;
    const { executing } = load;
    tell?.({ type: 'attemptStarted', lane, batchId: id, size: 1, weight: 1, attempt: this.#count, splitDepth: 0, executing });
    // Not when a listener has made the consumer leave.
    attempt.begin(this.#context);
  }

  /** The breaker, if there is one, has heard of it. */
  #afterFailure(error: unknown, verdict: Verdict): void {
    if (this.#rules.asksInside?.(error)) {
      this.#count -= 1;
      this.#refused(error as BreakerOpenError);
    } else this.#retryOrFail(error, verdict);
  }

  /** Tries again after a pause, or gives up. */
  #retryOrFail(error: unknown, verdict: Verdict): void {
    const { lane, tell, load, id, gate, whenOpen, limiter } = this.#rules;
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
      const reason = repair?.rejected?.[0]?.reason;
      this.#isOutOfTime = isFlowError(reason, 'FLOW_DEADLINE');
      this.#out.error(reason === undefined || this.#isOutOfTime ? error : reason);
      return;
    }
    if (whenOpen === 'fail' && gate?.isOpen) {
      this.#failOpen(undefined);
      return;
    }
    const { delayMs = 0, pauseMs, isRefusal } = repair;
    gate?.watch(this);
    this.#nextAt = this.#alarm.now() + delayMs;
    if (isRefusal) {
      // Flow control, no failure: it takes no attempt, and nothing of the share of retries.
      this.#count -= 1;
      this.#refusedMs += delayMs;
      if (pauseMs !== undefined) load.refusals.pause(this.#nextAt);
      if (pauseMs) limiter?.penalize(boundedHintMs(pauseMs));
      // A listener to the pause may have made the consumer leave.
      if (this.#isLeft()) return;
    } else {
      this.#isRetry = true;
      load.retrying += 1;
    }
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
      ...{ executing: load.active, retrying: load.retrying, waiting: 0, refusedMs: this.#refusedMs },
      refusals: verdict.class === 'throttled' ? load.refusals.refused(this.#attempt?.startedAt ?? now, now) : 0,
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
    this.#rules.gate?.leave(this);
    const attempt = this.#attempt;
    if (attempt === undefined || attempt.isOver) return;
    const outcome = attempt.isAnswered ? 'ok' : 'cancelled';
    attempt.isOver = true;
    attempt.stop();
    // The breaker first: the permit goes to the next call, which asks it.
    this.#guard.unsubscribe();
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
