import { getEventListeners } from 'node:events';
import fc from 'fast-check';
import type { Observable } from 'rxjs';
import { asyncScheduler, config, firstValueFrom, map, mergeMap, NEVER, of, Subject, throwError, timer } from 'rxjs';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import type { BatcherOptions, BatchWork, FlowEvent } from '../../operators/index.js';
import {
  ClosedError,
  classifyError,
  createBatcher,
  createLimiter,
  DeadlineError,
  fixed,
  isFlowError,
  lanes,
  lruCache,
  OverflowError,
  orderPerKey,
  perMinute,
  robust,
} from '../../operators/index.js';
import { atOnce } from '../support/at-once.js';
import { sized } from '../support/deep.js';

/** Errors of SDKs are read, and whatever can be repaired is. */
const repaired = { classify: classifyError, repair: robust() };

const badRequest = Object.assign(new Error('forbidden words'), { status: 400 });
const overloaded = Object.assign(new Error('overloaded'), { status: 503 });

/** Answers in capitals after 10 ms and remembers its calls. */
function shouting(options: BatcherOptions<string, string> = {}, fails: (items: readonly string[]) => Error | undefined = () => undefined) {
  const calls: string[][] = [];
  const signals: AbortSignal[] = [];
  const work: BatchWork<string, string> = (items, { signal }) => {
    calls.push([...items]);
    signals.push(signal);
    return timer(10).pipe(
      map(() => {
        const error = fails(items);
        if (error !== undefined) throw error;
        return items.map((item) => item.toUpperCase());
      }),
    );
  };
  const batcher = createBatcher(work, { ...repaired, ...options });
  return { batcher, calls, signals, sent: () => calls.map((items) => items.join('')) };
}

/** Subscribes and keeps what comes out. */
function watch(result: Observable<unknown>) {
  const seen: unknown[] = [];
  const subscription = result.subscribe({
    next: (value) => seen.push(value),
    error: (error: unknown) => seen.push(error),
    complete: () => seen.push('complete'),
  });
  return {
    seen,
    leave: () => {
      subscription.unsubscribe();
    },
  };
}

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  expect(vi.getTimerCount()).toBe(0);
  vi.useRealTimers();
});

describe('load', () => {
  it('is cold: nothing is sent before it is subscribed to, and every subscription is a request', async () => {
    const { batcher, calls } = shouting();
    const load = batcher.load('a');
    await vi.advanceTimersByTimeAsync(100);
    expect(calls).toEqual([]);
    const answers = Promise.all([firstValueFrom(load), firstValueFrom(load)]);
    await vi.advanceTimersByTimeAsync(100);
    expect(await answers).toEqual(['A', 'A']);
    expect(calls).toEqual([['a', 'a']]);
  });

  it('emits one value and completes, or errors with what the item failed with', async () => {
    const { batcher } = shouting({}, (items) => (items.includes('x') ? badRequest : undefined));
    const good = watch(batcher.load('a'));
    const bad = watch(batcher.load('x'));
    await vi.advanceTimersByTimeAsync(100);
    expect(good.seen).toEqual(['A', 'complete']);
    expect(bad.seen).toEqual([badRequest]);
  });

  it('gives ten callers their own answers, although one of the ten spoils the call', async () => {
    const { batcher, calls } = shouting({}, (items) => (items.includes('prompt 6') ? badRequest : undefined));
    const prompts = Array.from({ length: 10 }, (_, i) => `prompt ${String(i)}`);
    const answers = Promise.allSettled(prompts.map((prompt) => batcher.loadAsync(prompt)));
    await vi.advanceTimersByTimeAsync(1000);
    const seen = (await answers).map((answer) => (answer.status === 'fulfilled' ? answer.value : (answer.reason as unknown)));
    expect(seen).toEqual(prompts.map((prompt) => (prompt === 'prompt 6' ? badRequest : prompt.toUpperCase())));
    expect(calls.length).toBeLessThanOrEqual(8);
  });

  it('answers at once, without a promise in between, when the work does', () => {
    const batcher = createBatcher<string, string>((items) => of(items), { scheduler: atOnce() });
    const seen = watch(batcher.load('a')).seen;
    expect(seen).toEqual(['a', 'complete']);
  });

  it('that is left stops its call and forgets its place in the queue', async () => {
    const { batcher, sent, signals } = shouting({ maxSize: 1, concurrency: 1 });
    const first = watch(batcher.load('a'));
    const second = watch(batcher.load('b'));
    const third = watch(batcher.load('c'));
    await vi.advanceTimersByTimeAsync(5);
    second.leave();
    expect(batcher.snapshot()).toEqual({ queued: 1, executing: 1, heldBy: 'slot', heldBack: 0, cached: 0 });
    first.leave();
    expect(signals[0]?.aborted).toBe(true);
    expect((signals[0]?.reason as DOMException).name).toBe('AbortError');
    await vi.advanceTimersByTimeAsync(100);
    expect(sent()).toEqual(['a', 'c']);
    expect([first.seen, second.seen, third.seen]).toEqual([[], [], ['C', 'complete']]);
  });

  it('that is left does not stop the call for the others in it', async () => {
    const { batcher, signals } = shouting();
    const first = watch(batcher.load('a'));
    const second = watch(batcher.load('b'));
    await vi.advanceTimersByTimeAsync(5);
    first.leave();
    expect(signals[0]?.aborted).toBe(false);
    await vi.advanceTimersByTimeAsync(100);
    expect(second.seen).toEqual(['B', 'complete']);
  });

  it('may be made from inside an answer, ten thousand times over', () => {
    const batcher = createBatcher<number, number>((items) => of(items), { scheduler: atOnce(), concurrency: 1 });
    let answers = 0;
    const ask = (item: number): void => {
      batcher.load(item).subscribe((answer) => {
        answers++;
        if (answer < 1e4) ask(answer + 1);
      });
    };
    ask(1);
    expect(answers).toBe(1e4);
  });

  it('throws where it is called for an undeclared lane and an invalid deadline', () => {
    const { batcher } = shouting({ queue: lanes([{ name: 'urgent' }, { name: 'later' }]) });
    expect(() => batcher.load('a', { lane: 'typo' })).toThrow('createBatcher: lane `typo` is not one of `urgent`, `later`');
    for (const deadlineMs of [-1, NaN, '5' as never]) {
      expect(() => batcher.load('a', { deadlineMs })).toThrow('createBatcher: expected `deadlineMs` to be a number of milliseconds >= 0');
    }
  });
});

describe('loadAsync', () => {
  it('answers with a promise, for a work function that is one', async () => {
    const batcher = createBatcher(async (items: readonly number[]) => {
      await Promise.resolve();
      return items.map((item) => item * 2);
    });
    const answers = Promise.all([batcher.loadAsync(1), batcher.loadAsync(2)]);
    await vi.advanceTimersByTimeAsync(0);
    expect(await answers).toEqual([2, 4]);
    await batcher.drain();
  });

  it('rejects with the reason itself', async () => {
    const { batcher } = shouting({}, () => badRequest);
    const answer = batcher.loadAsync('a').catch((error: unknown) => error);
    await vi.advanceTimersByTimeAsync(100);
    expect(await answer).toBe(badRequest);
  });

  it('is never reported as unhandled, whatever it is rejected for', async () => {
    vi.useRealTimers();
    const unhandled: unknown[] = [];
    const listen = (reason: unknown): void => {
      unhandled.push(reason);
    };
    process.on('unhandledRejection', listen);
    const aborted = AbortSignal.abort();
    const failing = createBatcher(() => throwError(() => badRequest), { ...repaired, scheduler: atOnce() });
    void failing.loadAsync('a');
    void failing.loadAsync('b', { signal: aborted });
    void failing.loadAsync('c', { deadlineMs: 0 });
    void createBatcher(async () => Promise.reject(badRequest), { ...repaired, scheduler: atOnce() }).loadAsync('d');
    const closed = createBatcher(() => NEVER, { scheduler: atOnce() });
    void closed.loadAsync('e');
    closed.close();
    void closed.loadAsync('f');
    const caching = createBatcher(() => throwError(() => badRequest), {
      ...repaired,
      scheduler: atOnce(),
      cache: lruCache(1),
    });
    for (const options of [undefined, {}, { signal: aborted }]) void caching.loadAsync('g', options);
    void caching.loadManyAsync(['h', 'i']);
    void createBatcher(() => NEVER, {
      dedupe: () => {
        throw badRequest;
      },
    }).loadAsync('j');
    await new Promise((done) => setTimeout(done, 5));
    process.off('unhandledRejection', listen);
    expect(unhandled).toEqual([]);
    vi.useFakeTimers();
  });
});

describe('loadSettled', () => {
  it('tells what became of the item, and never errors', async () => {
    const { batcher } = shouting({ id: (item) => `id of ${item}` }, (items) => (items.includes('x') ? badRequest : undefined));
    const answers = Promise.all(['a', 'x'].map((item) => firstValueFrom(batcher.loadSettled(item))));
    await vi.advanceTimersByTimeAsync(100);
    expect(await answers).toEqual([
      { status: 'fulfilled', value: 'A', input: 'a', index: 0, id: 'id of a', attempts: 2 },
      { status: 'rejected', reason: badRequest, input: 'x', index: 1, id: 'id of x', attempts: 2 },
    ]);
  });

  it('has no index for a load that was not accepted', async () => {
    const { batcher } = shouting();
    const stopped = await firstValueFrom(batcher.loadSettled('a', { signal: AbortSignal.abort('enough') }));
    expect(stopped).toEqual({ status: 'rejected', reason: 'enough', input: 'a', index: -1, id: '', attempts: 0 });
    batcher.close();
    const late = await firstValueFrom(batcher.loadSettled('b'));
    expect(late).toMatchObject({ status: 'rejected', index: -1, reason: { code: 'FLOW_CLOSED' } });
  });
});

describe('a signal', () => {
  it('makes the load reject with its own reason and stops the call when its last caller leaves', async () => {
    const { batcher, signals } = shouting();
    const stop = new AbortController();
    const answer = batcher.loadAsync('a', { signal: stop.signal }).catch((error: unknown) => error);
    await vi.advanceTimersByTimeAsync(5);
    stop.abort('I am done');
    expect(await answer).toBe('I am done');
    expect(signals[0]?.aborted).toBe(true);
    expect(getEventListeners(stop.signal, 'abort')).toHaveLength(0);
  });

  it('that is aborted already sends nothing', async () => {
    const { batcher, calls } = shouting();
    await expect(batcher.loadAsync('a', { signal: AbortSignal.abort() })).rejects.toMatchObject({ name: 'AbortError' });
    await vi.advanceTimersByTimeAsync(100);
    expect(calls).toEqual([]);
  });

  it('shared by 10,000 loads has no listener left afterwards, and no warning is given', async () => {
    const warnings: Error[] = [];
    const listen = (warning: Error): void => {
      warnings.push(warning);
    };
    process.on('warning', listen);
    const stop = new AbortController();
    const { batcher } = shouting({ maxQueued: Infinity, maxSize: 100, concurrency: Infinity });
    const loads = Array.from({ length: 10_000 }, (_, i) => batcher.loadAsync(String(i), { signal: stop.signal }));
    const left = batcher.load('left', { signal: stop.signal }).subscribe();
    left.unsubscribe();
    await vi.advanceTimersByTimeAsync(100);
    const answers = await Promise.all(loads);
    expect(answers[9999]).toBe('9999');
    expect(getEventListeners(stop.signal, 'abort')).toHaveLength(0);
    process.off('warning', listen);
    expect(warnings).toEqual([]);
  });

  it('shared by loads under way, waiting and done ends those that are not done, once each', async () => {
    const { batcher, sent } = shouting({ maxSize: 1, concurrency: 1 });
    const stop = new AbortController();
    const loads = ['a', 'b', 'c'].map((item) => batcher.loadAsync(item, { signal: stop.signal }));
    await vi.advanceTimersByTimeAsync(15);
    stop.abort();
    const ends = await Promise.allSettled(loads);
    expect(ends.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected']);
    expect(sent()).toEqual(['a', 'b']);
    expect(batcher.snapshot()).toMatchObject({ queued: 0, executing: 0 });
  });
});

describe('dedupe', () => {
  it('shares one item, and answers all who load it', async () => {
    const { batcher, calls } = shouting({ dedupe: (item) => item.toLowerCase() });
    const answers = Promise.all(['a', 'A', 'b', 'a'].map((item) => batcher.loadAsync(item)));
    await vi.advanceTimersByTimeAsync(100);
    expect(await answers).toEqual(['A', 'A', 'B', 'A']);
    expect(calls).toEqual([['a', 'b']]);
  });

  it('remembers nothing after the answer, or after a failure', async () => {
    let failing = true;
    const { batcher, sent } = shouting({ dedupe: (item) => item }, () => (failing ? badRequest : undefined));
    await Promise.all([expect(batcher.loadAsync('a')).rejects.toBe(badRequest), vi.advanceTimersByTimeAsync(100)]);
    failing = false;
    const again = batcher.loadAsync('a');
    await vi.advanceTimersByTimeAsync(100);
    expect(await again).toBe('A');
    expect(sent()).toEqual(['a', 'a']);
  });

  it('keeps the item while one of two stays, and drops it when both have left', async () => {
    const { batcher, signals, sent } = shouting({ dedupe: () => 'same' });
    const first = watch(batcher.load('a'));
    const second = watch(batcher.load('b'));
    await vi.advanceTimersByTimeAsync(5);
    first.leave();
    expect(signals[0]?.aborted).toBe(false);
    second.leave();
    expect(signals[0]?.aborted).toBe(true);
    const third = watch(batcher.load('c'));
    await vi.advanceTimersByTimeAsync(100);
    expect(third.seen).toEqual(['C', 'complete']);
    expect(sent()).toEqual(['a', 'c']);
  });

  it('does not bind a load with a deadline of its own to the item of others', async () => {
    const { batcher, calls } = shouting({ dedupe: () => 'same' });
    const patient = watch(batcher.load('a'));
    const hurried = watch(batcher.load('b', { deadlineMs: 3 }));
    await vi.advanceTimersByTimeAsync(100);
    expect(calls).toEqual([['a', 'b']]);
    expect(hurried.seen[0]).toBeInstanceOf(DeadlineError);
    expect(patient.seen).toEqual(['A', 'complete']);
  });

  it('moves a waiting item to the lane of a more urgent load, never to a less urgent one', async () => {
    const { batcher, sent } = shouting({
      queue: lanes([{ name: 'urgent' }, { name: 'normal' }, { name: 'later' }]),
      dedupe: (item) => item,
      maxSize: 1,
      concurrency: 1,
    });
    const loads = [
      batcher.loadAsync('busy'),
      batcher.loadAsync('a', { lane: 'normal' }),
      batcher.loadAsync('b', { lane: 'later' }),
      batcher.loadAsync('b', { lane: 'urgent' }),
      batcher.loadAsync('b', { lane: 'later' }),
    ];
    await vi.advanceTimersByTimeAsync(100);
    expect(await Promise.all(loads)).toEqual(['BUSY', 'A', 'B', 'B', 'B']);
    expect(sent()).toEqual(['busy', 'b', 'a']);
  });

  it('rejects only the load whose key cannot be made', async () => {
    const cause = new Error('no key');
    const { batcher } = shouting({
      dedupe: (item) => {
        if (item === 'x') throw cause;
        return item;
      },
    });
    const ends = Promise.allSettled(['a', 'x', 'b'].map((item) => batcher.loadAsync(item)));
    await vi.advanceTimersByTimeAsync(100);
    expect(await ends).toMatchObject([{ value: 'A' }, { reason: { code: 'FLOW_CALLBACK', callback: 'dedupe', cause } }, { value: 'B' }]);
  });
});

describe('cache', () => {
  /** A cached load is answered before the clock moves. */
  async function asked(load: Promise<string>): Promise<string> {
    await vi.advanceTimersByTimeAsync(10);
    return load;
  }

  it('answers a known key in the same frame, however it is loaded, and sends nothing', async () => {
    const { batcher, sent } = shouting({ cache: lruCache(10) });
    await asked(batcher.loadAsync('a'));
    expect(watch(batcher.load('a')).seen).toEqual(['A', 'complete']);
    const known = { status: 'fulfilled', value: 'A', input: 'a', index: -1, id: '', attempts: 0 };
    expect(watch(batcher.loadSettled('a')).seen).toEqual([known, 'complete']);
    expect(await batcher.loadManyAsync(['a'])).toEqual([known]);
    expect(await batcher.loadAsync('a', { signal: new AbortController().signal, deadlineMs: 0 })).toBe('A');
    expect(sent()).toEqual(['a']);
  });

  it('shares what is under way without a dedupe option, and goes by the key of one that is there', async () => {
    const { batcher, calls } = shouting({ cache: lruCache(10), dedupe: (item) => item.toLowerCase() });
    expect(await asked(Promise.all(['a', 'A', 'b'].map((item) => batcher.loadAsync(item))).then(String))).toBe('A,A,B');
    expect(await batcher.loadAsync('B')).toBe('B');
    expect(calls).toEqual([['a', 'b']]);
  });

  it('forgets the key not asked for longest', async () => {
    const { batcher, sent } = shouting({ cache: lruCache(2), maxSize: 1 });
    for (const item of ['a', 'b', 'a', 'c', 'a', 'b']) await asked(batcher.loadAsync(item));
    expect(sent()).toEqual(['a', 'b', 'c', 'b']);
    expect(batcher.snapshot().cached).toBe(2);
  });

  it('stays within its bound over 100,000 keys', async () => {
    const work = (items: readonly number[]) => of(items);
    const batcher = createBatcher<number, number>(work, { maxSize: 1000, maxQueued: Infinity, cache: lruCache(100) });
    const results = await batcher.loadManyAsync(Array.from({ length: 1e5 }, (_, i) => i));
    expect(results.every((result, i) => result.status === 'fulfilled' && result.value === i)).toBe(true);
    expect(batcher.snapshot()).toEqual({ queued: 0, executing: 0, heldBy: 'window', heldBack: 0, cached: 100 });
    expect(await batcher.loadManyAsync([99_899, 99_900, 99_999])).toMatchObject([{ attempts: 1 }, { attempts: 0 }, { attempts: 0 }]);
  });

  it('forgets a value that is too old, counted from when it came, without a timer', async () => {
    const { batcher, sent } = shouting({ cache: lruCache(10, { ttlMs: 100 }) });
    await asked(batcher.loadAsync('a'));
    expect(vi.getTimerCount()).toBe(0);
    await vi.advanceTimersByTimeAsync(99);
    expect(await batcher.loadAsync('a')).toBe('A');
    await vi.advanceTimersByTimeAsync(1);
    expect(await asked(batcher.loadAsync('a'))).toBe('A');
    expect(sent()).toEqual(['a', 'a']);
    batcher.prime('p', 'P');
    await vi.advanceTimersByTimeAsync(100);
    expect(await asked(batcher.loadAsync('p'))).toBe('P');
    expect(sent()).toEqual(['a', 'a', 'p']);
  });

  it('does not keep a value longer because the clock is put back', async () => {
    let lostMs = 0;
    const scheduler = { now: () => asyncScheduler.now() - lostMs, schedule: asyncScheduler.schedule.bind(asyncScheduler) };
    const { batcher, sent } = shouting({ cache: lruCache(10, { ttlMs: 100 }), scheduler });
    await asked(batcher.loadAsync('a'));
    lostMs = 3_600_000;
    expect(await asked(batcher.loadAsync('a'))).toBe('A');
    await vi.advanceTimersByTimeAsync(100);
    await asked(batcher.loadAsync('a'));
    expect(sent()).toEqual(['a', 'a']);
  });

  it('does not remember failures, nor what was left, nor what was closed', async () => {
    let failing = true;
    const { batcher, sent } = shouting({ cache: lruCache(10) }, () => (failing ? badRequest : undefined));
    await Promise.all([expect(batcher.loadAsync('a')).rejects.toBe(badRequest), vi.advanceTimersByTimeAsync(10)]);
    failing = false;
    const load = watch(batcher.load('a'));
    await vi.advanceTimersByTimeAsync(5);
    load.leave();
    expect(await asked(batcher.loadAsync('a'))).toBe('A');
    expect(sent()).toEqual(['a', 'a', 'a']);
    const closed = batcher.loadAsync('b').catch((error: unknown) => error);
    batcher.close();
    expect(await closed).toBeInstanceOf(ClosedError);
    expect(batcher.snapshot().cached).toBe(1);
  });

  it('does not keep a load whose signal aborts from leaving, nor the others from their answer', async () => {
    const { batcher, signals, sent } = shouting({ cache: lruCache(10) });
    const stop = new AbortController();
    const stays = batcher.loadAsync('a');
    const leaves = batcher.loadAsync('a', { signal: stop.signal }).catch((error: unknown) => error);
    await vi.advanceTimersByTimeAsync(5);
    stop.abort('enough');
    expect(await leaves).toBe('enough');
    expect(signals[0]?.aborted).toBe(false);
    expect(await asked(stays)).toBe('A');
    await expect(batcher.loadAsync('a', { signal: stop.signal })).rejects.toBe('enough');
    expect(sent()).toEqual(['a']);
  });

  it.each([undefined, null, 0, '', false, Symbol('x')])('keeps %o as a value, whatever the bound', async (value) => {
    for (const maxEntries of [1, Infinity]) {
      let calls = 0;
      const batcher = createBatcher<string, unknown>(
        (items) => {
          calls++;
          return of(items.map(() => value));
        },
        { cache: lruCache(maxEntries) },
      );
      expect(await batcher.loadAsync('a')).toBe(value);
      expect(await batcher.loadAsync('a')).toBe(value);
      expect(await firstValueFrom(batcher.load('a'))).toBe(value);
      expect(calls).toBe(1);
      expect(batcher.snapshot().cached).toBe(1);
      batcher.clear('a').prime('a', undefined);
      expect(await batcher.loadAsync('a')).toBeUndefined();
      expect(batcher.clear('a').snapshot().cached).toBe(0);
    }
  });

  it('gives a load with a deadline of its own what is there, and remembers nothing of it', async () => {
    const { batcher, sent } = shouting({ cache: lruCache(10) });
    await asked(batcher.loadAsync('a', { deadlineMs: 50 }));
    await asked(batcher.loadAsync('a'));
    expect(await batcher.loadAsync('a', { deadlineMs: 50 })).toBe('A');
    expect(sent()).toEqual(['a', 'a']);
  });

  it('answers callers that already wait for a cleared key', async () => {
    const { batcher, calls } = shouting({ cache: lruCache(10) });
    const before = batcher.loadAsync('a');
    const watched = watch(batcher.clear('b').load('a'));
    const after = batcher.clear('a').loadAsync('a');
    expect(after).not.toBe(before);
    expect(await asked(Promise.all([before, after]).then(String))).toBe('A,A');
    expect(watched.seen).toEqual(['A', 'complete']);
    expect(calls).toEqual([['a', 'a']]);
  });

  it('answers no load from the cache after a drain', async () => {
    const { batcher } = shouting({ cache: lruCache(10) });
    batcher.prime('a', 'A');
    expect(await batcher.loadAsync('a')).toBe('A');
    await batcher.drain();
    await expect(batcher.loadAsync('a')).rejects.toBeInstanceOf(ClosedError);
    expect(await batcher.loadManyAsync(['a'])).toMatchObject([{ status: 'rejected', index: -1, reason: { code: 'FLOW_CLOSED' } }]);
  });

  it('answers a load made from inside the answer', () => {
    const batcher = createBatcher<string, string>((items) => of(items), { scheduler: atOnce(), cache: lruCache(10) });
    const { seen } = watch(batcher.load('a').pipe(mergeMap((first) => batcher.load('a').pipe(map((second) => first + second)))));
    expect(seen).toEqual(['aa', 'complete']);
    expect(batcher.snapshot().cached).toBe(1);
  });

  it('does nothing in clear and prime without one, but that a new load goes its own way', async () => {
    const { batcher, calls } = shouting({ dedupe: (item) => item });
    const loads = [batcher.prime('a', 'primed').loadAsync('a'), batcher.loadAsync('a'), batcher.clearAll().loadAsync('a')];
    expect(await asked(Promise.all(loads).then(String))).toBe('A,A,A');
    expect(calls).toEqual([['a', 'a']]);
    const plain = shouting().batcher;
    expect(plain.clear('a').clearAll().prime('a', 'primed')).toBe(plain);
    expect(plain.snapshot().cached).toBe(0);
    expect(await asked(plain.loadAsync('a'))).toBe('A');
  });

  it('refuses an error to prime', () => {
    const batcher = createBatcher<string, unknown>((items) => of(items));
    expect(() => batcher.prime('a', badRequest)).toThrow('createBatcher: `value` is an error, and errors are not cached. Pass a result.');
    expect(() => batcher.prime('a', Promise.resolve('A'))).toThrow('createBatcher: `value` is a promise. Await it first.');
  });

  it('rejects the load, and throws from clear and prime, when no key can be made', async () => {
    const cause = new Error('no key');
    const { batcher } = shouting({
      cache: lruCache(10),
      dedupe: () => {
        throw cause;
      },
    });
    const wanted = { code: 'FLOW_CALLBACK', callback: 'dedupe', cause };
    await expect(batcher.loadAsync('a')).rejects.toMatchObject(wanted);
    await expect(batcher.loadAsync('a', {})).rejects.toMatchObject(wanted);
    expect(await batcher.loadManyAsync(['a'])).toMatchObject([{ status: 'rejected', reason: wanted }]);
    expect(() => batcher.clear('a')).toThrow('createBatcher: `dedupe` threw');
    expect(() => batcher.prime('a', 'A')).toThrow('createBatcher: `dedupe` threw');
  });

  it('still moves a waiting item to a more urgent lane', async () => {
    const queue = lanes([{ name: 'urgent' }, { name: 'later' }]);
    const { batcher, sent } = shouting({ cache: lruCache(10), queue, maxSize: 1, concurrency: 1 });
    const loads = [batcher.loadAsync('busy'), batcher.loadAsync('a'), batcher.loadAsync('b'), batcher.loadAsync('b', { lane: 'urgent' })];
    await vi.advanceTimersByTimeAsync(100);
    expect(await Promise.all(loads)).toEqual(['BUSY', 'A', 'B', 'B']);
    expect(sent()).toEqual(['busy', 'b', 'a']);
    expect(() => batcher.loadAsync('a', { lane: 'typo' })).toThrow('createBatcher: lane `typo` is not one of `urgent`, `later`');
  });
});

describe('a cache of your own', () => {
  async function answered<V>(load: Promise<V>): Promise<V> {
    await vi.advanceTimersByTimeAsync(10);
    return load;
  }

  /** A `Map` with one method that throws. */
  function broken(method: 'get' | 'set' | 'delete' | 'clear', cause: Error): Map<unknown, string> {
    return Object.assign(new Map<unknown, string>(), {
      [method]: () => {
        throw cause;
      },
    });
  }

  it('answers what is in a Map, and keeps values in it by key', async () => {
    const cache = new Map<string, string>([['known', 'K']]);
    const { batcher, sent } = shouting({ cache, dedupe: (item) => item.toLowerCase() });
    expect(watch(batcher.load('KNOWN')).seen).toEqual(['K', 'complete']);
    expect(await answered(Promise.all([batcher.loadAsync('a'), batcher.loadAsync('A')]))).toEqual(['A', 'A']);
    expect([...cache]).toEqual([
      ['known', 'K'],
      ['a', 'A'],
    ]);
    expect(batcher.snapshot().cached).toBe(2);
    expect(sent()).toEqual(['a']);
  });

  it('clears and primes it', async () => {
    const cache = new Map<string, string>();
    const { batcher, sent } = shouting({ cache });
    batcher.prime('a', 'primed').prime('a', 'twice').prime('b', 'too');
    expect(await batcher.loadAsync('a')).toBe('primed');
    batcher.clear('a').prime('a', 'again');
    expect([...cache]).toEqual([
      ['b', 'too'],
      ['a', 'again'],
    ]);
    batcher.clearAll();
    expect(cache.size).toBe(0);
    await answered(batcher.loadAsync('a'));
    expect(sent()).toEqual(['a']);
  });

  it('is shared by the batchers that have it', async () => {
    const cache = new Map<string, string>();
    const [one, other] = [shouting({ cache }), shouting({ cache })];
    await answered(one.batcher.loadAsync('a'));
    expect(await other.batcher.loadAsync('a')).toBe('A');
    expect(other.sent()).toEqual([]);
  });

  it('remembers no failure, and no undefined', async () => {
    const cache = new Map<string, string>();
    const { batcher } = shouting({ cache }, () => badRequest);
    await expect(answered(batcher.loadAsync('a'))).rejects.toBe(badRequest);
    expect(cache.size).toBe(0);
    let calls = 0;
    const nothing = createBatcher((items: readonly string[]) => of(items.map(() => void calls++)), { cache: new Map<string, undefined>() });
    await nothing.loadAsync('a');
    await nothing.loadAsync('a');
    expect(calls).toBe(2);
  });

  it('makes a call when the cache has evicted the value', async () => {
    const cache = new Map<string, string>();
    const { batcher, sent } = shouting({ cache });
    await answered(batcher.loadAsync('a'));
    cache.delete('a');
    await answered(batcher.loadAsync('a'));
    expect(sent()).toEqual(['a', 'a']);
  });

  it('rejects a load whose value cannot be read, and only that', async () => {
    const cause = new Error('down');
    const { batcher, sent } = shouting({ cache: broken('get', cause) });
    const wanted = { code: 'FLOW_CALLBACK', callback: 'cache', cause };
    await expect(batcher.loadAsync('a')).rejects.toMatchObject(wanted);
    expect(await batcher.loadManyAsync(['a'])).toMatchObject([{ status: 'rejected', index: -1, reason: wanted }]);
    expect(batcher.snapshot()).toMatchObject({ queued: 0, executing: 0 });
    expect(sent()).toEqual([]);
    for (const method of ['delete', 'clear'] as const) {
      const { batcher: other } = shouting({ cache: broken(method, cause) });
      expect(() => (method === 'clear' ? other.clearAll() : other.clear('a'))).toThrow('createBatcher: `cache` threw');
    }
  });

  it('refuses one that answers with promises', async () => {
    const cache = Object.assign(new Map<string, string>(), { get: async () => undefined });
    const { batcher } = shouting({ cache: cache as never });
    await expect(batcher.loadAsync('a')).rejects.toThrow('createBatcher: `cache` must return a value, not a promise, returned a object');
  });

  it('answers loads whose value cannot be stored, and reports why', async () => {
    const cause = new Error('full');
    const { batcher } = shouting({ cache: broken('set', cause) });
    const reported: unknown[] = [];
    config.onUnhandledError = (error) => reported.push(error);
    expect(await answered(Promise.all([batcher.loadAsync('a'), batcher.loadAsync('b')]))).toEqual(['A', 'B']);
    await vi.advanceTimersByTimeAsync(1);
    config.onUnhandledError = null;
    expect(reported).toMatchObject([{ code: 'FLOW_CALLBACK', callback: 'cache', cause }, { cause }]);
  });

  it('may close the batcher, or send more, while it is asked', async () => {
    const closing = new Map<string, string>();
    const get = (): undefined => {
      batcher.close();
    };
    const { batcher } = shouting({ cache: Object.assign(closing, { get }) });
    await expect(batcher.loadAsync('a')).rejects.toBeInstanceOf(ClosedError);
    const eager = new Map<string, string>();
    let more: Promise<string> | undefined;
    const keep = eager.set.bind(eager);
    const { batcher: other, sent } = shouting({
      cache: Object.assign(eager, {
        set: (key: string, value: string) => {
          more ??= other.loadAsync('b');
          return keep(key, value);
        },
      }),
    });
    expect(await answered(other.loadAsync('a'))).toBe('A');
    expect(await answered(more as Promise<string>)).toBe('B');
    expect(sent()).toEqual(['a', 'b']);
  });
});

describe('loadManyAsync', () => {
  it('tells what became of each item, in their order', async () => {
    const { batcher } = shouting({ maxSize: 2 }, (items) => (items.includes('x') ? badRequest : undefined));
    const answer = batcher.loadManyAsync(['a', 'x', 'b']);
    await vi.advanceTimersByTimeAsync(1000);
    expect(await answer).toMatchObject([
      { status: 'fulfilled', value: 'A', input: 'a', index: 0 },
      { status: 'rejected', reason: badRequest, input: 'x', index: 1 },
      { status: 'fulfilled', value: 'B', input: 'b', index: 2 },
    ]);
  });

  it('gives its options to each of them, and does not reject when they leave', async () => {
    const stop = new AbortController();
    const { batcher, signals } = shouting({ queue: lanes([{ name: 'urgent' }, { name: 'later' }]) });
    const answer = batcher.loadManyAsync(['a', 'b'], { signal: stop.signal, lane: 'urgent', deadlineMs: 60_000 });
    await vi.advanceTimersByTimeAsync(5);
    stop.abort('enough');
    expect((await answer).map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    expect(signals[0]?.aborted).toBe(true);
    expect(getEventListeners(stop.signal, 'abort')).toHaveLength(0);
  });

  it('answers an empty list, and throws for anything but a list', async () => {
    const { batcher } = shouting();
    expect(await batcher.loadManyAsync([])).toEqual([]);
    expect(() => batcher.loadManyAsync('ab' as never)).toThrow('createBatcher: expected `items` to be an array, got `ab` (string)');
    expect(() => batcher.loadManyAsync(['a'], { deadlineMs: -1 })).toThrow('createBatcher: expected `deadlineMs` to be');
  });
});

describe('lanes', () => {
  it('are named by the load before the lane option, which comes before the last lane', async () => {
    const events: FlowEvent[] = [];
    const { batcher } = shouting({
      queue: lanes([{ name: 'urgent' }, { name: 'normal' }, { name: 'later' }], {
        by: (item: string) => (item === 'a' ? 'normal' : (undefined as never)),
      }),
      onEvent: (event) => events.push(event),
    });
    const loads = [batcher.loadAsync('a'), batcher.loadAsync('a', { lane: 'urgent' }), batcher.loadAsync('b')];
    expect(events.filter(({ type }) => type === 'accepted').map((event) => 'lane' in event && event.lane)).toEqual([
      'normal',
      'urgent',
      'later',
    ]);
    await vi.advanceTimersByTimeAsync(100);
    await Promise.all(loads);
  });
});

describe('what goes wrong', () => {
  it('is the end of one load, not of the batcher', async () => {
    const { batcher } = shouting({ maxQueued: 2, maxSize: 1, concurrency: 1, scheduler: atOnce() });
    const ends = Promise.allSettled(['a', 'b', 'c', 'd'].map((item) => firstValueFrom(batcher.load(item))));
    await vi.advanceTimersByTimeAsync(100);
    const [, , , refused] = await ends;
    expect((await ends).map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'fulfilled', 'rejected']);
    expect((refused as PromiseRejectedResult).reason).toBeInstanceOf(OverflowError);
    const later = batcher.loadAsync('e');
    await vi.advanceTimersByTimeAsync(100);
    expect(await later).toBe('E');
  });

  it('is tried again when it may pass', async () => {
    let calls = 0;
    const { batcher } = shouting({ random: () => 0.5 }, () => (calls++ === 0 ? overloaded : undefined));
    const answer = batcher.loadAsync('a');
    await vi.advanceTimersByTimeAsync(1000);
    expect(await answer).toBe('A');
    expect(calls).toBe(2);
  });

  it('ends every load, and the batcher, when the window throws', async () => {
    const cause = new Error('mine');
    const { batcher } = shouting({
      window: () => {
        throw cause;
      },
    });
    const ends = Promise.allSettled(['a', 'b'].map((item) => batcher.loadAsync(item)));
    await vi.advanceTimersByTimeAsync(100);
    expect(await ends).toMatchObject([{ reason: { code: 'FLOW_CALLBACK', cause } }, { reason: { code: 'FLOW_CALLBACK', cause } }]);
    await expect(batcher.loadAsync('c')).rejects.toBeInstanceOf(ClosedError);
    await batcher.drain();
  });

  it('ends every load, and the batcher, when the concurrency errors', async () => {
    const fault = new Error('the controller broke');
    const concurrency = new Subject<number>();
    const { batcher } = shouting({ concurrency });
    const answer = batcher.loadAsync('a').catch((error: unknown) => error);
    concurrency.error(fault);
    expect(await answer).toBe(fault);
    await batcher.drain();
  });

  it('ends every load when a shared limiter is closed', async () => {
    const limiter = createLimiter({ concurrency: 1 });
    const { batcher } = shouting({ limiter, maxSize: 1, scheduler: atOnce() });
    const ends = Promise.allSettled(['a', 'b'].map((item) => batcher.loadAsync(item)));
    limiter.close();
    expect((await ends).map((end) => end.status === 'rejected' && isFlowError(end.reason, 'FLOW_CLOSED'))).toEqual([true, true]);
  });
});

describe('flush', () => {
  it('does not wait for the window, and binds only what waits now', async () => {
    const { batcher, sent } = shouting({ window: fixed(1000) });
    const first = [batcher.loadAsync('a'), batcher.loadAsync('b')];
    await vi.advanceTimersByTimeAsync(1);
    batcher.flush();
    const second = batcher.loadAsync('c');
    await vi.advanceTimersByTimeAsync(100);
    expect(await Promise.all(first)).toEqual(['A', 'B']);
    expect(sent()).toEqual(['ab']);
    expect(batcher.snapshot()).toEqual({ queued: 1, executing: 0, heldBy: 'window', heldBack: 0, cached: 0 });
    await vi.advanceTimersByTimeAsync(1000);
    expect(await second).toBe('C');
  });

  it('does not wait for the end of the frame either', () => {
    const { batcher, sent } = shouting();
    const load = watch(batcher.load('a'));
    expect(sent()).toEqual([]);
    batcher.flush();
    expect(sent()).toEqual(['a']);
    load.leave();
  });

  it('does not pass the concurrency', async () => {
    const { batcher, sent } = shouting({ maxSize: 1, concurrency: 1, scheduler: atOnce() });
    const loads = ['a', 'b'].map((item) => batcher.loadAsync(item));
    batcher.flush();
    expect(sent()).toEqual(['a']);
    await vi.advanceTimersByTimeAsync(100);
    expect(await Promise.all(loads)).toEqual(['A', 'B']);
  });
});

describe('drain', () => {
  it('resolves when every accepted load has settled, refuses new ones, and does not wait for windows', async () => {
    const { batcher } = shouting({ window: fixed(60_000), deadlineMs: 3_600_000 });
    const loads = ['a', 'b'].map((item) => batcher.loadAsync(item));
    let drained = false;
    const ended = batcher.drain().then(() => {
      drained = true;
    });
    await expect(batcher.loadAsync('c')).rejects.toBeInstanceOf(ClosedError);
    await vi.advanceTimersByTimeAsync(5);
    expect(drained).toBe(false);
    await vi.advanceTimersByTimeAsync(5);
    await ended;
    expect(await Promise.all(loads)).toEqual(['A', 'B']);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('is the same promise every time, resolves at once when nothing is under way, and survives close', async () => {
    const { batcher } = shouting();
    const first = batcher.drain();
    expect(batcher.drain()).toBe(first);
    batcher.close();
    expect(batcher.drain()).toBe(first);
    await first;
  });

  it('waits for repairs too', async () => {
    const { batcher } = shouting({ random: () => 1 }, (items) => (items.includes('x') ? badRequest : undefined));
    const ends = Promise.allSettled(['a', 'x'].map((item) => batcher.loadAsync(item)));
    const drained = batcher.drain();
    await vi.advanceTimersByTimeAsync(1000);
    await drained;
    expect((await ends).map(({ status }) => status)).toEqual(['fulfilled', 'rejected']);
  });

  it('leaves a shared limiter open and a changing concurrency alone', async () => {
    const limiter = createLimiter({ concurrency: 1 });
    const shared = shouting({ limiter }).batcher;
    await shared.drain();
    limiter.tryAcquire()?.release();
    expect(limiter.executing).toBe(0);
    const concurrency = new Subject<number>();
    const following = shouting({ concurrency }).batcher;
    expect(concurrency.observed).toBe(true);
    await following.drain();
    expect(concurrency.observed).toBe(false);
  });

  it('is what `await using` waits for', async () => {
    const { batcher } = shouting();
    const load = batcher.loadAsync('a');
    const disposed = batcher[Symbol.asyncDispose]();
    await vi.advanceTimersByTimeAsync(100);
    await disposed;
    expect(await load).toBe('A');
  });
});

describe('close', () => {
  it('rejects what waits and what is under way, aborts the calls, and leaves no timer', async () => {
    const { batcher, signals } = shouting({ maxSize: 1, concurrency: 1, deadlineMs: 60_000 });
    const ends = Promise.allSettled(['a', 'b', 'c'].map((item) => batcher.loadAsync(item)));
    await vi.advanceTimersByTimeAsync(5);
    batcher.close();
    for (const end of await ends) expect((end as PromiseRejectedResult).reason).toBeInstanceOf(ClosedError);
    expect(signals.map(({ aborted }) => aborted)).toEqual([true]);
    expect(vi.getTimerCount()).toBe(0);
    await batcher.drain();
  });

  it('rejects what pauses before another attempt', async () => {
    const { batcher } = shouting({ repair: robust({ retry: { delayMs: 60_000, jitter: 'none' } }) }, () => overloaded);
    const answer = batcher.loadAsync('a').catch((error: unknown) => error);
    await vi.advanceTimersByTimeAsync(100);
    expect(batcher.snapshot()).toMatchObject({ queued: 1, executing: 0 });
    batcher.close();
    expect(await answer).toBeInstanceOf(ClosedError);
  });

  it('may be called twice, and from inside an answer', async () => {
    const { batcher } = shouting({ maxSize: 1, concurrency: 1 });
    const seen: unknown[] = [];
    batcher.load('a').subscribe(() => {
      batcher.close();
      batcher.close();
    });
    batcher.load('b').subscribe({ error: (error: unknown) => seen.push(error) });
    await vi.advanceTimersByTimeAsync(100);
    expect(seen).toHaveLength(1);
    expect(seen[0]).toBeInstanceOf(ClosedError);
  });
});

describe('snapshot', () => {
  it('tells what waits, for what, and what is under way', async () => {
    const limiter = createLimiter({ concurrency: 1, rates: [perMinute('requests', 60, { burst: 1 })], headroom: 1 });
    const { batcher } = shouting({ limiter, maxSize: 1, scheduler: atOnce() });
    expect(batcher.snapshot()).toEqual({ queued: 0, executing: 0, heldBy: 'window', heldBack: 0, cached: 0 });
    const loads = ['a', 'b', 'c'].map((item) => batcher.loadAsync(item));
    expect(batcher.snapshot()).toEqual({ queued: 2, executing: 1, heldBy: 'slot', heldBack: 0, cached: 0 });
    await vi.advanceTimersByTimeAsync(20);
    expect(batcher.snapshot()).toEqual({ queued: 2, executing: 0, heldBy: 'rate', heldBack: 0, cached: 0 });
    await vi.advanceTimersByTimeAsync(5000);
    expect(await Promise.all(loads)).toEqual(['A', 'B', 'C']);
  });
});

describe('events', () => {
  it('tell of a load that was left and of the end, in the name of createBatcher, without an item', async () => {
    const events: FlowEvent[] = [];
    const { batcher } = shouting({ onEvent: (event) => events.push(event), maxSize: 1, concurrency: 1, scheduler: atOnce() });
    const first = batcher.loadAsync('SECRET a');
    watch(batcher.load('SECRET b')).leave();
    const drained = batcher.drain();
    await vi.advanceTimersByTimeAsync(100);
    await Promise.all([first, drained]);
    expect(events.map(({ type }) => type)).toEqual([
      ...['accepted', 'batchFormed', 'attemptStarted', 'accepted', 'cancelled', 'attemptEnded', 'settled', 'drained'],
    ]);
    expect(events.every(({ operator }) => operator === 'createBatcher')).toBe(true);
    expect(JSON.stringify(events)).not.toContain('SECRET');
  });
});

describe('a frame', () => {
  const step = fc.oneof(
    { weight: 6, arbitrary: fc.constantFrom('load', 'shared') },
    { weight: 2, arbitrary: fc.constantFrom('urgent', 'stoppable', 'dated', 'stop', 'look') },
    { weight: 3, arbitrary: fc.constantFrom('flush', 'turn') },
  );

  /** Everything that can be seen of a script: the calls, what is queued meanwhile, and what became of each load. */
  async function play(script: readonly string[], options: BatcherOptions<number, string>, onEvent?: () => void): Promise<unknown> {
    const seen: unknown[] = [];
    const answers: Promise<string>[] = [];
    const batcher = createBatcher<number, string>(
      async (items) => {
        seen.push([...items]);
        await Promise.resolve();
        return items.map((item) => `r${String(item)}`);
      },
      {
        ...options,
        queue: lanes([{ name: 'urgent' }, { name: 'low', maxQueued: 9, overflow: 'dropOldest' }]),
        ...(onEvent && { onEvent }),
      },
    );
    let stop = new AbortController();
    for (const [item, what] of script.entries()) {
      if (what === 'load') answers.push(batcher.loadAsync(item));
      if (what === 'shared') answers.push(batcher.loadAsync(item % 3));
      if (what === 'urgent') answers.push(batcher.loadAsync(item % 3, { lane: 'urgent' }));
      if (what === 'stoppable') answers.push(batcher.loadAsync(item, { signal: stop.signal }));
      if (what === 'dated') answers.push(batcher.loadAsync(item, { deadlineMs: 60_000 }));
      if (what === 'stop') stop.abort(new Error('stopped'));
      if (what === 'stop') stop = new AbortController();
      if (what === 'flush') batcher.flush();
      if (what === 'turn') await Promise.resolve();
      if (what !== 'turn') seen.push(batcher.snapshot());
    }
    const drained = await batcher.drain();
    return [seen, drained, await Promise.allSettled(answers)];
  }

  it('shows the same with and without a listener for each item', async () => {
    const options = fc.record({
      maxSize: fc.integer({ min: 1, max: 6 }),
      maxQueued: fc.integer({ min: 1, max: 8 }),
      concurrency: fc.integer({ min: 1, max: 2 }),
      maxWeight: fc.constantFrom(2.5, Infinity),
      scheduler: fc.constantFrom(undefined, atOnce()),
      cache: fc.constantFrom(lruCache(2), lruCache(Infinity), undefined),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 30 }), options, async (script, { cache, scheduler, ...rest }) => {
        const given = { ...rest, ...(cache && { cache }), ...(scheduler && { scheduler }) };
        expect(await play(script, given)).toEqual(await play(script, given, () => undefined));
      }),
      { numRuns: sized(100, 300) },
    );
  });

  it('does the same with a Map as with a cache of its own without a bound', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 30 }), async (script) => {
        const [own, map] = [lruCache(Infinity), new Map<never, never>()];
        expect(await play(script, { cache: map })).toEqual(await play(script, { cache: own }));
      }),
      { numRuns: sized(100, 300) },
    );
  });

  it('sends an item once though a callback that is asked about it loads it again', async () => {
    const calls: number[][] = [];
    let again: Promise<number> | undefined;
    const batcher = createBatcher<number, number>(
      (items) => {
        calls.push([...items]);
        return of(items.map((item) => 2 * item));
      },
      {
        dedupe: (item) => item,
        weigh: (item) => {
          again ??= batcher.loadAsync(item);
          return 1;
        },
      },
    );
    expect(await Promise.all([batcher.loadAsync(4), again])).toEqual([8, 8]);
    expect(calls).toEqual([[4]]);
  });
});

describe('options of a load', () => {
  it.each([null, 5, 'user', true])('must be an object, not %o', (options) => {
    const { batcher } = shouting();
    const message = /^createBatcher: expected `load options` to be an object, got /;
    expect(() => batcher.load('a', options as never)).toThrow(message);
    expect(() => batcher.loadSettled('a', options as never)).toThrow(message);
    expect(() => batcher.loadAsync('a', options as never)).toThrow(message);
    expect(() => batcher.loadManyAsync(['a'], options as never)).toThrow(message);
  });

  it('are known by name', () => {
    const { batcher } = shouting();
    expect(() => batcher.loadAsync('a', { deadline: 5 } as never)).toThrow(
      /^createBatcher: unknown option `deadline` in `load options`\. Did you mean `deadlineMs`/,
    );
  });
});

it.each(['close', 'abort'] as const)('settles a load whose own `dedupe` says %s while it looks for room', async (how) => {
  const stop = new AbortController();
  let asked = 0;
  const batcher = createBatcher((_items: readonly number[]) => new Promise<number[]>(() => undefined), {
    maxQueued: 1,
    concurrency: 1,
    maxSize: 1,
    timeoutMs: Infinity,
    dedupe: (item) => {
      if (item === 2 && ++asked === 1) {
        if (how === 'close') batcher.close();
        else stop.abort();
      }
      return item;
    },
  });
  const first = [0, 1].map((item) => batcher.loadAsync(item));
  const last = batcher.loadAsync(2, { signal: stop.signal });
  expect((await Promise.allSettled([last]))[0].status).toBe('rejected');
  batcher.close();
  expect((await Promise.allSettled(first)).map(({ status }) => status)).toEqual(['rejected', 'rejected']);
});

const echo: BatchWork<string, string> = (items) => of(items);

describe('a signal that several loads share', () => {
  it('starts no call for a load that is about to leave when it frees the slot of another', () => {
    const sent: string[][] = [];
    virtualTime(({ flush }) => {
      const work: BatchWork<string, string> = (items) => {
        sent.push([...items]);
        return NEVER;
      };
      const batcher = createBatcher(work, { maxSize: 1, concurrency: 1 });
      const stop = new AbortController();
      for (const item of ['a', 'b', 'c']) batcher.load(item, { signal: stop.signal }).subscribe({ error: () => undefined });
      stop.abort();
      flush();
    });
    expect(sent).toEqual([['a']]);
  });

  it('gets one listener, so that Node does not warn of a leak', () => {
    const stop = new AbortController();
    const added = vi.spyOn(stop.signal, 'addEventListener');
    const removed = vi.spyOn(stop.signal, 'removeEventListener');
    virtualTime(({ flush }) => {
      const batcher = createBatcher(echo, { maxSize: 100 });
      for (let i = 0; i < 50; i++) batcher.load(String(i), { signal: stop.signal }).subscribe();
      flush();
    });
    expect(added).toHaveBeenCalledTimes(1);
    expect(removed).toHaveBeenCalledTimes(1);
  });
});

describe('a load', () => {
  it('whose signal aborts while it is being accepted is never sent', () => {
    const sent: string[][] = [];
    virtualTime(({ flush }) => {
      const stop = new AbortController();
      const work: BatchWork<string, string> = (items) => {
        sent.push([...items]);
        return of(items);
      };
      const weigh = (): number => {
        stop.abort();
        return 1;
      };
      const batcher = createBatcher(work, { weigh });
      batcher.load('a', { signal: stop.signal }).subscribe({ error: () => undefined });
      flush();
      expect(batcher.snapshot()).toMatchObject({ queued: 0, executing: 0 });
    });
    expect(sent).toEqual([]);
  });
});

it('a load that its own `key` makes leave keeps no later load of that key waiting', async () => {
  const controller = new AbortController();
  const batcher = createBatcher(echo, {
    order: orderPerKey((item) => {
      if (item === 'a') controller.abort(new Error('left'));
      return 'one key';
    }),
  });
  await expect(batcher.loadAsync('a', { signal: controller.signal })).rejects.toThrow('left');
  await expect(batcher.loadAsync('b')).resolves.toBe('b');
  expect(batcher.snapshot()).toMatchObject({ queued: 0, executing: 0, heldBack: 0 });
});
