import { queryObjects } from 'node:v8';
import { from, lastValueFrom, VirtualTimeScheduler } from 'rxjs';
import { describe, expect, it } from 'vitest';
import type { Batcher } from '../../operators/index.js';
import { batchMap, bulkheadMap, createBatcher, createLimiter, lruCache } from '../../operators/index.js';
import { countAlive } from '../kernel/garbage.js';

/** Does some work, and says what that is told of itself. */
const uses: Readonly<Record<string, (work: (told: object) => unknown) => Promise<unknown>>> = {
  batchMap: (work) => lastValueFrom(from([1, 2, 3]).pipe(batchMap((items, told) => (work(told), [...items])))),
  bulkheadMap: (work) => lastValueFrom(from([1, 2, 3]).pipe(bulkheadMap((_item, told) => work(told)))),
  createBatcher: (work) => createBatcher((items: readonly number[], told) => (work(told), [...items])).loadAsync(1),
  createLimiter: (work) => createLimiter({ concurrency: 1 }).runAsync((told) => work(told)),
};

describe.each(Object.keys(uses))('%s', (name) => {
  it('keeps nothing of what it makes for calls when all are over', async () => {
    const use = async (): Promise<new () => object> => {
      let kind: unknown;
      await uses[name]!((told) => (kind = told.constructor));
      return kind as new () => object;
    };
    const kind = await use();
    const alive = (): number => Number(queryObjects(kind));
    for (let times = 0; times < 20; times++) await use();
    expect(alive()).toBe(0);
  });
});

/** What is asked of one that is dropped afterwards: an answer, or a failure. */
const asks: Readonly<Record<string, (answer: () => object) => Promise<unknown>>> = {
  loadAsync: (answer) => createBatcher(() => Promise.resolve([answer()])).loadAsync(1),
  'loadAsync with a signal': (answer) =>
    createBatcher(() => Promise.resolve([answer()])).loadAsync(1, { signal: new AbortController().signal }),
  'loadAsync that is shared': (answer) => createBatcher(() => Promise.resolve([answer()]), { dedupe: () => 1 }).loadAsync(1),
  'loadAsync that fails': (answer) => createBatcher(() => Promise.reject(answer() as Error)).loadAsync(1),
  loadManyAsync: (answer) => createBatcher(() => Promise.resolve([answer()])).loadManyAsync([1]),
  runAsync: (answer) => createLimiter().runAsync(() => Promise.resolve(answer())),
  wrap: (answer) => createLimiter().wrap(() => Promise.resolve(answer()))(),
};

it.each(Object.entries(asks))('%s keeps nothing of its last answer', async (_, ask) => {
  const refs: WeakRef<object>[] = [];
  const answer = (): object => {
    const made = new Error('an answer');
    refs.push(new WeakRef(made));
    return made;
  };
  await ask(answer).then(
    () => undefined,
    () => undefined,
  );
  expect(await countAlive(refs)).toBe(0);
  expect(refs).toHaveLength(1);
});

/** What a cache is done with the value of 1, which it has. */
const forgets: Readonly<Record<string, (batcher: Batcher<number, object>, pass: (ms: number) => void) => unknown>> = {
  'is cleared': (batcher) => batcher.clear(1),
  'is emptied': (batcher) => batcher.clearAll(),
  'is full': (batcher) => batcher.prime(2, {}).prime(3, {}),
  'finds that it is too old': (batcher, pass) => {
    pass(11);
    void batcher.loadAsync(1);
  },
};

it.each(Object.entries(forgets))('a cache that %s holds nothing of the value, however often it was asked for', async (_, forget) => {
  const scheduler = new VirtualTimeScheduler();
  const batcher = createBatcher<number, object>(() => new Promise(() => undefined), {
    cache: lruCache(2, { ttlMs: 10 }),
    scheduler,
  });
  const refs: WeakRef<object>[] = [];
  const prime = (): void => {
    const value = {};
    refs.push(new WeakRef(value));
    batcher.prime(1, value);
  };
  prime();
  for (let times = 0; times < 100; times++) void batcher.loadAsync(1);
  forget(batcher, (ms) => (scheduler.frame += ms));
  expect(await countAlive(refs)).toBe(0);
  batcher.close();
});
