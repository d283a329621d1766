import { isOver } from '../../kernel/waiting/deadlines.js';
import { AttemptTimeoutError } from '../../options/errors.js';
import { deadlinePassed } from '../../options/waiting-errors.js';
import { Alarm } from '../time/alarm.js';
import type { CallRules, OwnRules } from './policy-rules.js';

/** What the clock knows of an attempt, and sets. */
export interface TimedAttempt {
  /** Ended, cancelled or timed out. */
  readonly isOver: boolean;
  /** The whole answer is out. */
  readonly isAnswered: boolean;
  /** When it is cut off. */
  deadlineAt: number;
  /** When `timeoutMs` is over, the pauses of that clock, and what is left of it meanwhile. */
  timeoutAt: number;
  pauses: number;
  leftMs: number;
}

/** The times of one call: its deadline, and when its attempt is cut off or its pause is over. Rings at the first of them. */
export class PolicyClock extends Alarm {
  readonly #rules: CallRules<unknown>;
  readonly #own: OwnRules;
  readonly #startedAt: number;
  readonly deadlineAt: number;
  /** When the attempt is cut off, or the pause is over. */
  nextAt = Infinity;
  /** The call has ended. */
  isStopped = false;

  constructor(rules: CallRules<unknown>, own: OwnRules, onRing: () => void) {
    super(rules.scheduler, onRing);
    this.#rules = rules;
    this.#own = own;
    this.#startedAt = this.now();
    this.deadlineAt = this.#startedAt + own.deadlineMs;
  }

  /** Since the call began. */
  elapsedMs(): number {
    return this.now() - this.#startedAt;
  }

  get isPastDeadline(): boolean {
    return isOver(this.deadlineAt, this.now());
  }

  /** Sets the timer to what comes first. Work that has answered at once needs none. */
  arm(): void {
    if (!this.isStopped) this.set(Math.min(this.nextAt, this.deadlineAt));
  }

  stop(): void {
    this.isStopped = true;
    this.clear();
  }

  /** Sets when the attempt is cut off: at its timeout, after a silence, or with the call. */
  limit(attempt: TimedAttempt): void {
    const { silenceMs } = this.#rules;
    const silentAt = silenceMs === Infinity ? Infinity : this.now() + silenceMs;
    this.nextAt = attempt.pauses > 0 ? Infinity : Math.min(attempt.timeoutAt, silentAt);
    attempt.deadlineAt = Math.min(this.nextAt, this.deadlineAt);
  }

  /** The attempt has emitted a value. */
  heard(attempt: TimedAttempt): void {
    if (this.#rules.silenceMs === Infinity || attempt.isAnswered) return;
    this.limit(attempt);
    this.arm();
  }

  /** Starts the timeout of the attempt anew. */
  restart(attempt: TimedAttempt): void {
    attempt.leftMs = this.#rules.timeoutMs;
    this.#run(attempt);
  }

  /** Stops the timeout of the attempt until the answer is called. */
  pause(attempt: TimedAttempt): () => void {
    if (attempt.pauses === 0) attempt.leftMs = attempt.timeoutAt - this.now();
    attempt.pauses += 1;
    this.#run(attempt);
    let isPaused = true;
    return () => {
      if (!isPaused) return;
      isPaused = false;
      attempt.pauses -= 1;
      this.#run(attempt);
    };
  }

  #run(attempt: TimedAttempt): void {
    if (attempt.isOver) return;
    attempt.timeoutAt = this.now() + attempt.leftMs;
    this.limit(attempt);
    this.arm();
  }

  timeoutError(silenceMs = this.#rules.silenceMs): AttemptTimeoutError {
    return new AttemptTimeoutError(this.#rules.operator, Math.min(this.#rules.timeoutMs, silenceMs));
  }

  /** @param cause - what the last attempt has failed with */
  deadlineError(cause: unknown): Error {
    return deadlinePassed(this.#rules.operator, this.#own.deadlineMs, this.elapsedMs(), cause);
  }
}
