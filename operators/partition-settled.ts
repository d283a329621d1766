import { FlowConfigError } from './options/errors.js';

/**
 * Parts a list of settled results into successes and failures, each in the order of the list.
 *
 * Takes what `settleAll` emits, what `toArray()` makes of `batchMap` or `bulkheadMap`, and what `Promise.allSettled` answers.
 *
 * @stable
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) when `results` is not an array of settled results.
 * @example
 * ```ts
 * import { partitionSettled, settleAll } from 'sluice/operators';
 *
 * const seen: unknown[] = [];
 * const half = async (n: number) => {
 *   if (n % 2 === 1) throw new Error(`${n} is odd`);
 *   return n / 2;
 * };
 * await settleAll([4, 5, 6], half).forEach((results) => {
 *   const { fulfilled, rejected } = partitionSettled(results);
 *   seen.push(fulfilled.map(({ value }) => value), rejected.map(({ input }) => input));
 * });
 * seen; // => [[2, 3], [5]]
 * ```
 * @see {@link unwrap} for a stream of results.
 */
export function partitionSettled<S extends { readonly status: 'fulfilled' | 'rejected' }>(
  results: readonly S[],
): { fulfilled: Extract<S, { readonly status: 'fulfilled' }>[]; rejected: Extract<S, { readonly status: 'rejected' }>[] } {
  const parts: Record<'fulfilled' | 'rejected', S[]> = { fulfilled: [], rejected: [] };
  // Not `filter`: it leaves out holes.
  for (const result of Array.isArray(results) ? (results as readonly S[]) : [undefined]) {
    const part = parts[(Object(result) as S).status] as unknown;
    if (!Array.isArray(part)) throw new FlowConfigError('partitionSettled', 'results', 'an array of settled results', results);
    part.push(result);
  }
  return parts as ReturnType<typeof partitionSettled<S>>;
}
