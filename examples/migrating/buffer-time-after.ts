import type { Observable } from 'rxjs';
import type { BatchWork, FlowSink, Settled } from '../../operators/index.js';
import { batchMap, fixed, robust } from '../../operators/index.js';

export const embedAll = (
  texts: Observable<string>,
  embed: BatchWork<string, number>,
  onEvent?: FlowSink,
): Observable<Settled<string, number>> =>
  texts.pipe(
    batchMap(embed, {
      maxSize: 20,
      window: fixed(50),
      concurrency: 4,
      repair: robust(),
      onSourceError: 'drain',
      ...(onEvent && { onEvent }),
    }),
  );
