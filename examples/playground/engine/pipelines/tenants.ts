import type { Observable } from 'rxjs';
import { map } from 'rxjs';
import type { FlowEvent, Settled } from '../../../../operators/index.js';
import { bulkheadMap } from '../../../../operators/index.js';
import type { Item, Setting } from '../setting.js';

/** So many calls at a time for all tenants, and half of them at most for one. */
export function flow({ scenario, items, call, scheduler, onEvent }: Setting): Observable<Settled<Item, Item>> {
  const { concurrency } = scenario;
  const tenants = new Map<number | undefined, string>();
  // Events never name a key. Whose an item is, we know by its number.
  const byTenant = (event: FlowEvent): void => {
    const lane = tenants.get(event.seq);
    onEvent(lane === undefined ? event : ({ ...event, lane } as FlowEvent));
    if (event.type === 'settled') tenants.delete(event.seq);
  };
  return items.pipe(
    bulkheadMap((item, { signal }) => call([item], { signal }).pipe(map(([answer]) => answer as Item)), {
      name: 'sluice',
      concurrency,
      key: (item) => {
        tenants.set(item.index, item.lane);
        return item.lane;
      },
      perKey: Math.max(1, Math.floor(concurrency / 2)),
      scheduler,
      onEvent: byTenant,
    }),
  );
}
