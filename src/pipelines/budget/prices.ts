import type { ModelPrice } from './budget-types.js';

/** What money is counted in: whole billionths of a USD, so that no sum drifts. */
const PER_USD = 1_000_000_000;
/** A price of a million tokens, in this part of a USD, is a whole number of thousandths of a billionth a token. */
const PER_PRICE_USD = 1_000_000;

/** Tokens of one call. Those of the prompt cache are part of `inputTokens`. */
export interface CallTokens {
  readonly inputTokens: number;
  readonly cacheReadTokens?: number;
  readonly cacheWriteTokens?: number;
  readonly cacheWrite1hTokens?: number;
  readonly outputTokens: number;
  /** Of one kind or the other. */
  readonly tokens?: number;
}

/** Where a price does not say what writing to the prompt cache costs: as much as the dearest provider takes, so that a limit never falls short. */
const UNKNOWN_WRITE = 2;

/** What a call costs, in billionths of a USD; a part of one counts as a whole. */
export function priceOf(price: ModelPrice, call: CallTokens): number {
  const { inputUsdPerMillion = 0, outputUsdPerMillion = 0, usdPerCall = 0 } = price;
  const { cacheReadUsdPerMillion = inputUsdPerMillion, cacheWriteUsdPerMillion = inputUsdPerMillion * UNKNOWN_WRITE } = price;
  const { cacheWrite1hUsdPerMillion = Math.max(cacheWriteUsdPerMillion, inputUsdPerMillion * UNKNOWN_WRITE) } = price;
  const { inputTokens, cacheReadTokens = 0, cacheWriteTokens = 0, cacheWrite1hTokens = 0, outputTokens, tokens = 0 } = call;
  const kinds = [
    [Math.max(0, inputTokens - cacheReadTokens - cacheWriteTokens - cacheWrite1hTokens), inputUsdPerMillion],
    [cacheReadTokens, cacheReadUsdPerMillion],
    [cacheWriteTokens, cacheWriteUsdPerMillion],
    [cacheWrite1hTokens, cacheWrite1hUsdPerMillion],
    [outputTokens, outputUsdPerMillion],
    [tokens, Math.max(inputUsdPerMillion, outputUsdPerMillion)],
  ] as const;
  const ofTokens = kinds.reduce((sum, [count, usdPerMillion]) => sum + count * Math.round(usdPerMillion * PER_PRICE_USD), 0);
  return Math.ceil(ofTokens / 1000) + billionths(usdPerCall);
}

export function billionths(usd: number): number {
  return Math.round(usd * PER_USD);
}

export function usdOf(amount: number): number {
  return amount / PER_USD;
}
