import { from, lastValueFrom, mergeMap, of, toArray } from 'rxjs';
import { describe, expect, it } from 'vitest';
import type { LimiterJob } from '../../operators/index.js';
import { batchMap, bulkheadMap, createLimiter, lanes, strictWithFloor } from '../../operators/index.js';

/** As docs/values.md says it: 0 to 10, 0 first. */
const priorities = Array.from({ length: 11 }, (_, priority) => String(priority));

interface Item {
  readonly priority: number;
  readonly n: number;
}

/** Each priority so often, the least urgent first. */
const items = (each: number): Item[] => Array.from({ length: 11 * each }, (_, n) => ({ priority: 10 - Math.floor(n / each), n }));

/** How often each priority went, in the first turns. */
function counts(order: readonly number[], turns: number): number[] {
  return priorities.map((_, priority) => order.slice(1, turns + 1).filter((each) => each === priority).length);
}

const ways = {
  'jobs of a limiter': async (all: readonly Item[], floor?: number) => {
    const queue = lanes<LimiterJob>(priorities, { fairness: strictWithFloor(floor) });
    const limiter = createLimiter({ concurrency: 1, queue });
    const order: number[] = [];
    await Promise.all(all.map(({ priority }) => limiter.runAsync(async () => order.push(priority), { lane: String(priority) })));
    return order;
  },
  'items of batchMap': async (all: readonly Item[], floor?: number) => {
    const queue = lanes(priorities, { by: ({ priority }: Item) => String(priority), fairness: strictWithFloor(floor) });
    const order: number[] = [];
    const work = async (batch: readonly Item[]) => {
      order.push(...batch.map(({ priority }) => priority));
      return batch;
    };
    await lastValueFrom(from(all).pipe(batchMap(work, { queue, maxSize: 1, concurrency: 1 }), toArray()));
    return order;
  },
  'items of bulkheadMap, under a limiter': async (all: readonly Item[], floor?: number) => {
    const queue = lanes<LimiterJob>(priorities, { fairness: strictWithFloor(floor) });
    const limiter = createLimiter({ concurrency: 1, queue });
    const order: number[] = [];
    const project = ({ priority }: Item) => limiter.run(async () => order.push(priority), { lane: String(priority) });
    await lastValueFrom(from(all).pipe(bulkheadMap(project, { concurrency: Infinity }), toArray()));
    return order;
  },
};

describe.each(Object.entries(ways))('priorities 0 to 10: %s', (_what, ordered) => {
  it('goes by number, and by arrival among equals, in a strict order', async () => {
    const order = await ordered(items(3), 0);
    expect(order).toEqual([10, ...[...order.slice(1)].sort((one, other) => one - other)]);
  });

  it('leaves each number a twentieth of the turns while all wait, and the first one half', async () => {
    const turns = 200;
    const got = counts(await ordered(items(turns)), turns);
    expect(got.slice(1).every((count) => count >= turns / 20 - 1)).toBe(true);
    expect(got[0]).toBeGreaterThanOrEqual(turns / 2 - 10);
    expect(got.reduce((sum, count) => sum + count)).toBe(turns);
  });
});

it('rejects an item whose priority has no lane, and no other', async () => {
  const queue = lanes(priorities, { by: ({ priority }: Item) => String(priority) });
  const all = [
    { priority: 11, n: 0 },
    { priority: 2.5, n: 1 },
    { priority: 0, n: 2 },
  ];
  const results = await lastValueFrom(
    from(all).pipe(
      batchMap((batch: readonly Item[]) => of(batch), { queue }),
      toArray(),
    ),
  );
  const codes = results.map((result) => (result.status === 'rejected' ? (result.reason as { code: string }).code : result.value.n));
  expect(codes.sort()).toEqual([2, 'FLOW_LANE_UNKNOWN', 'FLOW_LANE_UNKNOWN']);
});

it('is changed for a job that waits', async () => {
  const limiter = createLimiter({ concurrency: 1, queue: lanes<LimiterJob>(priorities) });
  const served: string[] = [];
  const ask = (id: string, lane: string) => limiter.run(async () => served.push(id), { id, lane });
  const asked = lastValueFrom(of(['a', '0'], ['b', '5'], ['c', '9']).pipe(mergeMap(([id, lane]) => ask(id!, lane!))));
  limiter.move('c', '1');
  await asked;
  expect(served).toEqual(['a', 'c', 'b']);
});
