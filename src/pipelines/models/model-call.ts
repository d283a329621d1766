import { isA } from '../../../operators/toolkit.js';
import type { ErrorClass } from '../../../operators/types.js';
import type { CallFacts } from '../../account/entry.js';
import { endOf } from '../../account/entry.js';
import { PARSE_FAILED } from '../../metrics/error-code.js';
import type { Inquiry } from './inquiry.js';
import type { AttemptEnd, AttemptHost, ModelAttempt } from './model-attempt.js';
import { ParseFault } from './parse-fault.js';

/** What a call needs of the one that makes it. */
export interface CallHost {
  now(): number;
  classOf(error: unknown, attempt: number): ErrorClass;
  over(call: ModelCall, attempt: ModelAttempt, outcome: AttemptEnd['outcome'], latencyMs: number): void;
}

/** Fractions of a millisecond that two readings of a clock may differ by. */
const TOLERANCE_MS = 0.001;

/** One call, with all its attempts. */
export class ModelCall implements AttemptHost {
  /** How often it has been sent. */
  sent = 0;
  /** Attempts under way. */
  running = 0;
  readonly lane: string;
  readonly #host: CallHost;
  readonly #ownDeadlineAt: number;

  constructor(
    host: CallHost,
    /** What it is made for. */
    readonly inquiry: Inquiry,
    /** Tells it from all others in events. */
    readonly id: string,
    deadlineMs: number,
    /** What is known of it before. */
    readonly facts: CallFacts,
  ) {
    this.#host = host;
    this.lane = inquiry.lane;
    this.#ownDeadlineAt = host.now() + deadlineMs;
  }

  get traceId(): string {
    return this.inquiry.traceId;
  }

  get name(): string {
    return this.inquiry.name;
  }

  /** When it is cut off, by its own deadline or with everybody who waits. */
  get deadlineAt(): number {
    return Math.min(this.#ownDeadlineAt, this.inquiry.endsAt);
  }

  now(): number {
    return this.#host.now();
  }

  judge(error: unknown, attempt: number): AttemptEnd {
    if (isA(error, ParseFault)) return { status: 'error', errorCode: PARSE_FAILED, outcome: 'contract' };
    const outcome = this.#host.classOf(error, attempt);
    return { ...endOf(error, outcome), outcome };
  }

  judgeStop(deadlineAt: number): AttemptEnd {
    const now = this.now() + TOLERANCE_MS;
    if (now >= this.deadlineAt) return { status: 'timeout', errorCode: 'FLOW_DEADLINE', outcome: 'cancelled' };
    if (now >= deadlineAt) return { status: 'timeout', errorCode: 'FLOW_ATTEMPT_TIMEOUT', outcome: 'timeout' };
    return { status: 'cancelled', errorCode: 'CANCELLED', outcome: 'cancelled' };
  }

  over(attempt: ModelAttempt, outcome: AttemptEnd['outcome'], latencyMs: number): void {
    this.#host.over(this, attempt, outcome, latencyMs);
  }
}
