import type { Observable } from 'rxjs';
import type { Settled } from '../../../../operators/index.js';
import {
  batchMap,
  createLimiter,
  graded,
  lanes,
  perMinute,
  robust,
  roundRobin,
  strictWithFloor,
  weighted,
} from '../../../../operators/index.js';
import type { Item, Setting } from '../setting.js';
import { LANES, MAX_TOKENS } from '../setting.js';

const FAIRNESS = { strict: strictWithFloor, weighted, roundRobin };

/** Batches that are formed when they can leave, urgent lanes first, under the limits of one account; what fails is taken apart. */
export function flow({ scenario, items, call, scheduler, random, onEvent }: Setting): Observable<Settled<Item, Item>> {
  const { concurrency, requestsPerMinute, tokensPerMinute, windowMs, maxSize, fairness } = scenario;
  const rates = [perMinute('requests', requestsPerMinute), perMinute('tokens', tokensPerMinute)];
  const account = createLimiter({
    concurrency,
    rates,
    queue: lanes(LANES.map((name) => ({ name }))),
    scheduler,
    random,
    onEvent,
    name: 'account',
  });
  return items.pipe(
    batchMap(call, {
      name: 'sluice',
      limiter: account,
      maxSize,
      maxWeight: MAX_TOKENS,
      weigh: (item) => item.tokens,
      window: graded(windowMs),
      queue: lanes(
        LANES.map((name, i) => ({ name, share: 4 - i })),
        { by: (item) => item.lane, fairness: FAIRNESS[fairness]() },
      ),
      repair: robust(),
      scheduler,
      random,
      onEvent,
    }),
  );
}
