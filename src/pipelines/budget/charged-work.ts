import { EMPTY, tap } from 'rxjs';
import { isPromise, onAbort, streamOf } from '../../../operators/toolkit.js';
import type { BatchResult, BatchWork, CallContext } from '../../../operators/types.js';
import { AttemptCharge } from './attempt-charge.js';
import type { BudgetPort, Reservation } from './budget-types.js';

/** The work of a batcher, each call of it charged to a budget with its weight as the tokens of a prompt. */
export function chargedWork<T, R>(budget: BudgetPort | undefined, model: string, work: BatchWork<T, R>): BatchWork<T, R> {
  if (budget === undefined) return work;
  return (items, context) => {
    const reservation = reserve(budget, model, context);
    // Whoever the budget has told of it may have ended the call.
    if (context.signal.aborted) {
      reservation.release();
      return EMPTY;
    }
    const charge = new AttemptCharge(reservation);
    let answer: ReturnType<typeof work>;
    try {
      answer = work(items, chargedContext(context, charge));
    } catch (error) {
      charge.failed(error);
      throw error;
    }
    // A promise stays one: it keeps its permit until it is really over.
    if (isPromise(answer)) {
      // One that is given up may never settle.
      onAbort(context.signal, charge.over);
      return Promise.resolve(answer).then(
        (result) => {
          charge.over();
          return result;
        },
        (error: unknown) => {
          charge.failed(error);
          throw error;
        },
      );
    }
    const stream = streamOf<BatchResult<R>>(answer);
    if (stream) return stream.pipe(tap({ error: charge.failed, finalize: charge.over }));
    charge.over();
    return answer;
  };
}

function reserve(budget: BudgetPort, model: string, context: CallContext): Reservation {
  try {
    return budget.reserve({ model, inputTokens: context.weight });
  } catch (error) {
    context.settle({ inputTokens: 0 });
    throw error;
  }
}

/** What the work is told. What it says of its usage, the budget hears as well. */
function chargedContext(context: CallContext, charge: AttemptCharge): CallContext {
  const { attempt, splitDepth, batchId, lane, weight, deadlineAt } = context;
  return {
    ...{ attempt, splitDepth, batchId, lane, weight, deadlineAt },
    get signal() {
      return context.signal;
    },
    settle: (usage) => {
      charge.used(usage);
      context.settle(usage);
    },
    observe: (response) => {
      context.observe(response);
    },
  };
}
