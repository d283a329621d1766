import type { Subscriber } from 'rxjs';
import type { Verdict } from '../../kernel/repair/verdict.js';
import type { PolicyBreakerContext } from '../../options/breaker.js';
import { CallbackError, GuardRefusedError } from '../../options/errors.js';
import type { Lease } from '../../options/limiter.js';
import type { Outcome, Permit } from '../../options/permits.js';
import type { ErrorClass, ResponseLike, Usage, WorkResult } from '../../options/types.js';
import { Call, PermittedCall, Relay } from '../calls/call.js';
import type { PolicyClock, TimedAttempt } from './policy-clock.js';
import type { Fallback, FallbackContext, PolicyContext, PolicyGuard, PolicyGuardContext, PolicyWork } from './policy-rules.js';

/** The call that attempts belong to. */
interface AttemptOwner<R> {
  readonly clock: PolicyClock;
  readonly work: PolicyWork<R>;
  got(attempt: Attempt<R>, value: R): void;
  done(attempt: Attempt<R>): void;
  failed(attempt: Attempt<R>, error: unknown): void;
}

/** One attempt; also the context that its work gets. */
export class Attempt<R> extends PermittedCall<R> implements PolicyContext, TimedAttempt {
  whenAborted: (() => void) | undefined = undefined;
  giveBack: ((release: () => void) => void) | undefined = undefined;
  /** Ended, cancelled or timed out. */
  isOver = false;
  /** The whole answer is out: leaving now cancels nothing. */
  isAnswered = false;
  deadlineAt = Infinity;
  timeoutAt = Infinity;
  pauses = 0;
  leftMs = Infinity;
  /** Why it has failed. */
  verdict: Verdict | undefined = undefined;

  constructor(
    private readonly owner: AttemptOwner<R>,
    readonly attempt: number,
    readonly startedAt: number,
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

  get restartTimeout(): () => void {
    return () => {
      this.owner.clock.restart(this);
    };
  }

  get pauseTimeout(): () => () => void {
    return () => this.owner.clock.pause(this);
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

/** The call whose attempt is to start. */
interface GuardOwner {
  allowed(guard: GuardCall): void;
  deny(guard: GuardCall, error: Error): void;
}

/** The question whether an attempt may be made; also the context of the guard. It holds the permit of that attempt. */
export class GuardCall extends Call<unknown> implements PolicyGuardContext {
  constructor(
    private readonly owner: GuardOwner,
    private readonly operator: string,
    private readonly guard: PolicyGuard,
    private readonly index: number,
    readonly attempt: number,
    readonly lease: Lease | undefined,
  ) {
    super();
  }

  work(): WorkResult<unknown> {
    return this.guard(this) as WorkResult<unknown>;
  }

  done(answer: unknown): void {
    const { owner, operator, index } = this;
    if (answer === true) owner.allowed(this);
    else if (answer === false || typeof answer === 'string') owner.deny(this, new GuardRefusedError(operator, index, answer || undefined));
    else owner.deny(this, new CallbackError(operator, 'guard', 'must answer true, false or a reason'));
  }

  failed(error: unknown): void {
    this.owner.deny(this, new CallbackError(this.operator, 'guard', 'threw', error));
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
