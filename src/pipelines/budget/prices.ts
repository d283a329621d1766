import type { ModelPrice } from './budget-types.js';

/** What money is counted in: whole billionths of a USD, so that no sum drifts. */
const PER_USD = 1_000_000_000;
/** A price of a million tokens, in this part of a USD, is a whole number of thousandths of a billionth a token. */
const PER_PRICE_USD = 1_000_000;

/** Tokens of one call. */
export interface CallTokens {
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** Of one kind or the other. */
  readonly tokens?: number;
}

/** What a call costs, in billionths of a USD; a part of one counts as a whole. */
export function priceOf(price: ModelPrice, { inputTokens, outputTokens, tokens = 0 }: CallTokens): number {
  const { inputUsdPerMillion = 0, outputUsdPerMillion = 0, usdPerCall = 0 } = price;
  const input = Math.round(inputUsdPerMillion * PER_PRICE_USD);
  const output = Math.round(outputUsdPerMillion * PER_PRICE_USD);
  const ofTokens = inputTokens * input + outputTokens * output + tokens * Math.max(input, output);
  return Math.ceil(ofTokens / 1000) + billionths(usdPerCall);
}

export function billionths(usd: number): number {
  return Math.round(usd * PER_USD);
}

export function usdOf(amount: number): number {
  return amount / PER_USD;
}
