import type { Observable } from 'rxjs';
import { catchError, map, mergeMap } from 'rxjs';
import type { PlainSetting } from '../plain.js';
import type { Item } from '../setting.js';

/** So many calls at a time, whosever they are. */
export function recipe({ scenario, items, call, giveUp }: PlainSetting): Observable<Item> {
  return items.pipe(
    mergeMap((item) => {
      const batch = [item];
      return call(batch).pipe(catchError(() => giveUp(batch)));
    }, scenario.concurrency),
    map(([answer]) => answer as Item),
  );
}
