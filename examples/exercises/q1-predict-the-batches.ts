import type { Observable } from 'rxjs';
import { buffer, bufferCount, bufferTime, debounceTime, share } from 'rxjs';
import { batch } from '../../operators/index.js';

/** A batch every 50 ms. The windows begin with the subscription, not with an item. */
export const byTime = <T>(source: Observable<T>): Observable<T[]> => source.pipe(bufferTime(50));

/** A batch of every two. */
export const byCount = <T>(source: Observable<T>): Observable<T[]> => source.pipe(bufferCount(2));

/** A batch when nothing came for 30 ms. The source is asked for twice here, so it has to be shared. */
export function bySilence<T>(source: Observable<T>): Observable<T[]> {
  const shared = source.pipe(share());
  return shared.pipe(buffer(shared.pipe(debounceTime(30))));
}

/** A batch when its first item is 50 ms old. */
export const byAge = <T>(source: Observable<T>): Observable<T[]> => source.pipe(batch({ maxWaitMs: 50 }));
