import type { SchedulerLike, Subscriber } from 'rxjs';
import { captureContext } from '#async-context';
import { isWithinBudget, retryDelayMs } from '../../kernel/repair/backoff.js';
import { drawnFrom, verdictOrFatal } from '../../options/ask.js';
import { AttemptTimeoutError, isFlowError } from '../../options/errors.js';
import type { FlowSink } from '../../options/events.js';
import type { RetryRule } from '../../options/retry.js';
import { isRetryable } from '../../options/retry.js';
import type { Classify, ErrorClass, Verdict } from '../../options/types.js';
import { Alarm } from '../../shell/alarm.js';
import type { Lease, Limiter, LimiterJob } from '../limiting/limiter-types.js';
import type { AttemptWork } from './attempt.js';
import { Attempt } from './attempt.js';

/** What all calls of one policy have under way, for the retry budget. */
export interface PolicyLoad {
  calls: number;
  active: number;
  retrying: number;
  executing: number;
}

/** What the attempts of a call go by. */
export interface AttemptRules {
  readonly operator: string;
  readonly retry: RetryRule | undefined;
  readonly limiter: Limiter | undefined;
  readonly job: LimiterJob | undefined;
  readonly attemptTimeoutMs: number;
  readonly idempotent: boolean;
  readonly classify: Classify;
  readonly scheduler: SchedulerLike;
  readonly random: () => number;
  readonly onEvent: FlowSink | undefined;
  readonly load: PolicyLoad;
  /** Names the call and its lane in events. */
  readonly id: string;
  readonly lane: string;
}

/**
 * The attempts of one call, one after the other: each waits for a permit, is cut off after its time and gives its permit back before the
 * next is even thought of. A pause holds nothing.
 */
export class AttemptLoop<R> {
  readonly #rules: AttemptRules;
  /** When the whole call is cut off; Infinity when it is not. */
  readonly #deadlineAt: number;
  readonly #work: AttemptWork<R>;
  readonly #to: Subscriber<R>;
  readonly #alarm: Alarm;
  /** Of whoever made the call: attempts begin in timers, and in calls of others that give a permit back. */
  readonly #context = captureContext();
  /** The one under way, or the last one. */
  #attempt: Attempt<R> | undefined;
  #hasAnswered = false;
  #isRetry = false;
  /** When the permit of the next attempt was asked for. */
  #askedAt = 0;
  /** Attempts begun, refused ones included. */
  count = 0;
  /** What the last attempt failed with. */
  failure: unknown;
  /** It was left by a consumer that has the whole answer. */
  hasSucceeded = false;
  /** It gave up because the next pause would have gone beyond the deadline. */
  isOutOfTime = false;

  constructor(rules: AttemptRules, deadlineAt: number, work: AttemptWork<R>, to: Subscriber<R>) {
    this.#rules = rules;
    this.#deadlineAt = deadlineAt;
    this.#work = work;
    this.#to = to;
    this.#alarm = new Alarm(rules.scheduler, () => {
      this.#rang();
    });
  }

  /** Asks for a permit and makes the next attempt. */
  next(): void {
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

  stop(): void {
    this.#alarm.clear();
    this.#endRetry();
    const attempt = this.#attempt;
    if (!attempt?.isOpen()) return;
    const outcome = attempt.stop();
    this.hasSucceeded = outcome === 'ok';
    this.#ended(attempt, outcome);
  }

  /** Gives the permit of the last attempt back, if it still has it, for somebody who takes over. */
  giveBack(): void {
    this.#attempt?.letGo({ error: this.failure });
  }

  #begin(lease: Lease | undefined): void {
    if (this.#to.closed) {
      lease?.release('unused');
      return;
    }
    const { attemptTimeoutMs, onEvent, operator, lane, load, id } = this.#rules;
    const now = this.#alarm.now();
    const timeoutAt = now + attemptTimeoutMs;
    const attempt = new Attempt<R>(this.count, now, Math.min(timeoutAt, this.#deadlineAt), now - this.#askedAt, lease);
    this.#attempt = attempt;
    load.executing += 1;
    const { executing } = load;
    onEvent?.({
      type: 'attemptStarted',
      operator,
      lane,
      batchId: id,
      size: 1,
      weight: 1,
      attempt: this.count,
      splitDepth: 0,
      executing,
    });
    // A listener may have made the consumer leave.
    if (!attempt.isOpen()) return;
    this.#context.run(() => {
      this.#start(attempt);
    }, undefined);
    // The deadline of the whole call has a timer of its own.
    if (attempt.isOpen() && timeoutAt < this.#deadlineAt) this.#alarm.set(timeoutAt);
  }

  #start(attempt: Attempt<R>): void {
    attempt.start(this.#work, {
      next: (value) => {
        this.#hasAnswered = true;
        this.#to.next(value);
      },
      done: () => {
        attempt.end();
        this.#ended(attempt, 'ok');
        this.#to.complete();
      },
      failed: (error) => {
        this.#failed(attempt, error);
      },
    });
  }

  /** The attempt has taken too long, or the pause is over. */
  #rang(): void {
    const attempt = this.#attempt;
    if (!attempt?.isOpen()) {
      this.next();
      return;
    }
    this.#failed(attempt, new AttemptTimeoutError(this.#rules.operator, this.#rules.attemptTimeoutMs), true);
  }

  /** Tells of the error before the permit goes back: whoever gives up other calls for it is not to see them begin first. */
  #failed(attempt: Attempt<R>, error: unknown, isTimeout = false): void {
    const verdict = this.#judge(error);
    // Whoever was asked, or heard of the pause, may have made the consumer leave.
    if (!attempt.isOpen()) return;
    if (isTimeout) attempt.cutOff();
    else attempt.close();
    this.#ended(attempt, verdict.class);
    if (!this.#to.closed) this.#goOn(error, verdict);
    attempt.letGo({ error });
  }

  /** What is to be thought of an attempt's error. A wait that was asked for concerns everybody: it begins before the permit goes back. */
  #judge(error: unknown): Verdict {
    const verdict = this.#classify(error);
    // Another limiter or breaker inside the work speaks for itself, not for the backend.
    if (verdict.retryAfterMs && isRetryable(verdict) && !isFlowError(error)) this.#rules.limiter?.penalize(verdict.retryAfterMs);
    return verdict;
  }

  /** The limiter gave no permit: nothing was sent, so nothing is learnt about the backend. */
  #refused(error: unknown): void {
    this.#goOn(error, this.#classify(error));
  }

  /** Tries again after a pause, or gives up. */
  #goOn(error: unknown, verdict: Verdict): void {
    const { operator, lane, random, retry, onEvent, load } = this.#rules;
    this.failure = error;
    this.#endRetry();
    if (retry === undefined || !this.#mayRetry(verdict, retry)) {
      this.#to.error(error);
      return;
    }
    let delayMs: number;
    try {
      delayMs = retryDelayMs(this.count, verdict.retryAfterMs, retry, drawnFrom(operator, random));
    } catch (fault) {
      this.#to.error(fault);
      return;
    }
    // Asking for the class or a number may have made the consumer leave.
    if (this.#to.closed) return;
    const retryAt = this.#alarm.now() + delayMs;
    if (retryAt >= this.#deadlineAt) {
      this.isOutOfTime = true;
      this.#to.error(error);
      return;
    }
    this.#isRetry = true;
    load.retrying += 1;
    onEvent?.({ type: 'retryScheduled', operator, lane, class: verdict.class, size: 1, attempt: this.count + 1, delayMs });
    if (!(this.#to.closed as boolean)) this.#alarm.set(retryAt);
  }

  #mayRetry(verdict: Verdict, { maxAttempts, budget }: RetryRule): boolean {
    const { idempotent, load } = this.#rules;
    if (this.count >= maxAttempts || this.#hasAnswered || !isRetryable(verdict)) return false;
    // What has timed out may have had its effect.
    if (verdict.class === 'timeout' && !idempotent) return false;
    return isWithinBudget(load.retrying, load.active, budget);
  }

  #classify(error: unknown): Verdict {
    const { operator, classify, scheduler } = this.#rules;
    return verdictOrFatal(operator, classify, error, { size: 1, attempt: this.count, aborted: false, epochMs: scheduler.now() });
  }

  #endRetry(): void {
    if (!this.#isRetry) return;
    this.#isRetry = false;
    this.#rules.load.retrying -= 1;
  }

  #ended(attempt: Attempt<R>, outcome: 'ok' | 'cancelled' | ErrorClass): void {
    const { operator, lane, load, id, onEvent } = this.#rules;
    load.executing -= 1;
    if (onEvent === undefined) return;
    const latencyMs = this.#alarm.now() - attempt.startedAt;
    onEvent({ type: 'attemptEnded', operator, lane, batchId: id, size: 1, attempt: attempt.attempt, outcome, latencyMs });
  }
}
