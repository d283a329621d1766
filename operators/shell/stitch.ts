import { ItemFailure } from '../kernel/machine/job.js';
import { BatchShapeError } from '../options/errors.js';
import type { BatchResult } from '../options/types.js';

/** What became of one position of a call. */
export type Outcome<R> = R | ItemFailure;

/** Says what of an answer does not fit; `received` is how many results there are. */
type Misfit = (received: number, problem?: string) => BatchShapeError;

/**
 * Matches a worker's answer to the items it was given, in their order.
 *
 * @throws BatchShapeError when that cannot be done without guessing; results are never shifted to a neighbour
 */
export function stitch<R>(operator: string, answer: BatchResult<R>, ids: () => readonly string[], size: number): readonly Outcome<R>[] {
  const misfit: Misfit = (received, problem) => new BatchShapeError(operator, size, received, problem);
  if (Array.isArray(answer)) {
    if (answer.length === size) return ofList<R>(answer as readonly unknown[]);
    throw misfit(answer.length);
  }
  const { get, has, keys } = Object(answer) as Readonly<Record<string, unknown>>;
  if (typeof get === 'function' && typeof has === 'function' && typeof keys === 'function') {
    return ofMap(answer as ReadonlyMap<string, R>, ids(), misfit);
  }
  throw misfit(0, 'expected the work to answer an array, a Map or a list of settled results');
}

function ofList<R>(list: readonly unknown[]): readonly Outcome<R>[] {
  if (list.length > 0 && list.every(isSettled)) {
    return (list as readonly PromiseSettledResult<R>[]).map((result) =>
      result.status === 'fulfilled' ? result.value : new ItemFailure(result.reason),
    );
  }
  const isError = (entry: unknown): boolean => entry instanceof Error;
  return list.some(isError)
    ? Array.from(list, (entry) => (isError(entry) ? new ItemFailure(entry) : (entry as R)))
    : (list as readonly R[]);
}

function ofMap<R>(map: ReadonlyMap<string, R>, ids: readonly string[], misfit: Misfit): Outcome<R>[] {
  const wanted = new Set(ids);
  if (wanted.size !== ids.length) throw misfit(map.size, 'two items of the batch have the same id, so results by id cannot be matched');
  for (const id of map.keys()) if (!wanted.has(id)) throw misfit(map.size, 'the work answered with an id that was not in the batch');
  return ids.map((id) =>
    map.has(id) ? (map.get(id) as R) : new ItemFailure(misfit(map.size, 'the work answered without a result for this item')),
  );
}

function isSettled(entry: unknown): boolean {
  if (typeof entry !== 'object' || entry === null || !('status' in entry)) return false;
  return (entry.status === 'fulfilled' && 'value' in entry) || (entry.status === 'rejected' && 'reason' in entry);
}
