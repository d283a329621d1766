import { check } from '../../operators/build.js';
import type { AccountOptions as AccountLimits, LaneOptions, Limiter } from '../../operators/index.js';
import { createAccount as limiterOf } from '../../operators/index.js';
import type { CallRecord } from '../metrics/call-record.js';
import type { BudgetPort } from '../pipelines/budget/budget-types.js';
import { keepLedger, ledgerOptions } from './ledger.js';
import type { ProviderRules } from './providers.js';

export type { AccountRates, DayStart, ModelLimits } from '../../operators/index.js';

/**
 * What an account allows, and what it writes down. Plain data but for the functions.
 * @stable
 */
export interface AccountOptions extends AccountLimits {
  /**
   * What all model and embedding calls under this account may spend, made by `createBudget`: each attempt is charged before it is sent, whatever client,
   * adapter or pipeline makes it. Tools are charged by the `budget` of their runner. Its `enforce` is its own: an account with `enforce: false` still refuses what its budget has no room for. @defaultValue none
   */
  readonly budget?: BudgetPort;
  /** Called with the record of every attempt under this account when it is over. Its errors are ignored. @defaultValue none */
  readonly onRecord?: (record: CallRecord) => void;
  /** What the provider's rate limits count of a call, and when. @defaultValue by the address or the name of the provider, else `providers.other` */
  readonly provider?: ProviderRules;
}

const NAME = 'createAccount';

/**
 * One account at a provider: a limiter with slots, requests and tokens per minute and day, limits per model, lanes `user` (a person waits), `normal` and `background`, and rates
 * learned from the headers of responses; and the ledger of all calls that are made under it. Give it as `limiter` to clients, adapters and
 * pipelines: they share its limits, its `budget` and its records.
 *
 * Inside a lane, jobs with different `key`s take turns. It is `createLimiter` with values: take that one for other windows, other units, or a smaller
 * bundle.
 *
 * @stable
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range.
 * @example
 * ```ts
 * import { createAccount, createBudget } from 'sluice';
 * import { limitFetch } from 'sluice/fetch';
 *
 * const budget = createBudget({ limits: [{ usd: 20 }], prices: { small: { inputUsdPerMillion: 0.5, outputUsdPerMillion: 1.5 } } });
 * const costs: (number | null)[] = [];
 * const account = createAccount({ concurrency: 8, tokensPerMinute: 200_000, budget, onRecord: ({ costUsd }) => costs.push(costUsd) });
 *
 * const answer = { usage: { prompt_tokens: 1000, completion_tokens: 200 } };
 * const limited = limitFetch({ limiter: account, fetch: async () => Response.json(answer) });
 * const body = JSON.stringify({ model: 'small', messages: [{ role: 'user', content: 'hello' }] });
 * await (await limited('https://host/v1/chat/completions', { method: 'POST', body })).json();
 * costs; // => [0.0008]
 * ```
 */
export function createAccount(account: AccountOptions = {}): Limiter {
  check.account(NAME, account, ['budget', 'onRecord', 'provider']);
  const { budget, onRecord, provider, ...limits } = account;
  const ledger = ledgerOptions(NAME, { budget, onRecord, provider });
  const limiter = limiterOf(limits);
  keepLedger(limiter, { ...ledger, reserved: reservedAbove(limits.lanes) });
  return limiter;
}

/** By lane, what the lanes above it keep together. A reserve that no lane asks for is one of the rates alone: of a spend cap it would never come back. */
function reservedAbove(lanes: AccountLimits['lanes'] = []): ReadonlyMap<string, number> {
  const reserved = new Map<string, number>();
  let sum = 0;
  for (const lane of lanes) {
    const { name, reserve = 0 }: LaneOptions = typeof lane === 'string' ? { name: lane } : lane;
    if (sum > 0) reserved.set(name, sum);
    sum += reserve;
  }
  return reserved;
}
