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
  const used: Record<string, unknown> = { ...units };
  if (inputTokens !== undefined) used['inputTokens'] ??= inputTokens;
  if (outputTokens !== undefined) used['outputTokens'] ??= outputTokens;
  if ((inputTokens ?? outputTokens) !== undefined) used['tokens'] ??= (inputTokens ?? 0) + (outputTokens ?? 0);
  let isEmpty = true;
  for (const unit in used) {
    const amount = used[unit];
    // Only counts of tokens can be beyond all reason and still mean something.
    if (typeof amount === 'number' && amount >= 0 && (amount < Infinity || isTokenUnit(unit))) isEmpty = false;
    else delete used[unit];
  }
  return isEmpty ? undefined : (used as Amounts);
}
