import { Observable, of, VirtualTimeScheduler } from 'rxjs';
import { describe, expect, it } from 'vitest';
import type { LanesOptions, Lease, QueueRule } from '../../operators/index.js';
import {
  batchMap,
  batchMapFrom,
  createBatcher,
  createLimiter,
  lanes,
  natural,
  perMinute,
  roundRobin,
  strictWithFloor,
  weighted,
} from '../../operators/index.js';
import { atOnce } from '../support/at-once.js';

type Fairness = NonNullable<LanesOptions<unknown>['fairness']>;
/** Two lanes under this fairness, or one line for all. */
function queued<T>(fairness: Fairness | undefined, by?: (item: T) => string): { readonly queue?: QueueRule<T> } {
  const shares = [
    { name: 'a', share: 3 },
    { name: 'b', share: 1 },
  ];
  return fairness ? { queue: lanes(shares, { fairness, ...(by && { by }) }) } : {};
}
const lane = (item: string): string => item.toLowerCase();
/** Interleaved, so that the order of arrival differs from all the others. */
const items = ['b', 'a', 'b', 'a', 'b', 'a', 'b', 'a', 'b', 'a', 'b', 'a', 'b', 'a', 'b', 'a'];

const expected: readonly (readonly [string, Fairness | undefined, string])[] = [
  ['strictWithFloor(0)', strictWithFloor(0), 'aaaaaaaabbbbbbbb'],
  ['strictWithFloor()', strictWithFloor(), 'aaaaaaaabbbbbbbb'],
  ['weighted()', weighted(), 'aaabaaabaabbbbbb'],
  ['roundRobin()', roundRobin(), 'abababababababab'],
  ['one line', undefined, 'babababababababa'],
];

/** In a batch only the numbers of each lane count here. */
const sorted = (text: string): string => Array.from(text).sort().join('');

describe.each(expected)('under %s', (name, fairness, order) => {
  const batches = order.match(/.{4}/g);

  it('batchMap fills its batches', () => {
    const calls: string[] = [];
    const scheduler = new VirtualTimeScheduler();
    const work = (batch: readonly string[]): Observable<readonly string[]> => {
      calls.push(batch.join(''));
      return new Observable((to) =>
        scheduler.schedule(() => {
          to.next(batch);
          to.complete();
        }, 10),
      );
    };
    // The first call takes the only slot; behind it everything queues up.
    of('a', ...items)
      .pipe(batchMap(work, { ...queued(fairness, lane), maxSize: 4, concurrency: 1, scheduler: atOnce(scheduler), window: natural() }))
      .subscribe();
    scheduler.flush();
    expect(calls[0]).toBe('a');
    // A lane with a floor rides in every second batch or so, with what it has saved up.
    if (name === 'strictWithFloor()') expect(calls.slice(1).join('').slice(0, 8)).toMatch(/^a+b?a+/);
    else expect(calls.slice(1).map(sorted)).toEqual(batches?.map(sorted));
  });

  it('batchMapFrom and createBatcher take it as well', async () => {
    const seen: string[] = [];
    const echo = (batch: readonly string[]) => of(batch);
    await batchMapFrom(items, echo, queued(fairness, lane)).forEach((settled) => seen.push(settled.input));
    const batcher = createBatcher(echo, queued(fairness, lane));
    seen.push(...(await Promise.all(items.map((item) => batcher.loadAsync(item)))));
    expect(seen).toHaveLength(32);
  });

  it('createLimiter grants', () => {
    const limiter = createLimiter({ concurrency: 1, ...queued(fairness) });
    const first = limiter.tryAcquire({ lane: 'a' });
    let granted = '';
    const leases: Lease[] = [];
    for (const item of items)
      limiter.acquire({ lane: item }).subscribe((lease) => {
        granted += item;
        leases.push(lease);
      });
    first?.release();
    for (let lease = leases.shift(); lease; lease = leases.shift()) lease.release();
    // With single grants the first ten of lane a outlast what lane b has saved up at a tenth.
    expect(granted).toBe(order);
  });
});

describe('a newcomer', () => {
  it.each(expected.slice(2))('overtakes no job that waits for the rate, under %s', (_name, fairness) => {
    const scheduler = new VirtualTimeScheduler();
    const limiter = createLimiter({ rates: [perMinute('tokens', 600, { burst: 10 })], headroom: 1, ...queued(fairness), scheduler });
    let granted = false;
    limiter.acquire({ lane: 'b', cost: { tokens: 10 } }).subscribe();
    limiter.acquire({ lane: 'b', cost: { tokens: 10 } }).subscribe(() => (granted = true));
    expect(limiter.tryAcquire({ lane: 'a' })).toBeUndefined();
    scheduler.flush();
    expect(granted).toBe(true);
    expect(limiter.tryAcquire({ lane: 'a' })).toBeDefined();
  });
});
