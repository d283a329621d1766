import { tap } from 'rxjs';
import { isPromise, onlyOnce, streamOf } from '../../../operators/toolkit.js';
import type { BatchResult, BatchWork, CallContext, ResponseLike, Usage } from '../../../operators/types.js';
import { AttemptCharge } from './attempt-charge.js';
import type { BudgetPort, Reservation } from './budget-types.js';

/** The work of a batcher, each call of it charged to a budget with its weight as the tokens of a prompt. */
export function chargedWork<T, R>(budget: BudgetPort | undefined, model: string, work: BatchWork<T, R>): BatchWork<T, R> {
  if (budget === undefined) return work;
  return (items, context) => {
    const charge = new AttemptCharge(reserve(budget, model, context));
    let answer: ReturnType<typeof work>;
    try {
      answer = work(items, new ChargedContext(context, charge));
    } catch (error) {
      charge.failed(error);
      throw error;
    }
    // A promise stays one: it keeps its permit until it is really over.
    if (isPromise(answer)) {
      return onlyOnce(answer).then(
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
class ChargedContext implements CallContext {
  readonly #context: CallContext;
  readonly #charge: AttemptCharge;

  constructor(context: CallContext, charge: AttemptCharge) {
    this.#context = context;
    this.#charge = charge;
  }

  get signal(): AbortSignal {
    return this.#context.signal;
  }

  get attempt(): number {
    return this.#context.attempt;
  }

  get splitDepth(): number {
    return this.#context.splitDepth;
  }

  get batchId(): string {
    return this.#context.batchId;
  }

  get lane(): string {
    return this.#context.lane;
  }

  get weight(): number {
    return this.#context.weight;
  }

  get deadlineAt(): number {
    return this.#context.deadlineAt;
  }

  readonly settle = (usage: Usage): void => {
    this.#charge.used(usage);
    this.#context.settle(usage);
  };

  readonly observe = (response: ResponseLike): void => {
    this.#context.observe(response);
  };
}
