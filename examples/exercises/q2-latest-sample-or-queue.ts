import type { Observable } from 'rxjs';
import { defer, retry, sampleTime, scan } from 'rxjs';
import { batch, bulkheadMap, switchLatest, unwrap } from '../../operators/index.js';

/** Latest. A press moves on by one sentence, so presses are added up first: then only the newest place counts. */
export const readAloud = (
  presses: Observable<unknown>,
  read: (sentence: number, signal: AbortSignal) => Observable<string>,
): Observable<string> =>
  presses.pipe(
    scan((sentence) => sentence + 1, 0),
    switchLatest((sentence, { signal }) => read(sentence, signal)),
  );

/** Latest, at a pace. When an analysis takes longer than the pace, the newest price waits for it and older ones are passed over. */
export const analyse = (prices: Observable<number>, everyMs: number, analysis: (price: number) => Observable<string>): Observable<string> =>
  prices.pipe(
    sampleTime(everyMs),
    bulkheadMap((price) => analysis(price), { concurrency: 1, maxQueued: 1, overflow: 'latest' }),
    unwrap('values'),
  );

/** Queue. One batch after the other, each sent until it has arrived. A queue that is full is an error: nothing goes in silence. */
export const sendAudit = (
  events: Observable<string>,
  send: (lines: readonly string[]) => Observable<void>,
  maxQueuedBatches = 1000,
): Observable<void> =>
  events.pipe(
    batch({ maxSize: 100, maxWaitMs: 1000 }),
    bulkheadMap((lines) => defer(() => send(lines)).pipe(retry({ delay: 1000 })), {
      key: () => 'audit log',
      perKey: 1,
      maxQueued: maxQueuedBatches,
      overflow: 'error',
      errors: 'propagate',
    }),
  );
