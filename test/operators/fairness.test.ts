import { Observable, of, VirtualTimeScheduler } from 'rxjs';
import { describe, expect, it } from 'vitest';
import type { BatchMapOptions, Fairness, LaneOptions, Lease } from '../today.js';
import { batchMap, batchMapFrom, createBatcher, createLimiter } from '../today.js';

type BatchFairness = BatchMapOptions<string>['fairness'];
const lanes: readonly LaneOptions[] = [
  { name: 'a', weight: 3 },
  { name: 'b', weight: 1 },
];
const lane = (item: string): string => item.toLowerCase();
/** Interleaved, so that the order of arrival is none of the others. */
const items = ['b', 'a', 'b', 'a', 'b', 'a', 'b', 'a', 'b', 'a', 'b', 'a', 'b', 'a', 'b', 'a'];

const expected: readonly (readonly [Fairness, string])[] = [
  [{ kind: 'strict', floor: 0 }, 'aaaaaaaabbbbbbbb'],
  ['strict', 'aaaaaaaabbbbbbbb'],
  ['wdrr', 'aaabaaabaabbbbbb'],
  ['roundRobin', 'abababababababab'],
  ['fifo', 'babababababababa'],
];

/** In a batch only the numbers of each lane count here. */
const sorted = (text: string): string => Array.from(text).sort().join('');

describe.each(expected)('under fairness %o', (fairness, order) => {
  const batches = order.match(/.{4}/g);
  // For batches, that is an option no more.
  const inBatches = fairness === 'fifo' ? 'roundRobin' : (fairness as Exclude<BatchFairness, undefined>);

  it.skipIf(fairness === 'fifo')('batchMap fills its batches', () => {
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
      .pipe(
        batchMap(work, {
          lanes,
          lane,
          fairness: inBatches,
          maxSize: 4,
          concurrency: 1,
          scheduler,
          window: { kind: 'natural' },
          burst: 'sync',
        }),
      )
      .subscribe();
    scheduler.flush();
    expect(calls[0]).toBe('a');
    // A lane with a floor rides in every second batch or so, with what it has saved up.
    if (fairness === 'strict') expect(calls.slice(1).join('').slice(0, 8)).toMatch(/^a+b?a+/);
    else expect(calls.slice(1).map(sorted)).toEqual(batches?.map(sorted));
  });

  it('batchMapFrom and createBatcher take it as well', async () => {
    const seen: string[] = [];
    const echo = (batch: readonly string[]) => of(batch);
    await batchMapFrom(items, echo, { lanes, lane, fairness: inBatches }).forEach((settled) => seen.push(settled.input));
    const batcher = createBatcher(echo, { lanes, lane, fairness: inBatches });
    seen.push(...(await Promise.all(items.map((item) => batcher.loadAsync(item)))));
    expect(seen).toHaveLength(32);
  });

  it('createLimiter grants', () => {
    const limiter = createLimiter({ concurrency: 1, lanes, fairness });
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
    expect(granted).toBe(fairness === 'strict' ? 'aaaaaaaabbbbbbbb' : order);
  });
});

describe('a newcomer', () => {
  it.each<Fairness>(['wdrr', 'roundRobin', 'fifo'])('goes past nobody who waits for the rate, under %s', (fairness) => {
    const scheduler = new VirtualTimeScheduler();
    const limiter = createLimiter({ tokensPerMinute: 600, burstSeconds: 1, headroom: 1, lanes, fairness, scheduler });
    let granted = false;
    limiter.acquire({ lane: 'b', cost: { tokens: 10 } }).subscribe();
    limiter.acquire({ lane: 'b', cost: { tokens: 10 } }).subscribe(() => (granted = true));
    expect(limiter.tryAcquire({ lane: 'a' })).toBeUndefined();
    scheduler.flush();
    expect(granted).toBe(true);
    expect(limiter.tryAcquire({ lane: 'a' })).toBeDefined();
  });
});
