import type { Subscriber } from 'rxjs';
import { Observable, Subscription } from 'rxjs';
import { captureContext } from '#async-context';
import { boundedHintMs } from '../../kernel/limits/headers.js';
import type { Repair } from '../../kernel/repair/rule.js';
import type { Verdict } from '../../kernel/repair/verdict.js';
import { mayPass } from '../../kernel/repair/verdict.js';
import type { PolicyBreakerContext } from '../../options/breaker.js';
import { BreakerOpenError, isFlowError } from '../../options/errors.js';
import type { Lease } from '../../options/limiter.js';
import type { ErrorClass } from '../../options/types.js';
import { listen } from '../streams/listen.js';
import type { GateMember } from './breaker-gate.js';
import { askBreaker } from './breaker-gate.js';
import { Attempt, FallbackCall, GuardCall } from './policy-attempt.js';
import { PolicyClock } from './policy-clock.js';
import { PolicyPermits } from './policy-permits.js';
import { PolicyRetries } from './policy-retry.js';
import type { CallRules, OwnRules, PolicyWork } from './policy-rules.js';

/**
 * One call: its attempts one after the other, all of them before the deadline, and the fallback behind all of it. Each attempt waits for a permit, asks
 * the breaker, is aborted at its timeout, and releases its permit before the next one is planned; no permit is held during a pause, or while the
 * circuit is open.
 */
export class PolicyCall<R, F> implements GateMember {
  readonly clock: PolicyClock;
  /** Called by an attempt. */
  readonly work: PolicyWork<R>;
  readonly #rules: CallRules<F>;
  readonly #own: OwnRules;
  readonly #to: Subscriber<R | F>;
  /** The caller's: attempts begin in timers, and inside other calls that release a permit. */
  readonly #context = captureContext();
  readonly #retries: PolicyRetries;
  readonly #permits: PolicyPermits;
  /** All attempts. */
  #inner = Subscription.EMPTY;
  /** Whom the attempts answer. */
  #out!: Subscriber<R>;
  /** The guard that is being asked. */
  #asking: GuardCall | undefined = undefined;
  /** What the breaker hears of the attempt that is under way. */
  #guard = Subscription.EMPTY;
  /** The attempt that is under way, or was last. */
  #attempt: Attempt<R> | undefined = undefined;
  /** When the permit of the next attempt was asked for, and when it came. */
  #askedAt = 0;
  #grantedAt = 0;
  /** The consumer has left with the whole answer. */
  #hasSucceeded = false;

  constructor(rules: CallRules<F>, own: OwnRules, work: PolicyWork<R>, to: Subscriber<R | F>) {
    this.#rules = rules;
    this.#own = own;
    this.work = work;
    this.#to = to;
    this.clock = new PolicyClock(rules, own, () => {
      this.#ring();
    });
    this.#retries = new PolicyRetries(rules, own, this.clock);
    this.#permits = new PolicyPermits(rules, own, this);
  }

  start(): void {
    const { load, tell } = this.#rules;
    const { lane, id: batchId } = this.#own;
    load.active += 1;
    tell?.({ type: 'accepted', lane, batchId, queued: load.active - load.executing });
    this.#to.add(() => {
      if (!this.clock.isStopped) this.#finish(undefined);
    });
    // A listener may have made the consumer leave.
    if (this.clock.isStopped) return;
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
        this.#fail(error);
      },
      complete: () => {
        this.#finish('fulfilled');
        this.#to.complete();
      },
    };
    listen(attempts, observer, (subscription) => {
      this.#inner = subscription;
    });
    this.clock.arm();
  }

  /** Called by an attempt. */
  got(attempt: Attempt<R>, value: R): void {
    attempt.isAnswered = attempt.hasEnded;
    this.clock.heard(attempt);
    this.#retries.answered(attempt.startedAt);
    attempt.to.next(value);
  }

  /** Called by an attempt. The answer goes out before the permit is released: the next call in the slot must not overtake it. */
  done(attempt: Attempt<R>): void {
    attempt.isOver = true;
    this.#rules.load.refusals.answered(attempt.startedAt);
    attempt.guarded?.endsWell?.();
    this.#tellEnd(attempt, 'ok');
    attempt.to.complete();
    attempt.release('ok');
  }

  /** The error goes out before the permit is released: whoever cancels other calls because of it must not see them begin first. */
  failed(attempt: Attempt<R>, error: unknown): void {
    const verdict = this.#retries.classify(error);
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
    this.clock.arm();
  }

  /** Called by the gate. */
  get lane(): string {
    return this.#own.lane;
  }

  /** Called by the gate. */
  circuitOpened(): void {
    if (this.#rules.whenOpen === 'fail') {
      this.#failOpen(undefined);
      return;
    }
    // A pause goes on; at its end the call waits for the circuit.
    if (!this.#permits.leave()) return;
    this.#retries.count -= 1;
    this.#waitForCircuit();
  }

  /** Called by the gate. */
  letThrough(): void {
    this.#makeAttempt();
    this.clock.arm();
  }

  #waitForCircuit(): void {
    this.clock.nextAt = Infinity;
    this.#retries.end();
    this.#rules.gate?.park(this);
    this.clock.arm();
  }

  /** The breaker has refused the call, or would. */
  #refusedByBreaker(error: BreakerOpenError | undefined): void {
    if (this.#rules.whenOpen === 'wait') this.#waitForCircuit();
    else this.#failOpen(error);
  }

  #failOpen(error: BreakerOpenError | undefined): void {
    const { gate } = this.#rules;
    const cause = this.#retries.failure;
    this.#out.error(
      error === undefined || cause !== undefined ? new BreakerOpenError('createBreaker', gate?.retryAfterMs ?? 0, cause) : error,
    );
  }

  #ring(): void {
    const attempt = this.#attempt;
    if (this.clock.isPastDeadline) {
      attempt?.guarded?.cutOff?.();
      this.#inner.unsubscribe();
      // Whoever hears of the abort may have made the consumer leave.
      if (!this.clock.isStopped) this.#fail(this.clock.deadlineError(this.#retries.failure));
    } else if (this.#asking) this.deny(this.#asking, this.clock.timeoutError(Infinity));
    else if (attempt === undefined || attempt.isOver) this.#makeAttempt();
    else this.failed(attempt, this.clock.timeoutError());
    this.clock.arm();
  }

  /** Asks for a permit and makes the next attempt. */
  #makeAttempt(): void {
    const { limiter, gate, load } = this.#rules;
    this.clock.nextAt = Infinity;
    // Before it joins a queue only to be refused at the end of it.
    if (gate?.isOpen) {
      this.#refusedByBreaker(undefined);
      return;
    }
    // Without a limiter to pause, a refusal pauses the policy.
    if (limiter === undefined && load.refusals.until > this.clock.now()) {
      this.clock.nextAt = load.refusals.until;
      gate?.watch(this);
      return;
    }
    this.#retries.count += 1;
    this.#askedAt = this.clock.now();
    if (limiter === undefined) this.begin(undefined);
    else if (this.#permits.ask(limiter, this.#out)) gate?.watch(this);
  }

  /** Called with a permit, or where none is needed: asks the guard. */
  begin(lease: Lease | undefined): void {
    const { operator, gate, timeoutMs } = this.#rules;
    const { guard, index } = this.#own;
    if (this.#out.closed) {
      lease?.release('unused');
      return;
    }
    this.#grantedAt = this.clock.now();
    this.clock.nextAt = this.#grantedAt + timeoutMs;
    if (guard === undefined) {
      this.#ask(lease);
      return;
    }
    gate?.watch(this);
    this.#asking = new GuardCall(this, operator, guard, index, this.#retries.count, lease);
    this.#asking.begin(this.#context);
  }

  /** Nothing was sent, so nothing is learnt about the backend. */
  refused(error: unknown): void {
    this.#retryOrFail(error, this.#retries.classify(error));
  }

  /** Called by a guard. */
  allowed({ lease }: GuardCall): void {
    this.#asking = undefined;
    this.#ask(lease);
    this.clock.arm();
  }

  /** Nothing was sent. The error, if the call still needs one, goes out before the permit is released, as in `failed`. */
  deny(guard: GuardCall, error: Error | undefined): void {
    this.#asking = undefined;
    this.#retries.count -= 1;
    guard.stop();
    if (error) this.#out.error(error);
    guard.lease?.release('unused');
  }

  /** Asks the breaker. */
  #ask(lease: Lease | undefined): void {
    const { breaker, gate, asksInside } = this.#rules;
    if (breaker === undefined || asksInside) {
      gate?.leave(this);
      this.#start(lease, this.#out, undefined);
      return;
    }
    const { isLetThrough, refusal } = askBreaker(
      breaker,
      this.#out,
      (to, context) => {
        gate?.leave(this);
        // What goes through now may have made the consumer leave.
        if (to.closed) lease?.release('unused');
        else this.#start(lease, to, context);
      },
      (error) => {
        const verdict = this.#attempt?.verdict;
        if (verdict) this.#afterFailure(error, verdict);
        return verdict !== undefined;
      },
      (guard) => {
        this.#guard = guard;
      },
    );
    if (!isLetThrough) {
      this.#retries.count -= 1;
      lease?.release('unused');
    }
    if (refusal === undefined || this.#out.closed) return;
    if (isFlowError(refusal.error, 'FLOW_BREAKER_OPEN')) this.#refusedByBreaker(refusal.error);
    else this.#out.error(refusal.error);
  }

  /** @param to - whom the attempt answers: the breaker, if there is one */
  #start(lease: Lease | undefined, to: Subscriber<R>, guarded: PolicyBreakerContext | undefined): void {
    const { tell, load, timeoutMs } = this.#rules;
    const { lane, id, guard } = this.#own;
    const startedAt = guard ? this.clock.now() : this.#grantedAt;
    const attempt = new Attempt<R>(this, this.#retries.count, startedAt, this.#grantedAt - this.#askedAt, lease, to, guarded);
    attempt.timeoutAt = this.#grantedAt + timeoutMs;
    this.clock.limit(attempt);
    this.#attempt = attempt;
    load.executing += 1;
    const { executing } = load;
    tell?.({ type: 'attemptStarted', lane, batchId: id, size: 1, weight: 1, attempt: this.#retries.count, splitDepth: 0, executing });
    // Not when a listener has made the consumer leave.
    attempt.begin(this.#context);
  }

  /** The breaker, if there is one, has heard of it. */
  #afterFailure(error: unknown, verdict: Verdict): void {
    if (this.#rules.asksInside?.(error)) {
      this.#retries.count -= 1;
      this.#refusedByBreaker(error as BreakerOpenError);
    } else this.#retryOrFail(error, verdict);
  }

  /** Tries again after a pause, or gives up. */
  #retryOrFail(error: unknown, verdict: Verdict): void {
    const { gate, whenOpen } = this.#rules;
    let repair: Repair<unknown> | undefined;
    try {
      repair = this.#retries.failed(error, verdict, this.#attempt?.startedAt);
    } catch (fault) {
      this.#out.error(fault);
      return;
    }
    // Asking for the class or a number may have made the consumer leave.
    if (this.#out.closed) return;
    if (repair?.parts?.length !== 1) {
      const reason = repair?.rejected?.[0]?.reason;
      if (isFlowError(reason, 'FLOW_DEADLINE')) this.#out.error(this.clock.deadlineError(error));
      else this.#out.error(reason === undefined ? error : reason);
      return;
    }
    if (whenOpen === 'fail' && gate?.isOpen) {
      this.#failOpen(undefined);
      return;
    }
    gate?.watch(this);
    this.#retries.pause(repair, verdict.class, this.#out);
  }

  /** Nobody wants an answer of them any more. */
  #leaveAttempts(): void {
    this.#retries.end();
    this.#rules.gate?.leave(this);
    const attempt = this.#attempt;
    if (this.#asking) {
      this.deny(this.#asking, undefined);
      return;
    }
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
    const { load, tell } = this.#rules;
    const { lane, id } = this.#own;
    load.executing -= 1;
    tell?.({ type: 'attemptEnded', lane, batchId: id, size: 1, attempt, outcome, latencyMs: this.clock.now() - startedAt });
  }

  #fail(error: unknown): void {
    this.#finish('rejected');
    const { fallback } = this.#rules;
    // No fallback after the first value: two answers one after the other are worse than an error.
    const found =
      fallback === undefined || this.#retries.hasAnswered || this.#to.closed ? 'cancelled' : this.#retries.classify(error).class;
    if (fallback === undefined || found === 'cancelled') {
      this.#to.error(error);
      return;
    }
    // The fallback may need the permit. The next grant may make the consumer leave.
    this.#attempt?.release('error', this.#retries.failure);
    if (!this.#to.closed) new FallbackCall<F>(fallback, error, found, this.#retries.count, this.#to).begin(this.#context);
  }

  /** Undefined when the consumer leaves. */
  #finish(outcome: 'fulfilled' | 'rejected' | undefined): void {
    const { load, tell } = this.#rules;
    const { lane, id: batchId } = this.#own;
    this.clock.stop();
    load.active -= 1;
    this.#inner.unsubscribe();
    const told = outcome ?? (this.#hasSucceeded ? 'fulfilled' : undefined);
    if (told === undefined) tell?.({ type: 'cancelled', lane, batchId, count: 1 });
    else tell?.({ type: 'settled', lane, batchId, outcome: told, attempts: this.#retries.count, totalMs: this.clock.elapsedMs() });
  }
}
