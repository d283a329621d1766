import DataLoader from 'dataloader';
import { asyncScheduler, NEVER } from 'rxjs';
import { afterEach, describe, expect, it, vi } from 'vitest';
import type { BatcherOptions } from '../../operators/index.js';
import { classifyError, createBatcher, DeadlineError, fixed, lruCache, robust } from '../../operators/index.js';
import { atOnce } from '../support/at-once.js';

/** Errors of SDKs are read, and whatever can be repaired is. */
const repaired = { classify: classifyError, repair: robust() };

type Answers = readonly unknown[];
type BatchFn = (keys: readonly unknown[]) => Promise<Answers>;

/** What both can be asked to do. */
interface Settings {
  readonly maxBatchSize?: number;
  readonly keyOf?: (key: unknown) => unknown;
  /** None; or a map to look into, of the peer. */
  readonly cache?: Map<unknown, never> | false;
  /** Sends only when told. */
  readonly manual?: boolean;
}

/** What both can do. */
interface Loader {
  load(key: unknown): Promise<unknown>;
  /** An error stands for a load that failed. */
  loadMany(keys: readonly unknown[]): Promise<Answers>;
  clear(key: unknown): Loader;
  clearAll(): Loader;
  prime(key: unknown, value: unknown): Loader;
  /** Sends what waits, of a manual one. */
  dispatch(): void;
}

function dataloader(batchFn: BatchFn, { maxBatchSize, keyOf, cache, manual }: Settings = {}): Loader {
  let waiting: (() => void)[] = [];
  const peer = new DataLoader<unknown, unknown>(batchFn, {
    ...(maxBatchSize !== undefined && { maxBatchSize }),
    ...(keyOf && { cacheKeyFn: keyOf }),
    ...(cache === false ? { cache } : cache && { cacheMap: cache }),
    ...(manual && { batchScheduleFn: (send: () => void) => waiting.push(send) }),
  });
  const loader: Loader = {
    load: (key) => peer.load(key),
    loadMany: (keys) => peer.loadMany(keys),
    clear: (key) => (peer.clear(key), loader),
    clearAll: () => (peer.clearAll(), loader),
    prime: (key, value) => (peer.prime(key, value), loader),
    dispatch: () => {
      const told = waiting;
      waiting = [];
      for (const send of told) send();
    },
  };
  return loader;
}

/** What makes of ours what DataLoader is: no bounds, no repair, and frames that end with a timer, after all promises of the turn. */
const asDataLoader = {
  maxSize: Infinity,
  maxWeight: Infinity,
  maxQueued: Infinity,
  concurrency: Infinity,
  scheduler: asyncScheduler,
} as const satisfies BatcherOptions<unknown>;

function ours(batchFn: BatchFn, { maxBatchSize = Infinity, keyOf, cache, manual }: Settings = {}): Loader {
  const batcher = createBatcher<unknown, unknown>(batchFn, {
    ...asDataLoader,
    maxSize: maxBatchSize,
    ...(keyOf && { dedupe: keyOf }),
    ...(cache !== false && { cache: lruCache(Infinity) }),
    ...(manual && { window: fixed(Infinity) }),
  });
  const loader: Loader = {
    load: (key) => batcher.loadAsync(key),
    loadMany: async (keys) => {
      const results = await batcher.loadManyAsync(keys);
      return results.map((result) => (result.status === 'fulfilled' ? result.value : result.reason));
    },
    clear: (key) => (batcher.clear(key), loader),
    clearAll: () => (batcher.clearAll(), loader),
    prime: (key, value) => (batcher.prime(key, value), loader),
    dispatch: () => {
      batcher.flush();
    },
  };
  return loader;
}

/** A deferred answer. */
function pending<R>() {
  let resolve: (value: R) => void = () => undefined;
  const promise = new Promise<R>((done) => (resolve = done));
  return { promise, resolve };
}

afterEach(() => {
  vi.useRealTimers();
});

describe.each([
  ['dataloader', dataloader],
  ['createBatcher', ours],
] as const)('what DataLoader promises, kept by %s:', (_, create) => {
  /** Answers each key with itself and remembers its calls. */
  function echo(settings?: Settings, answer: (key: unknown) => unknown = (key) => key) {
    const calls: unknown[][] = [];
    const loader = create((keys) => {
      calls.push([...keys]);
      return Promise.resolve(keys.map(answer));
    }, settings);
    return { loader, calls };
  }

  describe('batches', () => {
    it('answers a single load', async () => {
      const { loader, calls } = echo();
      expect(await loader.load(1)).toBe(1);
      expect(calls).toEqual([[1]]);
    });

    it('sends the loads of one turn in one call, in their order', async () => {
      const { loader, calls } = echo();
      expect(await Promise.all([loader.load(2), loader.load(9), loader.load(6), loader.load(1)])).toEqual([2, 9, 6, 1]);
      expect(calls).toEqual([[2, 9, 6, 1]]);
    });

    it('takes along what promise callbacks of the same turn load, however deep', async () => {
      const { loader, calls } = echo();
      const later = async (key: string, hops: number): Promise<unknown> => {
        for (let hop = 0; hop < hops; hop++) await Promise.resolve();
        return loader.load(key);
      };
      const keys = ['a', 'b', 'c', 'd', 'e'];
      expect(await Promise.all(keys.map((key, i) => later(key, 7 * i)))).toEqual(keys);
      expect(calls).toEqual([keys]);
    });

    it('takes along what a chain of promises loads one after the other without waiting for the answers', async () => {
      const { loader, calls } = echo();
      const loads: Promise<unknown>[] = [loader.load('a')];
      await Promise.resolve()
        .then(() => Promise.resolve())
        .then(() => {
          loads.push(loader.load('b'));
          return Promise.resolve().then(() => Promise.resolve());
        })
        .then(() => loads.push(loader.load('c')));
      expect(await Promise.all(loads)).toEqual(['a', 'b', 'c']);
      expect(calls).toEqual([['a', 'b', 'c']]);
    });

    it('sends in a second call what the answers of the first lead to', async () => {
      const { loader, calls } = echo({}, (key) => `boss of ${String(key)}`);
      const bossOfBoss = async (key: string): Promise<unknown> => loader.load(await loader.load(key));
      expect(await Promise.all([bossOfBoss('a'), bossOfBoss('b')])).toEqual(['boss of boss of a', 'boss of boss of b']);
      expect(calls).toEqual([
        ['a', 'b'],
        ['boss of a', 'boss of b'],
      ]);
    });

    it('may load from inside the batch function of another loader, and batches there too', async () => {
      const { loader: inner, calls } = echo();
      const outer = create((keys) => Promise.all(keys.map((key) => inner.load(key))));
      expect(await Promise.all([outer.load('a'), outer.load('b')])).toEqual(['a', 'b']);
      expect(calls).toEqual([['a', 'b']]);
    });

    it('cuts at the largest size', async () => {
      const { loader, calls } = echo({ maxBatchSize: 2 });
      expect(await loader.loadMany([1, 2, 3])).toEqual([1, 2, 3]);
      expect(calls).toEqual([[1, 2], [3]]);
    });

    it('makes a call for each with a largest size of one', async () => {
      const { loader, calls } = echo({ maxBatchSize: 1 });
      expect(await loader.loadMany([1, 2])).toEqual([1, 2]);
      expect(calls).toEqual([[1], [2]]);
    });

    it('can be told when to send', async () => {
      const { loader, calls } = echo({ manual: true });
      const loads = Promise.all([loader.load('a'), loader.load('b')]);
      await new Promise((turn) => setImmediate(turn));
      expect(calls).toEqual([]);
      loader.dispatch();
      expect(await loads).toEqual(['a', 'b']);
      const more = loader.load('c');
      loader.dispatch();
      expect(await more).toBe('c');
      expect(calls).toEqual([['a', 'b'], ['c']]);
    });
  });

  describe('many', () => {
    it('answers in the order of the keys', async () => {
      const { loader } = echo({}, (key) => `value of ${String(key)}`);
      expect(await loader.loadMany(['b', 'a'])).toEqual(['value of b', 'value of a']);
    });

    it('answers no keys with nothing, and makes no call', async () => {
      const { loader, calls } = echo();
      expect(await loader.loadMany([])).toEqual([]);
      expect(calls).toEqual([]);
    });

    it('does not reject: an error stands where the value would', async () => {
      const bad = new Error('bad');
      const { loader } = echo({}, (key) => (key === 'b' ? bad : key));
      expect(await loader.loadMany(['a', 'b', 'c'])).toEqual(['a', bad, 'c']);
    });

    it('answers the same key twice from one place in the call', async () => {
      const { loader, calls } = echo();
      expect(await loader.loadMany(['a', 'b', 'a'])).toEqual(['a', 'b', 'a']);
      expect(calls).toEqual([['a', 'b']]);
    });
  });

  describe('cache', () => {
    it('sends equal keys once, in one turn', async () => {
      const { loader, calls } = echo({}, (key) => ({ key }));
      const [first, second] = await Promise.all([loader.load('a'), loader.load('a')]);
      expect(first).toBe(second);
      expect(calls).toEqual([['a']]);
    });

    it('sends equal keys once, while the call is under way', async () => {
      const answer = pending<string[]>();
      const calls: unknown[] = [];
      const loader = create((keys) => {
        calls.push([...keys]);
        return answer.promise;
      });
      const first = loader.load('a');
      await vi.waitFor(() => {
        expect(calls).toHaveLength(1);
      });
      const second = loader.load('a');
      answer.resolve(['A']);
      expect(await Promise.all([first, second])).toEqual(['A', 'A']);
      expect(calls).toEqual([['a']]);
    });

    it('asks once for what it has asked for, and only for what is new', async () => {
      const { loader, calls } = echo();
      await loader.loadMany(['a', 'b']);
      expect(await loader.loadMany(['a', 'c'])).toEqual(['a', 'c']);
      expect(await loader.loadMany(['a', 'b', 'c'])).toEqual(['a', 'b', 'c']);
      expect(calls).toEqual([['a', 'b'], ['c']]);
    });

    it.each([null, undefined, 0, '', false, NaN])('remembers the value %s', async (value) => {
      const { loader, calls } = echo({}, () => value);
      expect(await loader.load('a')).toBe(value);
      expect(await loader.load('a')).toBe(value);
      expect(calls).toEqual([['a']]);
    });

    it.each([0, '', false, NaN])('knows the key %s again', async (key) => {
      const { loader, calls } = echo();
      expect(await loader.loadMany([key, key])).toEqual([key, key]);
      await loader.load(key);
      expect(calls).toEqual([[key]]);
    });

    it('needs no more calls for a chain of loads because its first key is known', async () => {
      const { loader, calls } = echo({}, (key) => Number(key) + 2);
      loader.prime(1, 3);
      const friend = async (key: number): Promise<unknown> => loader.load(await loader.load(key));
      expect(await Promise.all([friend(1), friend(2)])).toEqual([5, 6]);
      expect(calls).toHaveLength(2);
    });

    it('compares objects by identity', async () => {
      const { loader, calls } = echo();
      const [one, other] = [{ id: 1 }, { id: 1 }];
      expect(await loader.loadMany([one, other, one])).toEqual([one, other, one]);
      expect(calls).toEqual([[one, other]]);
    });

    it('compares by a key made of the object, also in clear and prime', async () => {
      const { loader, calls } = echo({ keyOf: (key) => (key as { id: number }).id });
      await loader.loadMany([{ id: 1 }, { id: 1 }]);
      loader.clear({ id: 1 }).prime({ id: 2 }, 'two');
      expect(await loader.loadMany([{ id: 1 }, { id: 2 }])).toEqual([{ id: 1 }, 'two']);
      expect(calls).toEqual([[{ id: 1 }], [{ id: 1 }]]);
    });

    it('may be off: each load is a key of the call', async () => {
      const { loader, calls } = echo({ cache: false });
      expect(await loader.loadMany(['a', 'b', 'a'])).toEqual(['a', 'b', 'a']);
      await loader.load('a');
      loader.prime('a', 'primed').clear('a').clearAll();
      expect(await loader.load('a')).toBe('a');
      expect(calls).toEqual([['a', 'b', 'a'], ['a'], ['a']]);
    });
  });

  describe('clear', () => {
    it('forgets one key', async () => {
      const { loader, calls } = echo();
      await loader.loadMany(['a', 'b']);
      loader.clear('a').clear('never loaded');
      await loader.loadMany(['a', 'b']);
      expect(calls).toEqual([['a', 'b'], ['a']]);
    });

    it('forgets all keys', async () => {
      const { loader, calls } = echo();
      await loader.loadMany(['a', 'b']);
      loader.clearAll();
      await loader.loadMany(['a', 'b']);
      expect(calls).toEqual([
        ['a', 'b'],
        ['a', 'b'],
      ]);
    });

    it.each(['clear', 'clearAll'] as const)(
      'does not wait for the answer: after %s the next load makes a call of its own',
      async (forget) => {
        const answers = [pending<string[]>(), pending<string[]>()];
        let calls = 0;
        const loader = create(() => answers[calls++]!.promise);
        const before = loader.load('a');
        await vi.waitFor(() => {
          expect(calls).toBe(1);
        });
        loader[forget]('a');
        const after = loader.load('a');
        await vi.waitFor(() => {
          expect(calls).toBe(2);
        });
        answers[1]!.resolve(['new']);
        expect(await after).toBe('new');
        answers[0]!.resolve(['old']);
        expect(await before).toBe('old');
        expect(await loader.load('a')).toBe('new');
        expect(calls).toBe(2);
      },
    );

    it('in the batch function keeps equal keys together within the call, and remembers nothing', async () => {
      const calls: unknown[][] = [];
      const loader = create((keys) => {
        loader.clearAll();
        calls.push([...keys]);
        return Promise.resolve(keys);
      });
      await loader.loadMany(['a', 'b', 'a']);
      await loader.load('a');
      expect(calls).toEqual([['a', 'b'], ['a']]);
    });
  });

  describe('prime', () => {
    it('saves the call', async () => {
      const { loader, calls } = echo();
      loader.prime('a', 'primed');
      expect(await loader.loadMany(['a', 'b'])).toEqual(['primed', 'b']);
      expect(calls).toEqual([['b']]);
    });

    it('does not replace what was loaded, or primed', async () => {
      const { loader, calls } = echo();
      await loader.load('a');
      loader.prime('a', 'primed').prime('b', 'first').prime('b', 'second');
      expect(await loader.loadMany(['a', 'b'])).toEqual(['a', 'first']);
      expect(calls).toEqual([['a']]);
    });

    it('does not replace what is under way', async () => {
      const { loader, calls } = echo();
      const load = loader.load('a');
      loader.prime('a', 'primed');
      expect([await load, await loader.load('a')]).toEqual(['a', 'a']);
      expect(calls).toEqual([['a']]);
    });

    it('replaces after clear', async () => {
      const { loader } = echo();
      await loader.load('a');
      loader.clear('a').prime('a', 'primed');
      expect(await loader.load('a')).toBe('primed');
    });
  });

  describe('failures', () => {
    it('of one key are its own', async () => {
      const bad = new Error('odd');
      const { loader } = echo({}, (key) => (Number(key) % 2 === 1 ? bad : key));
      const [even, odd] = await Promise.allSettled([loader.load(2), loader.load(1)]);
      expect(even).toEqual({ status: 'fulfilled', value: 2 });
      expect(odd).toEqual({ status: 'rejected', reason: bad });
    });

    it('of the call reject all its loads with the error itself, and are not remembered', async () => {
      const down = new Error('down');
      let fails = true;
      const calls: unknown[][] = [];
      const loader = create((keys) => {
        calls.push([...keys]);
        return fails ? Promise.reject(down) : Promise.resolve(keys);
      });
      expect(await loader.loadMany(['a', 'b'])).toEqual([down, down]);
      fails = false;
      expect(await loader.loadMany(['a', 'b'])).toEqual(['a', 'b']);
      expect(calls).toEqual([
        ['a', 'b'],
        ['a', 'b'],
      ]);
    });

    it('may be thrown by the batch function', async () => {
      const loader = create(() => {
        throw new Error('thrown');
      });
      expect(await loader.loadMany(['a', 'b'])).toEqual([expect.any(Error), expect.any(Error)]);
    });

    it.each([
      ['too few answers', ['a']],
      ['too many', ['a', 'b', 'c']],
      ['none', []],
    ])('are %s: no key gets the value of another', async (_what, answers) => {
      const loader = create(() => Promise.resolve(answers));
      expect(await loader.loadMany(['a', 'b'])).toEqual([expect.any(Error), expect.any(Error)]);
    });

    it('leave what is known alone', async () => {
      let fails = false;
      const loader = create((keys) => (fails ? Promise.reject(new Error('down')) : Promise.resolve(keys)));
      await loader.load('a');
      fails = true;
      expect(await loader.loadMany(['a', 'b'])).toEqual(['a', expect.any(Error)]);
    });
  });
});

describe('what differs on purpose', () => {
  it('a known key waits for the call of others in DataLoader; here it is answered at once', async () => {
    const answer = pending<string[]>();
    const order: string[] = [];
    const both = [
      ['dataloader', dataloader(() => answer.promise)],
      ['ours', ours(() => answer.promise)],
    ] as const;
    const loads = both.flatMap(([name, loader]) => {
      loader.prime('known', 'k');
      return [loader.load('new').then(() => order.push(`${name} new`)), loader.load('known').then(() => order.push(`${name} known`))];
    });
    await new Promise((turn) => setTimeout(turn));
    expect(order).toEqual(['ours known']);
    answer.resolve(['n']);
    await Promise.all(loads);
    expect(order).toHaveLength(4);
  });

  it('DataLoader remembers the error of a key until it is cleared; here the next load tries again', async () => {
    const errors = [0, 0];
    const failsFirst =
      (at: 0 | 1): BatchFn =>
      (keys) =>
        Promise.resolve(keys.map((key) => (errors[at]!++ === 0 ? new Error('once') : key)));
    const [theirs, here] = [dataloader(failsFirst(0)), ours(failsFirst(1))];
    for (const loader of [theirs, here]) await expect(loader.load('a')).rejects.toThrow('once');
    await expect(theirs.load('a')).rejects.toThrow('once');
    expect(await here.load('a')).toBe('a');
    expect(await theirs.clear('a').load('a')).toBe('a');
  });

  it('DataLoader takes an error as a value to prime; here that is refused', async () => {
    const theirs = dataloader((keys) => Promise.resolve(keys)).prime('a', new Error('known to fail'));
    await expect(theirs.load('a')).rejects.toThrow('known to fail');
    expect(() => ours((keys) => Promise.resolve(keys)).prime('a', new Error('known to fail'))).toThrow(
      'createBatcher: `value` is an error, and errors are not cached. Pass a result.',
    );
  });

  it('DataLoader refuses null and undefined as keys; here an item may be anything', async () => {
    const theirs = dataloader((keys) => Promise.resolve(keys));
    expect(() => theirs.load(null)).toThrow(TypeError);
    expect(await ours((keys) => Promise.resolve(keys)).loadMany([null, undefined])).toEqual([null, undefined]);
  });

  it('a frame ends with the next promise callback; on `asyncScheduler`, after all of them', async () => {
    const sentAfter = async (hops: number, options: BatcherOptions<string>): Promise<string[]> => {
      const sent: string[] = [];
      const batcher = createBatcher<string, string>((keys) => {
        sent.push(keys.join(''));
        return Promise.resolve(keys);
      }, options);
      const first = batcher.loadAsync('a');
      for (let hop = 0; hop < hops; hop++) await Promise.resolve();
      await Promise.all([first, batcher.loadAsync('b')]);
      return sent;
    };
    expect(await sentAfter(0, {})).toEqual(['ab']);
    expect(await sentAfter(2, {})).toEqual(['a', 'b']);
    expect(await sentAfter(50, { scheduler: asyncScheduler })).toEqual(['ab']);
  });
});

describe('what DataLoader lacks', () => {
  it('keeps every value for ever; here the bound holds', async () => {
    const kept = new Map<unknown, never>();
    const theirs = dataloader((keys) => Promise.resolve(keys), { cache: kept });
    const here = createBatcher((keys: readonly number[]) => Promise.resolve(keys), { cache: lruCache(100) });
    for (let at = 0; at < 1000; at++) await Promise.all([theirs.load(at), here.loadAsync(at)]);
    expect(kept.size).toBe(1000);
    expect(here.snapshot().cached).toBe(100);
  });

  it('one bad key spoils the call for all; here the others are answered', async () => {
    const forbidden = Object.assign(new Error('forbidden'), { status: 400 });
    const work: BatchFn = (keys) => (keys.includes('bad') ? Promise.reject(forbidden) : Promise.resolve(keys));
    const keys = ['a', 'b', 'bad', 'd'];
    expect(await dataloader(work).loadMany(keys)).toEqual([forbidden, forbidden, forbidden, forbidden]);
    const here = await createBatcher(work, { ...repaired, cache: lruCache(10) }).loadManyAsync(keys);
    expect(here.map((result) => (result.status === 'fulfilled' ? result.value : result.reason))).toEqual(['a', 'b', forbidden, 'd']);
  });

  it('one missing answer spoils the call for all; here, named by id, it is missing alone', async () => {
    const without = (keys: readonly string[]): string[] => keys.filter((key) => key !== 'b');
    const theirs = await dataloader((keys) => Promise.resolve(without(keys as string[]))).loadMany(['a', 'b', 'c']);
    expect(theirs).toEqual([expect.any(TypeError), expect.any(TypeError), expect.any(TypeError)]);
    const here = createBatcher((keys: readonly string[]) => Promise.resolve(new Map(without(keys).map((key) => [key, key]))), {
      ...repaired,
      id: (key) => key,
      cache: lruCache(10),
    });
    expect(await here.loadManyAsync(['a', 'b', 'c'])).toMatchObject([
      { value: 'a' },
      { reason: { code: 'FLOW_BATCH_SHAPE' } },
      { value: 'c' },
    ]);
  });

  it('a load cannot be left; here it can, and other callers of the same key keep theirs', async () => {
    expect(new DataLoader(() => new Promise<string[]>(() => undefined)).load.length).toBe(1);
    const answer = pending<string[]>();
    const signals: AbortSignal[] = [];
    const here = createBatcher(
      (_keys: readonly string[], { signal }) => {
        signals.push(signal);
        return answer.promise;
      },
      { cache: lruCache(10), scheduler: atOnce() },
    );
    const [one, both] = [new AbortController(), new AbortController()];
    const left = here.loadAsync('a', { signal: one.signal });
    const stays = here.loadAsync('a', { signal: both.signal });
    one.abort('enough');
    await expect(left).rejects.toBe('enough');
    expect(signals[0]?.aborted).toBe(false);
    answer.resolve(['A']);
    expect(await stays).toBe('A');
    expect(await here.loadAsync('a')).toBe('A');
    expect(signals).toHaveLength(1);
  });

  it('a call without callers goes on; here it is aborted, and its key is free', () => {
    const signals: AbortSignal[] = [];
    const here = createBatcher(
      (_keys: readonly string[], { signal }) => {
        signals.push(signal);
        return NEVER;
      },
      { cache: lruCache(10), scheduler: atOnce() },
    );
    const loads = [here.load('a').subscribe(), here.load('a').subscribe()];
    for (const load of loads) load.unsubscribe();
    expect(signals.map(({ aborted }) => aborted)).toEqual([true]);
    here.load('a').subscribe().unsubscribe();
    expect(signals).toHaveLength(2);
    expect(here.snapshot().cached).toBe(0);
  });

  it('a call that hangs takes its keys with it for ever; here there is a longest wait, and the next load is served', async () => {
    vi.useFakeTimers();
    let hangs = true;
    const work: BatchFn = (keys) => (hangs ? new Promise(() => undefined) : Promise.resolve(keys));
    const theirs = dataloader(work);
    const here = createBatcher(work, { ...repaired, cache: lruCache(10), deadlineMs: 5000 });
    const ends = { theirs: 0, here: [] as unknown[] };
    void theirs.load('a').finally(() => ends.theirs++);
    here.loadAsync('a').catch((error: unknown) => ends.here.push(error));
    await vi.advanceTimersByTimeAsync(3_600_000);
    hangs = false;
    void theirs.load('a').finally(() => ends.theirs++);
    const again = here.loadAsync('a');
    await vi.advanceTimersByTimeAsync(3_600_000);
    expect(ends.theirs).toBe(0);
    expect(ends.here).toEqual([expect.any(DeadlineError)]);
    expect(await again).toBe('a');
  });

  it('makes as many calls at a time as there are batches; here no more than the concurrency', async () => {
    const most = { theirs: 0, here: 0 };
    const counting = (who: 'theirs' | 'here'): BatchFn => {
      let running = 0;
      return async (keys) => {
        most[who] = Math.max(most[who], ++running);
        await new Promise((turn) => setImmediate(turn));
        running--;
        return keys;
      };
    };
    const keys = Array.from({ length: 20 }, (_, i) => i);
    await dataloader(counting('theirs'), { maxBatchSize: 1 }).loadMany(keys);
    await createBatcher(counting('here'), { maxSize: 1, concurrency: 3, cache: lruCache(10) }).loadManyAsync(keys);
    expect(most).toEqual({ theirs: 20, here: 3 });
  });

  it('has no bound for what waits; here there may be one, and promised loads wait for room', async () => {
    const sent: unknown[] = [];
    const send: BatchFn = (keys) => {
      sent.push(keys.length);
      return Promise.resolve(keys);
    };
    const keys = Array.from({ length: 30 }, (_, i) => i);
    await dataloader(send).loadMany(keys);
    expect(sent).toEqual([30]);
    const here = await createBatcher(send, { maxQueued: 10, cache: lruCache(100) }).loadManyAsync(keys);
    expect(here.map((one) => one.status === 'fulfilled' && one.value)).toEqual(keys);
    expect(sent).toEqual([30, 10, 10, 10]);
  });

  it('an unhandled failure ends the process; here it does no harm', async () => {
    const unhandled: unknown[] = [];
    const listen = (reason: unknown): void => {
      unhandled.push(reason);
    };
    process.on('unhandledRejection', listen);
    const fails =
      (name: string): BatchFn =>
      () =>
        Promise.reject(new Error(name));
    void dataloader(fails('theirs')).load('a');
    const here = createBatcher(fails('here'), { cache: lruCache(10) });
    void here.loadAsync('a');
    void here.loadAsync('a');
    void here.loadAsync('a', { signal: AbortSignal.abort() });
    void here.loadManyAsync(['b', 'c']);
    await vi.waitFor(() => {
      expect(unhandled).toHaveLength(1);
    });
    await here.drain();
    await new Promise((turn) => setImmediate(turn));
    process.off('unhandledRejection', listen);
    expect(unhandled).toEqual([expect.objectContaining({ message: 'theirs' })]);
  });
});
