import type { Subscriber } from 'rxjs';
import { Observable } from 'rxjs';
import { captureContext } from '#async-context';
import { verdictOrFatal } from '../options/ask.js';
import type { Breaker } from '../options/breaker.js';
import { DeadlineError } from '../options/errors.js';
import type { ErrorClass, WorkResult } from '../options/types.js';
import { Alarm } from './alarm.js';
import type { AttemptRules, AttemptWork } from './attempt-loop.js';
import { AttemptLoop } from './attempt-loop.js';
import { Call } from './call.js';

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

/** What a call of a policy goes by. */
interface CallRules<F> extends AttemptRules {
  readonly fallback: Fallback<F> | undefined;
  readonly deadlineMs: number;
  readonly breaker: Breaker | undefined;
}

/** One call: its attempts behind the breaker, before the deadline, with the fallback behind all of it. */
export class PolicyCall<R, F> {
  readonly #rules: CallRules<F>;
  readonly #work: AttemptWork<R>;
  readonly #to: Subscriber<R | F>;
  readonly #alarm: Alarm;
  readonly #startedAt: number;
  readonly #context = captureContext();
  /** Everything before the fallback. */
  #tries: Tries<R> | undefined;
  #loop: AttemptLoop<R> | undefined;
  #hasAnswered = false;
  #isOver = false;

  constructor(rules: CallRules<F>, work: AttemptWork<R>, to: Subscriber<R | F>) {
    this.#rules = rules;
    this.#work = work;
    this.#to = to;
    this.#alarm = new Alarm(rules.scheduler, () => {
      this.#tries?.stop();
      // Whoever hears of the abort may have made the consumer leave.
      if (!this.#isOver) this.#fail(this.#late());
    });
    this.#startedAt = this.#alarm.now();
  }

  start(): void {
    const { load, breaker, deadlineMs, tell, lane, id: batchId } = this.#rules;
    load.active += 1;
    tell?.({ type: 'accepted', lane, batchId, queued: load.active - load.executing });
    this.#to.add(() => {
      this.#leave();
    });
    // A listener may have made the consumer leave.
    if (this.#isOver) return;
    const deadlineAt = this.#startedAt + deadlineMs;
    const attempts = new Observable<R>((subscriber) => {
      const loop = new AttemptLoop<R>(this.#rules, deadlineAt, this.#work, subscriber);
      this.#loop = loop;
      subscriber.add(() => {
        loop.stop();
      });
      loop.next();
    });
    this.#tries = new Tries(this, () => (breaker ? breaker.run(() => attempts) : attempts));
    this.#tries.begin();
    if (!(this.#isOver as boolean)) this.#alarm.set(deadlineAt);
  }

  said(value: R): void {
    this.#hasAnswered = true;
    this.#to.next(value);
  }

  done(): void {
    this.#settled('fulfilled');
    this.#to.complete();
  }

  failed(error: unknown): void {
    this.#fail(this.#loop?.isOutOfTime ? this.#late() : error);
  }

  #fail(error: unknown): void {
    this.#settled('rejected');
    const { fallback, operator, classify, scheduler } = this.#rules;
    // Half an answer is no answer, and another one behind it makes it no better.
    if (fallback === undefined || this.#hasAnswered || this.#to.closed) {
      this.#to.error(error);
      return;
    }
    const attempts = this.#loop?.count ?? 0;
    const verdict = verdictOrFatal(operator, classify, error, {
      size: 1,
      attempt: Math.max(1, attempts),
      aborted: false,
      epochMs: scheduler.now(),
    });
    if (verdict.class === 'cancelled') {
      this.#to.error(error);
      return;
    }
    // The fallback may need the permit, and whoever gets it may make the consumer leave.
    this.#loop?.giveBack();
    if (this.#to.closed as boolean) return;
    const instead = new Instead<F>(fallback, error, verdict.class, attempts, this.#to);
    this.#to.add(() => {
      instead.stop();
    });
    instead.begin(this.#context);
  }

  #late(): DeadlineError {
    const { operator, deadlineMs } = this.#rules;
    return new DeadlineError(operator, deadlineMs, this.#alarm.now() - this.#startedAt, this.#loop?.failure);
  }

  #leave(): void {
    if (this.#isOver) return;
    this.#end();
    this.#tries?.stop();
    if (this.#loop?.hasSucceeded) {
      this.#tell('fulfilled');
      return;
    }
    const { tell, lane, id: batchId } = this.#rules;
    tell?.({ type: 'cancelled', lane, batchId, count: 1 });
  }

  #settled(outcome: 'fulfilled' | 'rejected'): void {
    this.#end();
    this.#tell(outcome);
  }

  #tell(outcome: 'fulfilled' | 'rejected'): void {
    const { tell, lane, id: batchId } = this.#rules;
    if (tell === undefined) return;
    const totalMs = this.#alarm.now() - this.#startedAt;
    tell({ type: 'settled', lane, batchId, outcome, attempts: this.#loop?.count ?? 0, totalMs });
  }

  #end(): void {
    this.#isOver = true;
    this.#alarm.clear();
    this.#rules.load.active -= 1;
  }
}

/** Everything before the fallback. */
class Tries<R> extends Call<R> {
  constructor(
    private readonly owner: PolicyCall<R, unknown>,
    private readonly attempts: () => Observable<R>,
  ) {
    super();
  }

  work(): Observable<R> {
    return this.attempts();
  }

  override said(value: R): void {
    this.owner.said(value);
  }

  done(): void {
    this.owner.done();
  }

  failed(error: unknown): void {
    this.owner.failed(error);
  }
}

/** The fallback: its values are the result. */
class Instead<F> extends Call<F> implements FallbackContext {
  readonly class: ErrorClass;

  constructor(
    private readonly fallback: Fallback<F>,
    private readonly error: unknown,
    found: ErrorClass,
    readonly attempts: number,
    private readonly to: Subscriber<F>,
  ) {
    super();
    this.class = found;
  }

  work(): WorkResult<F> {
    return this.fallback(this.error, this);
  }

  override said(value: F): void {
    this.to.next(value);
  }

  done(): void {
    this.to.complete();
  }

  failed(error: unknown): void {
    this.to.error(error);
  }
}
