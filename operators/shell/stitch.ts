import { ItemFailure } from '../kernel/machine/job.js';
import { positionsOf } from '../kernel/repair/blame.js';
import { BatchShapeError, PartialFailureError } from '../options/errors.js';
import type { BatchResult } from '../options/types.js';

/** What became of one position of a call. */
export type Outcome<R> = R | ItemFailure;

/**
 * Matches a worker's answer to the items it was given, in their order.
 *
 * @throws BatchShapeError when that cannot be done without guessing; results are never shifted to a neighbour
 */
export function stitch<R>(operator: string, answer: BatchResult<R>, ids: () => readonly string[], size: number): readonly Outcome<R>[] {
  if (Array.isArray(answer)) return fromList(operator, answer as readonly unknown[], size);
  if (isMap(answer)) return fromMap(operator, answer, ids(), size);
  if (isPartial(answer)) return fromPartial(operator, answer, ids, size);
  throw new BatchShapeError(
    operator,
    size,
    0,
    'expected the work to answer an array, a Map, { failed, values } or a list of settled results',
  );
}

function fromList<R>(operator: string, list: readonly unknown[], size: number): readonly Outcome<R>[] {
  if (list.length !== size) throw new BatchShapeError(operator, size, list.length);
  if (size > 0 && list.every(isSettled)) {
    return (list as readonly PromiseSettledResult<R>[]).map((result) =>
      result.status === 'fulfilled' ? result.value : new ItemFailure(result.reason),
    );
  }
  return list.some((entry) => entry instanceof Error)
    ? Array.from(list, (entry) => (entry instanceof Error ? new ItemFailure(entry) : (entry as R)))
    : (list as readonly R[]);
}

function fromMap<R>(operator: string, map: ReadonlyMap<string, R>, ids: readonly string[], size: number): Outcome<R>[] {
  const wanted = new Set(ids);
  if (wanted.size !== ids.length)
    throw new BatchShapeError(operator, size, map.size, 'two items of the batch have the same id, so results by id cannot be matched');
  for (const id of map.keys()) {
    if (!wanted.has(id)) throw new BatchShapeError(operator, size, map.size, 'the work answered with an id that was not in the batch');
  }
  return ids.map((id) =>
    map.has(id)
      ? (map.get(id) as R)
      : new ItemFailure(new BatchShapeError(operator, size, map.size, 'the work answered without a result for this item')),
  );
}

function fromPartial<R>(
  operator: string,
  { failed, values }: { readonly failed: readonly (string | number)[]; readonly values: readonly R[] },
  ids: () => readonly string[],
  size: number,
): Outcome<R>[] {
  const positions = new Set(positionsOf(failed, ids, size));
  if (positions.size !== failed.length || positions.has(-1)) {
    throw new BatchShapeError(
      operator,
      size,
      values.length,
      'the work reported a failed item that is unknown, named twice, or has an id that others in the batch have as well',
    );
  }
  if (positions.size + values.length !== size) throw new BatchShapeError(operator, size, positions.size + values.length);
  let next = 0;
  return Array.from(
    { length: size },
    (_, i): Outcome<R> =>
      positions.has(i) ? new ItemFailure(new PartialFailureError(operator, positions.size, values.length)) : (values[next++] as R),
  );
}

function isSettled(entry: unknown): boolean {
  if (typeof entry !== 'object' || entry === null || !('status' in entry)) return false;
  return (entry.status === 'fulfilled' && 'value' in entry) || (entry.status === 'rejected' && 'reason' in entry);
}

function isMap(answer: unknown): answer is ReadonlyMap<string, never> {
  return (
    typeof answer === 'object' &&
    answer !== null &&
    typeof (answer as Map<string, never>).get === 'function' &&
    typeof (answer as Map<string, never>).has === 'function' &&
    typeof (answer as Map<string, never>).keys === 'function'
  );
}

function isPartial(answer: unknown): answer is { failed: readonly (string | number)[]; values: readonly never[] } {
  return (
    typeof answer === 'object' &&
    answer !== null &&
    Array.isArray((answer as { failed?: unknown }).failed) &&
    Array.isArray((answer as { values?: unknown }).values)
  );
}
