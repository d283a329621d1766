import type { Subscriber } from 'rxjs';
import { boundedHintMs } from '../../kernel/limits/headers.js';
import type { Failure, Repair } from '../../kernel/repair/rule.js';
import type { Verdict } from '../../kernel/repair/verdict.js';
import { drawnFrom, verdictOrFatal } from '../../options/ask.js';
import type { ErrorClass } from '../../options/types.js';
import type { PolicyClock } from './policy-clock.js';
import type { CallRules, OwnRules } from './policy-rules.js';

/** Counts the attempts of one call, and decides what follows a failure: it asks the retry rule, as if the call were a batch of one item. */
export class PolicyRetries {
  readonly #rules: CallRules<unknown>;
  readonly #own: OwnRules;
  readonly #clock: PolicyClock;
  /** Attempts begun, refused ones included. */
  count = 0;
  /** What the last attempt has failed with. */
  failure: unknown = undefined;
  hasAnswered = false;
  #isRetry = false;
  /** How long the call has waited after refusals. */
  #refusedMs = 0;

  constructor(rules: CallRules<unknown>, own: OwnRules, clock: PolicyClock) {
    this.#rules = rules;
    this.#own = own;
    this.#clock = clock;
  }

  /** What an error is, of an attempt or of the whole call. */
  classify(error: unknown): Verdict {
    const { operator, classify, scheduler } = this.#rules;
    const seen = { size: 1, attempt: Math.max(1, this.count), aborted: false, epochMs: scheduler.now() };
    return verdictOrFatal(operator, classify, error, seen);
  }

  /** An attempt that began at `startedAt` has emitted a value. */
  answered(startedAt: number): void {
    const { resumable, load } = this.#rules;
    this.hasAnswered = true;
    if (!resumable) return;
    this.count = 1;
    this.#refusedMs = 0;
    this.end();
    load.refusals.answered(startedAt);
  }

  /** The call has failed. What the rule makes of it; undefined where it is not asked. @throws what callbacks throw */
  failed(error: unknown, verdict: Verdict, startedAt: number | undefined): Repair<unknown> | undefined {
    const { operator, random, retry, load, resumable } = this.#rules;
    const { idempotent, id } = this.#own;
    this.failure = error;
    this.end();
    // What has timed out may have had its effect.
    if (retry === undefined || (this.hasAnswered && !resumable) || (verdict.class === 'timeout' && !idempotent)) return undefined;
    const { deadlineAt } = this.#clock;
    const now = this.#clock.now();
    const jobs = [{ id, weight: 1, acceptedAt: now, deadlineAt, isDone: false, reason: error }];
    const failure: Failure<(typeof jobs)[number]> = {
      operator,
      now,
      error,
      verdict,
      call: jobs,
      jobs,
      isPartial: false,
      attempt: this.count,
      depth: 0,
      search: undefined,
      origin: { id, jobs, calls: this.count, note: undefined },
      executing: load.active,
      retrying: load.retrying,
      waiting: 0,
      refusedMs: this.#refusedMs,
      refusals: verdict.class === 'throttled' ? load.refusals.refused(startedAt ?? now, now) : 0,
      draw: () => drawnFrom(operator, random),
    };
    return retry.failed(failure);
  }

  /** Begins the pause before the next attempt. */
  pause({ delayMs = 0, pauseMs, isRefusal }: Repair<unknown>, found: ErrorClass, out: Subscriber<unknown>): void {
    const { load, limiter, tell } = this.#rules;
    const { lane, id } = this.#own;
    const until = (this.#clock.nextAt = this.#clock.now() + delayMs);
    if (isRefusal) {
      // Flow control, no failure: it takes no attempt, and nothing of the share of retries.
      this.count -= 1;
      this.#refusedMs += delayMs;
      if (pauseMs !== undefined) load.refusals.pause(until);
      if (pauseMs) limiter?.penalize(boundedHintMs(pauseMs));
      // A listener to the pause may have made the consumer leave.
      if (out.closed) return;
    } else {
      this.#isRetry = true;
      load.retrying += 1;
    }
    tell?.({ type: 'retryScheduled', lane, batchId: id, class: found, size: 1, attempt: this.count + 1, delayMs });
  }

  /** The call is no retry any more. */
  end(): void {
    if (this.#isRetry) this.#rules.load.retrying -= 1;
    this.#isRetry = false;
  }
}
