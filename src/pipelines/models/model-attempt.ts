import { check } from '../../../operators/build.js';
import type { ErrorClass, PolicyContext, ResponseLike, Usage } from '../../../operators/index.js';
import type { Entry, EntryEnd } from '../../account/entry.js';
import { PARSE_FAILED } from '../../metrics/error-code.js';
import { isQuotaOfMinute, lessonOf } from '../provider-error.js';
import type { ModelCall } from './model-call.js';
import type { ModelContext } from './model-types.js';
import { ParseFault } from './parse-fault.js';

/** How an attempt ended, for events. */
export type AttemptOutcome = 'ok' | 'cancelled' | ErrorClass;

/** What an attempt needs of the model caller that makes it. */
export interface AttemptHost {
  now(): number;
  classOf(error: unknown, attempt: number): ErrorClass;
  over(attempt: ModelAttempt, outcome: AttemptOutcome, latencyMs: number): void;
}

/** Fractions of a millisecond that two readings of a clock may differ by. */
const TOLERANCE_MS = 0.001;
const UNREAD: EntryEnd = { status: 'error', errorCode: PARSE_FAILED };

/** One attempt: the context of the client, and the record of the account. */
export class ModelAttempt implements ModelContext {
  readonly lane: string;
  readonly traceId: string;
  readonly name: string;
  isOver = false;
  /** The client has been asked. */
  isSent = false;
  /** How the permit goes back when the attempt is cut off. */
  giveBack: PolicyContext['giveBack'] = undefined;
  readonly #host: AttemptHost;
  readonly #context: PolicyContext;
  readonly #startedAt: number;
  readonly #entry: Entry | undefined;
  #usage: Usage | undefined;

  constructor(
    host: AttemptHost,
    readonly call: ModelCall,
    context: PolicyContext,
    readonly attempt: number,
    readonly spanId: string,
    entry: Entry | undefined,
  ) {
    const { lane, inquiry } = call;
    this.lane = lane;
    this.traceId = inquiry.traceId;
    this.name = inquiry.name;
    this.#entry = entry;
    this.#host = host;
    this.#context = context;
    this.#startedAt = host.now();
    context.whenAborted = () => {
      this.#stopped();
    };
  }

  get signal(): AbortSignal {
    return this.#context.signal;
  }

  get deadlineAt(): number {
    return this.#context.deadlineAt;
  }

  readonly settle = (usage: Usage): void => {
    const known = usageIn(usage);
    if (known === undefined) return;
    if (this.#entry) this.#entry.report(known);
    else this.#context.settle((this.#usage = { ...this.#usage, ...known }));
  };

  /** More of the answer has come, with so many tokens of output by now. */
  saw(outputTokens: number): void {
    this.#entry?.saw(outputTokens);
  }

  readonly observe = (response: ResponseLike): void => {
    this.#entry?.observe(response);
    this.#context.observe(response);
  };

  /** @param usage - what the answer says of its tokens */
  done(usage?: Usage): void {
    // Usage of an answer that came too late counts as well.
    if (usage && (this.isOver || !this.#entry)) this.settle(usage);
    this.#end('ok', (entry) => {
      entry.answered(undefined, usage && usageIn(usage));
    });
  }

  failed(error: unknown): void {
    if (this.isOver) return;
    // A `call` of the user's own may have shown the response before it read the body, which alone says more.
    const lesson = isQuotaOfMinute(error) ? lessonOf({ status: 429, headers: {} }, error) : undefined;
    if (lesson) this.#context.observe(lesson);
    // The provider has done its work where only the answer cannot be read.
    const isUnread = ParseFault.is(error);
    const found = isUnread ? 'contract' : this.#host.classOf(error, this.attempt);
    this.#end(found, (entry) => {
      if (isUnread) entry.answered(UNREAD);
      else entry.failed(error, found);
    });
  }

  #stopped(): void {
    this.#context.giveBack = this.giveBack ?? this.#context.giveBack;
    const now = this.#host.now() + TOLERANCE_MS;
    let outcome: AttemptOutcome = 'cancelled';
    let end: EntryEnd = { status: 'cancelled', errorCode: 'CANCELLED' };
    if (now >= this.call.deadlineAt) end = { status: 'timeout', errorCode: 'FLOW_DEADLINE' };
    else if (now >= this.deadlineAt) [outcome, end] = ['timeout', { status: 'timeout', errorCode: 'FLOW_ATTEMPT_TIMEOUT' }];
    this.#end(outcome, (entry) => {
      if (this.isSent) entry.left(end);
      else entry.unsent(end);
    });
  }

  #end(outcome: AttemptOutcome, settle: (entry: Entry) => void): void {
    if (this.isOver) return;
    this.isOver = true;
    if (this.#entry) settle(this.#entry);
    this.#host.over(this, outcome, this.#host.now() - this.#startedAt);
  }
}

/** Numbers that cannot be are left out; undefined when nothing is left. */
function usageIn(usage: Usage): Usage | undefined {
  const known: Record<string, unknown> = {};
  let isEmpty = true;
  for (const [name, tokens] of Object.entries(usage)) {
    if (!check.isAmount(tokens) || tokens === Infinity) continue;
    known[name] = tokens;
    isEmpty = false;
  }
  return isEmpty ? undefined : known;
}
