import type { Observable } from 'rxjs';
import { map } from 'rxjs';
import type { FlowEvent, Settled } from '../../../../operators/index.js';
import { bulkheadMap } from '../../../../operators/index.js';
import type { Item, Setting } from '../setting.js';

/** So many calls at a time for all tenants, and half of them at most for one. */
export function flow({ scenario, items, call, scheduler, onEvent }: Setting): Observable<Settled<Item, Item>> {
  const { concurrency } = scenario;
  const started = new Map<number | undefined, Item>();
  // Events never name a key. Whose an item is, and what it weighs, we know by its number.
  const byTenant = (event: FlowEvent): void => {
    const item = started.get(event.seq);
    onEvent(item === undefined ? event : ({ ...event, lane: item.lane, ...('weight' in event && { weight: item.tokens }) } as FlowEvent));
    if (event.type === 'settled') started.delete(event.seq);
  };
  return items.pipe(
    bulkheadMap((item, { signal }) => call([item], { signal }).pipe(map(([answer]) => answer as Item)), {
      name: 'sluice',
      concurrency,
      key: (item) => {
        started.set(item.index, item);
        return item.lane;
      },
      perKey: Math.max(1, Math.floor(concurrency / 2)),
      scheduler,
      onEvent: byTenant,
    }),
  );
}
