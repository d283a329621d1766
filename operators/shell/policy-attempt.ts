import type { Subscriber } from 'rxjs';
import type { Verdict } from '../kernel/repair/verdict.js';
import type { PolicyBreakerContext } from '../options/breaker.js';
import type { Lease } from '../options/limiter.js';
import type { Outcome, Permit } from '../options/permits.js';
import type { ErrorClass, ResponseLike, Usage, WorkResult } from '../options/types.js';
import { PermittedCall, Relay } from './call.js';
import type { AttemptContext, Fallback, FallbackContext } from './policy-rules.js';

/** The call that attempts belong to. */
interface AttemptOwner<R> {
  work(attempt: Attempt<R>): WorkResult<R>;
  got(attempt: Attempt<R>, value: R): void;
  done(attempt: Attempt<R>): void;
  failed(attempt: Attempt<R>, error: unknown): void;
}

/** One attempt; also the context that its work gets. */
export class Attempt<R> extends PermittedCall<R> implements AttemptContext {
  whenAborted: (() => void) | undefined = undefined;
  giveBack: ((release: () => void) => void) | undefined = undefined;
  /** Ended, cancelled or timed out. */
  isOver = false;
  /** The whole answer is out: leaving now cancels nothing. */
  isAnswered = false;
  /** Why it has failed. */
  verdict: Verdict | undefined = undefined;

  constructor(
    private readonly owner: AttemptOwner<R>,
    readonly attempt: number,
    readonly startedAt: number,
    readonly deadlineAt: number,
    readonly queuedMs: number,
    readonly lease: Lease | undefined,
    /** Whom it answers. */
    readonly to: Subscriber<R>,
    /** What the breaker has told it. */
    readonly guarded: PolicyBreakerContext | undefined,
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
export class FallbackCall<F> extends Relay<F> implements FallbackContext {
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
