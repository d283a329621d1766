import { keptLedger } from '../../src/account/ledger.js';
import type { AccountOptions, ModelCaller, ModelCallerOptions } from '../../src/index.js';
import { createAccount, createModelCaller } from '../../src/index.js';

type Rates = Pick<AccountOptions, 'requestsPerMinute' | 'tokensPerMinute'>;

/** A model caller under an account of its own, unless it is given a limiter: its slots, lanes and rates are the account's. */
export function accountedCaller<Q, R, C = never, P = R>(options: ModelCallerOptions<Q, R, C, P> & Rates): ModelCaller<Q, P, C> {
  const { concurrency = 4, maxQueued, lanes, requestsPerMinute, tokensPerMinute, limiter, ...rest } = options;
  if (limiter) {
    const { onRecord, ...others } = options;
    return createModelCaller(keptLedger(limiter) ? options : (others as typeof options));
  }
  const limits = Object.entries({ maxQueued, lanes, requestsPerMinute, tokensPerMinute }).filter(([, limit]) => limit !== undefined);
  const account = createAccount({ concurrency, ...Object.fromEntries(limits) });
  return createModelCaller({ ...rest, limiter: account });
}
