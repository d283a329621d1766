import type { Observable } from 'rxjs';
import { catchError, map, retry, switchMap, timer } from 'rxjs';
import type { PlainSetting } from '../plain.js';
import { promised } from '../plain.js';
import type { Item } from '../setting.js';

/** `switchMap` over a promise: the old answer is not shown, but nobody tells the provider. */
export function recipe({ items, call, scheduler, giveUp }: PlainSetting): Observable<Item> {
  return items.pipe(
    switchMap((item) => {
      const batch = [item];
      return promised(call(batch).pipe(retry({ count: 2, delay: () => timer(500, scheduler) }))).pipe(catchError(() => giveUp(batch)));
    }),
    map(([answer]) => answer as Item),
  );
}
