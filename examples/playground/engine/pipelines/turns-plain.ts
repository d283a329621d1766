import type { Observable } from 'rxjs';
import { catchError, map, mergeMap, retry, switchMap, timer } from 'rxjs';
import type { PlainSetting } from '../plain.js';
import { promised } from '../plain.js';
import type { Item } from '../setting.js';

/** `switchMap` over an async function: model, search, model. A newer question hides the answer, and the rest is still done and paid for. */
export function recipe({ items, call, scheduler, giveUp }: PlainSetting): Observable<Item> {
  const step = (item: Item): Observable<Item[]> => call([item]).pipe(retry({ count: 2, delay: () => timer(500, scheduler) }));
  const turn = (item: Item): Observable<Item[]> =>
    promised(
      step(item).pipe(
        mergeMap(() => step({ ...item, tokens: 1 })),
        mergeMap(() => step(item)),
      ),
    );
  return items.pipe(
    switchMap((item) => turn(item).pipe(catchError(() => giveUp([item])))),
    map(([answer]) => answer as Item),
  );
}
