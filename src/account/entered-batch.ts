import { EMPTY, tap } from 'rxjs';
import { isPromise, onAbort, streamOf } from '../../operators/toolkit.js';
import type { BatchResult, BatchWork, CallContext, ErrorClass, Usage } from '../../operators/types.js';
import type { CallFacts } from './entry.js';
import { Entry, endOf } from './entry.js';
import type { Ledger } from './ledger.js';
import type { ProviderRules } from './providers.js';
import { ambientJob } from './with-job.js';

/** What is the same for all batches. */
export interface BatchFacts {
  readonly name: string;
  readonly model: string;
  readonly key: unknown;
  readonly provider: ProviderRules;
}

/** The work of a batcher, each call of it written down in the ledger with its weight as the tokens of a prompt. */
export function enteredBatch<T, R>(
  ledger: Ledger,
  facts: BatchFacts,
  now: () => number,
  classOf: (error: unknown, context: CallContext) => ErrorClass,
  work: BatchWork<T, R>,
): BatchWork<T, R> {
  const ids = idsFrom(Math.random());
  return (items, context) => {
    const entry = enter(ledger, facts, context, ids(), now);
    // A listener of the budget may have ended the call.
    if (entry.isReserved && context.signal.aborted) {
      entry.withdraw();
      return EMPTY;
    }
    const answered = (): void => {
      entry.answered();
    };
    const failed = (error: unknown): void => {
      entry.failed(error, endOf(error, classOf(error, context)));
    };
    let answer: ReturnType<typeof work>;
    try {
      answer = work(items, enteredContext(context, entry));
    } catch (error) {
      failed(error);
      throw error;
    }
    // A promise stays one: it keeps its permit until it is really over.
    if (isPromise(answer)) {
      // One that is cancelled may never settle.
      onAbort(context.signal, () => {
        entry.left();
      });
      return Promise.resolve(answer).then(
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
    if (stream) {
      return stream.pipe(
        tap({
          error: failed,
          complete: answered,
          unsubscribe: () => {
            entry.left();
          },
        }),
      );
    }
    answered();
    return answer;
  };
}

function enter(ledger: Ledger, facts: BatchFacts, context: CallContext, spanId: string, now: () => number): Entry {
  const { attempt, lane, weight } = context;
  const { traceId } = ambientJob();
  const tokens = { inputTokens: weight, maxOutputTokens: undefined };
  const charged = { inputTokens: weight, outputTokens: 0, tokens: weight };
  const refusalsAreFree = facts.provider.refusedInput === 'returned';
  const about: CallFacts = { ...facts, lane, tokens, charged, refusalsAreFree };
  try {
    const of = { traceId: traceId ?? spanId + spanId, spanId, attempt, queuedMs: 0 };
    return new Entry(
      ledger,
      about,
      of,
      (usage) => {
        context.settle(usage);
      },
      now,
    );
  } catch (error) {
    context.settle({ inputTokens: 0, outputTokens: 0 });
    throw error;
  }
}

/** What the work is told: what it says of its usage goes to the ledger. */
function enteredContext(context: CallContext, entry: Entry): CallContext {
  const { attempt, splitDepth, batchId, lane, weight, deadlineAt } = context;
  return {
    ...{ attempt, splitDepth, batchId, lane, weight, deadlineAt },
    get signal() {
      return context.signal;
    },
    settle: (usage: Usage) => {
      entry.report(usage);
    },
    observe: (response) => {
      context.observe(response);
    },
  };
}

function idsFrom(random01: number): () => string {
  const prefix = Math.floor(random01 * 0x100000000)
    .toString(16)
    .padStart(8, '0');
  let made = 0;
  return () => prefix + (++made).toString(16).padStart(8, '0');
}
