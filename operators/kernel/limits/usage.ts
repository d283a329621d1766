import { isTokenUnit } from './limit.js';

/** Amounts by unit. */
export type Amounts = Readonly<Record<string, number>>;

/** What is known of a usage: see `Usage`. */
export interface UsageLike {
  readonly inputTokens?: number;
  readonly outputTokens?: number;
  readonly units?: Readonly<Record<string, number>>;
}

/**
 * What a usage counts by unit; undefined when it says nothing. A provider may report anything: what is no number, or is negative, is left out.
 */
export function usedOf(usage: unknown): Amounts | undefined {
  const { inputTokens, outputTokens, units } = Object(usage) as UsageLike;
  const said: Record<string, unknown> = { ...units };
  if (inputTokens !== undefined) said['inputTokens'] ??= inputTokens;
  if (outputTokens !== undefined) said['outputTokens'] ??= outputTokens;
  if ((inputTokens ?? outputTokens) !== undefined) said['tokens'] ??= (inputTokens ?? 0) + (outputTokens ?? 0);
  let used: Record<string, number> | undefined;
  for (const unit of Object.keys(said)) {
    const amount = said[unit];
    // Only counts of tokens can be beyond all reason and still mean something.
    if (typeof amount === 'number' && amount >= 0 && (amount < Infinity || isTokenUnit(unit))) (used ??= {})[unit] = amount;
  }
  return used;
}
