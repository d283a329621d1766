import { EMPTY, isObservable, noop, tap } from 'rxjs';
import { onAbort, streamOf } from '../../operators/build.js';
import type { BatchResult, BatchWork, CallContext, ErrorClass, Usage } from '../../operators/index.js';
import type { Reservation } from '../pipelines/budget/budget-types.js';
import { after } from '../pipelines/budget/reserving.js';
import type { CallFacts, Entry } from './entry.js';
import type { Ledger } from './ledger.js';
import { keptLedger } from './ledger.js';
import type { ProviderRules } from './providers.js';
import { ambientJob } from './with-job.js';

/** What is the same for all batches. */
export interface BatchFacts {
  readonly name: string;
  readonly model: string;
  readonly key?: unknown;
  /** The `provider` option. */
  readonly provider: ProviderRules | undefined;
  /** Of the API, where it is known; the rules of an account stand above it. */
  readonly api: ProviderRules | undefined;
}

/** How an attempt is settled: by the ledger of its account, or by the limiter alone. */
type BatchEntry = Pick<Entry, 'isReserved' | 'report' | 'answered' | 'failedAs' | 'left' | 'withdraw'>;

/**
 * The work of a batcher under a limiter, each call of it settled with what it has used, and written down in the ledger of the limiter's account
 * with its weight as the tokens of a prompt.
 */
export function enteredBatch<T, R>(
  limiter: object,
  facts: BatchFacts,
  now: () => number,
  classOf: (error: unknown, context: CallContext) => ErrorClass,
  work: BatchWork<T, R>,
): BatchWork<T, R> {
  const ids = idsFrom(Math.random());
  const send = (items: Parameters<typeof work>[0], context: CallContext, entry: BatchEntry): ReturnType<typeof work> => {
    // A listener of the budget may have ended the call, or it was ended while the budget was asked.
    if (entry.isReserved && context.signal.aborted) {
      entry.withdraw();
      return EMPTY;
    }
    const answered = (): void => {
      entry.answered();
    };
    const failed = (error: unknown): void => {
      entry.failedAs(error, classOf(error, context));
    };
    const left = (): void => {
      entry.left();
    };
    let answer: ReturnType<typeof work>;
    try {
      answer = work(items, enteredContext(context, entry));
    } catch (error) {
      failed(error);
      throw error;
    }
    // A promise stays one: it keeps its permit until it is really over.
    if (typeof (Object(answer) as Partial<PromiseLike<unknown>>).then === 'function') {
      // One that is cancelled may never settle.
      onAbort(context.signal, left);
      return Promise.resolve(answer as PromiseLike<BatchResult<R>>).then(
        (result) => {
          answered();
          return result;
        },
        (error: unknown) => {
          failed(error);
          throw error;
        },
      );
    }
    const stream = streamOf<BatchResult<R>>(answer);
    if (stream) return stream.pipe(tap({ error: failed, complete: answered, unsubscribe: left }));
    answered();
    return answer;
  };
  return (items, context) => {
    const settle = (usage: Usage): void => {
      context.settle(usage);
    };
    const ledger = keptLedger(limiter);
    if (!ledger) return send(items, context, unwritten(facts.provider ?? facts.api, settle));
    const asked = callOf(ledger, facts, context);
    const enter = (reservation: Reservation | undefined): Entry => {
      const spanId = ids();
      const of = { traceId: ambientJob().traceId ?? spanId + spanId, spanId, attempt: context.attempt, queuedMs: 0 };
      return ledger.enter(asked, of, { lease: undefined, settle }, now, reservation);
    };
    const returned = (): void => {
      settle({ inputTokens: 0, outputTokens: 0 });
    };
    const reserving = ledger.reserveFor(asked, returned);
    if (!isObservable(reserving)) return send(items, context, enter(reserving));
    return after(reserving, (reservation) => send(items, context, enter(reservation)));
  };
}

/** What is known of a batch before it is sent. */
function callOf(ledger: Ledger, facts: BatchFacts, { lane, weight }: CallContext): CallFacts {
  const { name, model, key } = facts;
  const provider = ledger.rulesFor(facts.provider, facts.api);
  const tokens = { inputTokens: weight, maxOutputTokens: undefined };
  const charged = { inputTokens: weight, outputTokens: 0, tokens: weight };
  const refusalsAreFree = provider.refusedInput === 'returned';
  return { name, model, key, provider, lane, tokens, charged, refusalsAreFree };
}

/** Kinds of errors with which a provider refuses a request, of which it has read nothing or counts nothing. */
const REFUSED: ReadonlySet<ErrorClass> = /* @__PURE__ */ new Set<ErrorClass>(['itemFault', 'tooLarge', 'throttled', 'fatal']);

/** Without a ledger: the rates of the limiter alone are settled. */
function unwritten(rules: ProviderRules | undefined, settle: (usage: Usage) => void): BatchEntry {
  return {
    isReserved: false,
    report: (usage) => {
      if (usage) settle(usage);
    },
    answered: noop,
    failedAs: (_error, errorClass) => {
      const isReturned = REFUSED.has(errorClass) ? rules?.refusedInput !== 'kept' : rules?.failedInput === 'returned';
      if (isReturned) settle({ inputTokens: 0, outputTokens: 0 });
    },
    left: noop,
    withdraw: noop,
  };
}

/** Context of the work: usage that the work reports goes to the entry. */
function enteredContext(context: CallContext, entry: BatchEntry): CallContext {
  const settle = (usage: Usage): void => {
    entry.report(usage);
  };
  // Its getters and methods are those of the context.
  return Object.create(context, { settle: { value: settle } }) as CallContext;
}

function idsFrom(random01: number): () => string {
  const prefix = Math.floor(random01 * 0x100000000)
    .toString(16)
    .padStart(8, '0');
  let made = 0;
  return () => prefix + (++made).toString(16).padStart(8, '0');
}
