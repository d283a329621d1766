import type { Observable } from 'rxjs';
import { mergeMap } from 'rxjs';
import type { Settled } from '../../operators/index.js';
import { bulkheadMap } from '../../operators/index.js';

/** One block at a time. The first block that fails ends all, those in the queue included; the queue has no bound. */
export const withMergeMap = (blocks: Observable<string>, execute: (block: string) => Observable<string>): Observable<string> =>
  blocks.pipe(mergeMap((block) => execute(block), 1));

/** One block at a time, a result for each of them, at most 100 in the queue, and none longer than 30 s. */
export const withBulkhead = (
  blocks: Observable<string>,
  execute: (block: string, signal: AbortSignal) => Observable<string>,
): Observable<Settled<string, string | undefined>> =>
  blocks.pipe(bulkheadMap((block, { signal }) => execute(block, signal), { concurrency: 1, maxQueued: 100, timeoutMs: 30_000 }));
