import type { Observable } from 'rxjs';
import { bufferTime, catchError, filter, mergeMap, retry, timer } from 'rxjs';
import type { PlainSetting } from '../plain.js';
import type { Item } from '../setting.js';

/** A window, so many calls at a time, the whole batch again when it fails. */
export function recipe({ scenario, items, call, scheduler, giveUp }: PlainSetting): Observable<Item> {
  const { windowMs, maxSize, concurrency } = scenario;
  return items.pipe(
    bufferTime(windowMs, null, maxSize, scheduler),
    filter((batch) => batch.length > 0),
    mergeMap(
      (batch) =>
        call(batch).pipe(
          retry({ count: 2, delay: () => timer(500, scheduler) }),
          catchError(() => giveUp(batch)),
        ),
      concurrency,
    ),
    mergeMap((answers) => answers),
  );
}
