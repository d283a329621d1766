import type { Observable } from 'rxjs';
import type { Settled } from '../../../../operators/index.js';
import { createBatcher, createLimiter, lanes, natural, perMinute, retryFailed, switchLatest } from '../../../../operators/index.js';
import type { Item, Setting } from '../setting.js';
import { LANES } from '../setting.js';

/** The newest question is answered; the call for the one before is aborted at the provider. */
export function flow({ scenario, items, call, scheduler, random, onEvent }: Setting): Observable<Settled<Item, Item>> {
  const { concurrency, requestsPerMinute, tokensPerMinute } = scenario;
  const queue = lanes(LANES.map((name) => ({ name })));
  const rates = [perMinute('requests', requestsPerMinute), perMinute('tokens', tokensPerMinute)];
  const account = createLimiter({ concurrency, rates, queue, scheduler, random, onEvent, name: 'account' });
  const model = createBatcher(call, {
    name: 'model',
    limiter: account,
    maxSize: 1,
    weigh: (item) => item.tokens,
    window: natural(),
    queue,
    repair: retryFailed(),
    scheduler,
    random,
    onEvent,
  });
  return items.pipe(switchLatest((item) => model.load(item, { lane: item.lane }), { errors: 'settle', scheduler }));
}
