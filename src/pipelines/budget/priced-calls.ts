import type { Usage } from '../../../operators/index.js';
import { checkedCall, type PriceList, unpriced } from './budget-options.js';
import type { BudgetCall, ModelPrice, Reservation } from './budget-types.js';
import { amountsOf, type Charge } from './charge.js';
import type { Amounts, Meter } from './meter.js';
import type { CallTokens } from './prices.js';

/** Counts everything, and never refuses. */
export const ALL = { key: undefined, model: undefined, windowMs: Infinity, limit: Infinity } as const;

/** A call, what it costs at most, and the limits that are about it. */
export interface PricedCall {
  readonly asked: BudgetCall & CallTokens & { readonly reserved: number };
  readonly price: ModelPrice | undefined;
  readonly amounts: Amounts;
  readonly limits: readonly Meter[];
}

/** What calls cost at most, by the prices of a budget and by what calls before them have done. */
export class PricedCalls {
  readonly #prices: PriceList;
  readonly #limits: readonly Meter[];
  /** Models whose calls have written to the provider's prompt cache, and in which way: for an hour is the dearer. */
  readonly #writers = new Map<string, 'cacheWriteTokens' | 'cacheWrite1hTokens'>();

  constructor(prices: PriceList, limits: readonly Meter[]) {
    this.#prices = prices;
    this.#limits = limits;
  }

  /** @throws FlowConfigError */
  of(call: BudgetCall): PricedCall {
    const known = checkedCall(call);
    const price = this.#prices.get(known.model);
    const { outputTokens = Math.ceil(price?.maxOutputTokens ?? 0) } = call;
    const asked = this.#worst({ ...known, outputTokens: Math.ceil(outputTokens) });
    const limits = this.#limits.filter((limit) => limit.isAbout(asked));
    if (price === undefined && limits.some(({ rule }) => rule.unit === 'usd')) throw unpriced(asked.model);
    return { asked, price, amounts: amountsOf(price, asked), limits };
  }

  /** The reservation of one call; cache writes in its usage raise the estimates of later calls. */
  reservation({ asked }: PricedCall, charge: Charge): Reservation {
    return {
      get costUsd() {
        return charge.costUsd;
      },
      settle: (usage) => {
        this.#noteWrites(asked.model, usage);
        charge.settle(usage);
      },
      release: () => {
        charge.release();
      },
    };
  }

  #noteWrites(model: string, { cacheWriteTokens = 0, cacheWrite1hTokens = 0 }: Usage = {}): void {
    if (cacheWrite1hTokens > 0) this.#writers.set(model, 'cacheWrite1hTokens');
    else if (cacheWriteTokens > 0 && !this.#writers.has(model)) this.#writers.set(model, 'cacheWriteTokens');
  }

  /** Where calls of the model write to the prompt cache, this one may write all of its prompt. */
  #worst<C extends CallTokens & { readonly model: string }>(call: C): C {
    const { inputTokens, cacheReadTokens = 0, cacheWriteTokens = 0, cacheWrite1hTokens = 0 } = call;
    const way = this.#writers.get(call.model);
    if (cacheReadTokens + cacheWriteTokens + cacheWrite1hTokens > 0 || way === undefined) return call;
    return { ...call, [way]: inputTokens };
  }
}
