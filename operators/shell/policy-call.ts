import type { Subscriber } from 'rxjs';
import { Observable } from 'rxjs';
import type { Breaker, PolicyBreakerContext } from '../options/breaker.js';
import { DeadlineError } from '../options/errors.js';
import type { ErrorClass, WorkResult } from '../options/types.js';
import { Alarm } from './alarm.js';
import type { AttemptRules, AttemptWork } from './attempt-loop.js';
import { AttemptLoop } from './attempt-loop.js';
import { Call, Relay } from './call.js';

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

/** The options of a call of a policy. */
interface CallRules<F> extends AttemptRules {
  readonly fallback: Fallback<F> | undefined;
  readonly deadlineMs: number;
  readonly breaker: Breaker | undefined;
}

/** One call: its attempts behind the breaker, before the deadline, with the fallback behind all of it. */
export class PolicyCall<R, F> extends Call<R> {
  readonly #rules: CallRules<F>;
  readonly #to: Subscriber<R | F>;
  readonly #alarm: Alarm;
  readonly #startedAt: number;
  readonly #deadlineAt: number;
  readonly #loop: AttemptLoop<R>;
  #guarded: PolicyBreakerContext | undefined;
  #hasAnswered = false;
  #isOver = false;

  constructor(rules: CallRules<F>, work: AttemptWork<R>, to: Subscriber<R | F>) {
    super();
    this.#rules = rules;
    this.#to = to;
    this.#alarm = new Alarm(rules.scheduler, () => {
      this.#guarded?.cutOff?.();
      this.stop();
      // Whoever hears of the abort may have made the consumer leave.
      if (!this.#isOver) this.#fail(this.#deadlineError());
    });
    this.#startedAt = this.#alarm.now();
    this.#deadlineAt = this.#startedAt + rules.deadlineMs;
    this.#loop = new AttemptLoop<R>(rules, this.#deadlineAt, work);
  }

  start(): void {
    const { load, tell, lane, id: batchId } = this.#rules;
    load.active += 1;
    tell?.({ type: 'accepted', lane, batchId, queued: load.active - load.executing });
    this.#to.add(() => {
      this.#quit();
    });
    // A listener may have made the consumer leave.
    if (this.#isOver) return;
    this.begin();
    if (!(this.#isOver as boolean)) this.#alarm.set(this.#deadlineAt);
  }

  work(): Observable<R> {
    const { breaker } = this.#rules;
    const attempts = new Observable<R>((subscriber) => {
      this.#loop.start(subscriber);
    });
    if (breaker === undefined) return attempts;
    return breaker.run((guarded: PolicyBreakerContext) => {
      this.#guarded = guarded;
      return attempts;
    });
  }

  override got(value: R): void {
    this.#hasAnswered = true;
    this.#to.next(value);
  }

  done(): void {
    this.#settled('fulfilled');
    this.#to.complete();
  }

  failed(error: unknown): void {
    this.#fail(this.#loop.isOutOfTime ? this.#deadlineError() : error);
  }

  #fail(error: unknown): void {
    this.#settled('rejected');
    const { fallback } = this.#rules;
    const loop = this.#loop;
    // No fallback after the first value: two answers one after the other are worse than an error.
    if (fallback === undefined || this.#hasAnswered || this.#to.closed) {
      this.#to.error(error);
      return;
    }
    const { class: found } = loop.classify(error);
    if (found === 'cancelled') {
      this.#to.error(error);
      return;
    }
    // The fallback may need the permit. The next grant may make the consumer leave.
    loop.giveBack();
    if (this.#to.closed as boolean) return;
    new FallbackCall<F>(fallback, error, found, loop.count, this.#to).begin(loop.context);
  }

  #deadlineError(): DeadlineError {
    const { operator, deadlineMs } = this.#rules;
    return new DeadlineError(operator, deadlineMs, this.#alarm.now() - this.#startedAt, this.#loop.failure);
  }

  #quit(): void {
    if (this.#isOver) return;
    this.#end();
    this.stop();
    if (this.#loop.hasSucceeded) {
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
    tell({ type: 'settled', lane, batchId, outcome, attempts: this.#loop.count, totalMs });
  }

  #end(): void {
    this.#isOver = true;
    this.#alarm.clear();
    this.#rules.load.active -= 1;
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
