import type { AttemptContext } from '../../../operators/policy.js';
import { isAmount, LazySignal } from '../../../operators/toolkit.js';
import type { ErrorClass, ResponseLike, Usage } from '../../../operators/types.js';
import type { CallRecord, CallStatus } from '../../metrics/call-record.js';
import type { Reservation } from '../budget/budget-types.js';
import { wasFree } from '../budget/was-free.js';
import type { ModelContext } from './model-types.js';

/** How an attempt ended. */
export interface AttemptEnd {
  readonly status: CallStatus;
  readonly errorCode: string | null;
  /** The same for events. */
  readonly outcome: 'ok' | 'cancelled' | ErrorClass;
}

/** What one attempt has of the policy it runs under. */
export type AttemptRules = Pick<AttemptContext, 'deadlineAt' | 'queuedMs' | 'lease' | 'settle' | 'observe'>;

/** The call that the attempt is made for: what is written down about it, and who wants to know of its end. */
export interface AttemptHost {
  readonly traceId: string;
  readonly name: string;
  readonly lane: string;
  readonly model: string;
  now(): number;
  /** How an attempt ended that failed by itself. */
  judge(error: unknown, attempt: number): AttemptEnd;
  /** How one ended that was stopped, and would have been cut off at `deadlineAt`. */
  judgeStop(deadlineAt: number): AttemptEnd;
  over(record: CallRecord, outcome: AttemptEnd['outcome']): void;
}

/** One attempt: what the client is told, and what is written down about it. */
export class ModelAttempt extends LazySignal implements ModelContext {
  readonly deadlineAt: number;
  readonly lane: string;
  readonly traceId: string;
  readonly name: string;
  readonly #host: AttemptHost;
  readonly #rules: AttemptRules;
  readonly #startedAt: number;
  /** What of it is known. */
  readonly #usage: { inputTokens?: number; outputTokens?: number } = {};
  /** Of a budget. */
  readonly #reservation: Reservation | undefined;
  #isOver = false;
  /** The client has been asked. */
  isSent = false;
  /** Something of an answer has come. */
  isAnswered = false;
  /** How the permit goes back when it is cut off. */
  giveBack: AttemptContext['giveBack'] = undefined;
  readonly #context: AttemptContext;

  constructor(
    host: AttemptHost,
    context: AttemptContext,
    rules: AttemptRules,
    readonly attempt: number,
    readonly spanId: string,
    reservation: Reservation | undefined,
  ) {
    super();
    this.deadlineAt = rules.deadlineAt;
    this.lane = host.lane;
    this.traceId = host.traceId;
    this.name = host.name;
    this.#reservation = reservation;
    this.#host = host;
    this.#context = context;
    this.#rules = rules;
    this.#startedAt = host.now();
    context.whenAborted = () => {
      this.#end(this.#host.judgeStop(this.deadlineAt));
      this.abort();
    };
  }

  /** Numbers that cannot be are left out. */
  readonly settle = ({ inputTokens, outputTokens }: Usage): void => {
    if (isTokens(inputTokens)) this.#usage.inputTokens = inputTokens;
    if (isTokens(outputTokens)) this.#usage.outputTokens = outputTokens;
    this.#rules.settle(this.#usage);
    if (this.#isOver) this.#reservation?.settle(this.#usage);
  };

  readonly observe = (response: ResponseLike): void => {
    this.#rules.observe(response);
  };

  /** The client is to stop. */
  override abort(): void {
    this.#context.giveBack = this.giveBack;
    super.abort();
  }

  done(): void {
    this.#end({ status: 'success', errorCode: null, outcome: 'ok' });
  }

  failed(error: unknown): void {
    if (!this.#isOver) this.#end(this.#host.judge(error, this.attempt), !this.isAnswered && wasFree(error));
  }

  #end({ status, errorCode, outcome }: AttemptEnd, isFree = !this.isSent): void {
    if (this.#isOver) return;
    this.#isOver = true;
    if (isFree) this.#reservation?.release();
    else this.#reservation?.settle(this.#usage);
    const { traceId, name, lane } = this;
    const { inputTokens = null, outputTokens = null } = this.#usage;
    const record = {
      traceId,
      spanId: this.spanId,
      name,
      lane,
      model: this.#host.model,
      attempt: this.attempt,
      latencyMs: this.#host.now() - this.#startedAt,
      queuedMs: this.#rules.queuedMs,
      status,
      errorCode,
      promptTokens: inputTokens,
      completionTokens: outputTokens,
    };
    this.#host.over(record, outcome);
  }
}

function isTokens(value: unknown): value is number {
  return isAmount(value) && value !== Infinity;
}
