import { map, timer } from 'rxjs';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { BatchWork, LoadOptions } from '../../operators/index.js';
import { createBatcher, lanes } from '../../operators/index.js';

/** One call at a time of two items each; `queue` has a key of the items' own, their first letter. */
function pairs() {
  const calls: string[] = [];
  const work: BatchWork<string, string> = (items) => {
    calls.push(items.join(' '));
    return timer(10).pipe(map(() => items));
  };
  const queue = lanes([{ name: 'only' }], { key: (item: string) => item[0] });
  const batcher = createBatcher(work, { queue, maxSize: 2, concurrency: 1 });
  const load = (names: string, options?: LoadOptions) => names.split(' ').map((name) => batcher.loadAsync(name, options));
  return { calls, load };
}

describe('keys of loads', () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it('take turns in a lane, by the key of the load before that of the item', async () => {
    const { calls, load } = pairs();
    const all = [...load('first'), ...load('a1 a2 a3 a4', { key: 'A' }), ...load('a5 a6', { key: 'B' }), ...load('c1')];
    await vi.advanceTimersByTimeAsync(100);
    expect(calls).toEqual(['first a1', 'a2 a5', 'c1 a3', 'a6 a4']);
    expect(await Promise.all(all)).toHaveLength(8);
  });

  it('need a queue that has keys', () => {
    const queue = lanes([{ name: 'only' }]);
    for (const options of [{}, { queue }])
      expect(() => createBatcher((items: readonly string[]) => [items], options).load('a', { key: 'A' })).toThrow(
        'createBatcher: `key` needs a queue with keys. Use `queue: lanes([…], { key: … })`, or remove `key`.',
      );
  });
});
