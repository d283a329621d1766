import type { Observable } from 'rxjs';
import { map, scan } from 'rxjs';
import type { BatchWork, Settled } from '../../operators/index.js';
import { batch, batchMap, fixed } from '../../operators/index.js';

export type CountTokens = (text: string) => number;

/** At most 20 texts and 8192 tokens, and no text waits longer than 100 ms. A text above 8192 tokens goes alone. */
export const smartBatches = (texts: Observable<string>, countTokens: CountTokens): Observable<string[]> =>
  texts.pipe(batch({ maxSize: 20, maxWeight: 8192, weigh: countTokens, maxWaitMs: 100 }));

/** The same limits with the calls made: batches go on growing while all four slots are busy, so there are fewer calls under load. */
export const smartCalls = (
  texts: Observable<string>,
  countTokens: CountTokens,
  embed: BatchWork<string, number[]>,
): Observable<Settled<string, number[]>> =>
  texts.pipe(batchMap(embed, { maxSize: 20, maxWeight: 8192, weigh: countTokens, window: fixed(100), concurrency: 4 }));

interface State {
  readonly open: readonly string[];
  readonly tokens: number;
  readonly sent?: readonly string[];
}

/** What the hint says when it is taken at its word. `scan` answers to items only, so it cannot send when the 100 ms are over. */
export const batchesWithScan = (texts: Observable<string>, countTokens: CountTokens): Observable<readonly string[]> =>
  texts.pipe(
    scan(
      ({ open, tokens }: State, text): State => {
        const weight = countTokens(text);
        const isFull = tokens + weight > 8192 || open.length + 1 >= 20;
        return isFull ? { open: [text], tokens: weight, sent: open } : { open: [...open, text], tokens: tokens + weight };
      },
      { open: [], tokens: 0 },
    ),
    map(({ sent }) => sent ?? []),
  );
