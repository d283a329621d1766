import type { Observable } from 'rxjs';
import type { Settled } from '../../../../operators/index.js';
import { createAccount, createBatcher, lanes, natural, retryFailed, switchLatest } from '../../../../operators/index.js';
import type { Item, Setting } from '../setting.js';
import { LANES } from '../setting.js';

/** The newest question is answered; the call for the one before is aborted at the provider. */
export function flow({ scenario, items, call, scheduler, random, onEvent }: Setting): Observable<Settled<Item, Item>> {
  const { concurrency, requestsPerMinute, tokensPerMinute } = scenario;
  const account = createAccount({ concurrency, requestsPerMinute, tokensPerMinute, scheduler, random, onEvent, name: 'account' });
  const model = createBatcher(call, {
    name: 'model',
    limiter: account,
    maxSize: 1,
    weigh: (item) => item.tokens,
    window: natural(),
    queue: lanes(LANES.map((name) => ({ name }))),
    repair: retryFailed(),
    scheduler,
    random,
    onEvent,
  });
  return items.pipe(switchLatest((item) => model.load(item, { lane: item.lane }), { errors: 'settle', scheduler }));
}
