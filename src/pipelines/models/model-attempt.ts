import type { AttemptContext } from '../../../operators/policy.js';
import { isA, isAmount, LazySignal } from '../../../operators/toolkit.js';
import type { ErrorClass, ResponseLike, Usage } from '../../../operators/types.js';
import type { Entry, EntryEnd } from '../../account/entry.js';
import { isQuotaOfMinute, lessonOf } from '../provider-error.js';
import type { ModelContext } from './model-types.js';
import { ParseFault } from './parse-fault.js';

/** How an attempt ended. */
export interface AttemptEnd extends EntryEnd {
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
  now(): number;
  /** How an attempt ended that failed by itself. */
  judge(error: unknown, attempt: number): AttemptEnd;
  /** How one ended that was stopped, and would have been cut off at `deadlineAt`. */
  judgeStop(deadlineAt: number): AttemptEnd;
  /** An attempt is over. */
  over(attempt: ModelAttempt, outcome: AttemptEnd['outcome'], latencyMs: number): void;
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
  readonly #entry: Entry;
  #isOver = false;
  /** The client has been asked. */
  isSent = false;
  /** How the permit goes back when it is cut off. */
  giveBack: AttemptContext['giveBack'] = undefined;
  readonly #context: AttemptContext;

  constructor(
    host: AttemptHost,
    context: AttemptContext,
    rules: AttemptRules,
    readonly attempt: number,
    readonly spanId: string,
    entry: Entry,
  ) {
    super();
    this.deadlineAt = rules.deadlineAt;
    this.lane = host.lane;
    this.traceId = host.traceId;
    this.name = host.name;
    this.#entry = entry;
    this.#host = host;
    this.#context = context;
    this.#rules = rules;
    this.#startedAt = host.now();
    context.whenAborted = () => {
      this.#end(this.#host.judgeStop(this.deadlineAt), (end) => {
        this.#entry.left(end);
      });
      this.abort();
    };
  }

  /** Numbers that cannot be are left out. */
  readonly settle = (usage: Usage): void => {
    const known = Object.entries(usage).filter(([, tokens]) => isTokens(tokens));
    if (known.length > 0) this.#entry.report(Object.fromEntries(known));
  };

  /** Something of the answer has come, with so many tokens of output by now. */
  saw(outputTokens: number): void {
    this.#entry.saw(outputTokens);
  }

  readonly observe = (response: ResponseLike): void => {
    this.#entry.observe(response);
    this.#rules.observe(response);
  };

  /** The client is to stop. */
  override abort(): void {
    this.#context.giveBack = this.giveBack;
    super.abort();
  }

  done(): void {
    this.#end({ status: 'success', errorCode: null, outcome: 'ok' }, (end) => {
      this.#entry.answered(end);
    });
  }

  failed(error: unknown): void {
    if (this.#isOver) return;
    // A `call` of the user's own may have shown the response before it read the body, which alone says more.
    const lesson = isQuotaOfMinute(error) ? lessonOf({ status: 429, headers: {} }, error) : undefined;
    if (lesson) this.#rules.observe(lesson);
    this.#end(this.#host.judge(error, this.attempt), (end) => {
      // The provider has done its work where only the answer cannot be read.
      if (isA(error, ParseFault)) this.#entry.answered(end);
      else this.#entry.failed(error, end);
    });
  }

  #end(end: AttemptEnd, settle: (end: AttemptEnd) => void): void {
    if (this.#isOver) return;
    this.#isOver = true;
    if (this.isSent) settle(end);
    else this.#entry.unsent(end);
    this.#host.over(this, end.outcome, this.#host.now() - this.#startedAt);
  }
}

function isTokens(value: unknown): value is number {
  return isAmount(value) && value !== Infinity;
}
