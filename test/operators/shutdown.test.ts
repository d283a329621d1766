import { getEventListeners } from 'node:events';
import { setImmediate } from 'node:timers/promises';
import { firstValueFrom, map, NEVER, of, Subject, throwError, timer } from 'rxjs';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Batcher, FlowEvent, FlowSink, Handle } from '../../operators/index.js';
import {
  AttemptTimeoutError,
  ClosedError,
  classifyError,
  createBatcher,
  createIntake,
  createLimiter,
  FlowConfigError,
  fixed,
  inputOrder,
  lanes,
  robust,
} from '../../operators/index.js';
import type { Drained, DrainOptions } from '../../operators/options/types.js';
import { CLOSE_GRACE_MS } from '../../src/pipelines/connection.js';
import { createEmbedder } from '../../src/pipelines/create-embedder.js';
import { embeddings } from '../../src/pipelines/embeddings-api.js';

/** Errors of SDKs are read, and whatever can be repaired is. */
const repaired = { classify: classifyError, repair: robust() };

const none: Drained = { done: 0, aborted: 0, dropped: 0 };

/** A handle that was given three pieces of work: for all but the intake one is under way and takes 100 ms, and two wait for it. */
interface Busy {
  readonly handle: Handle;
  /** What drains when the work is allowed to end. */
  readonly work: () => Promise<unknown>;
  readonly givenUp: Drained;
}

interface Kind {
  readonly name: string;
  readonly idle: (onEvent?: FlowSink) => Handle;
  readonly busy: () => Busy;
}

const answer = (texts: readonly string[]) => timer(100).pipe(map(() => texts));
const embedding = (onEvent?: FlowSink) =>
  createEmbedder({
    maxSize: 1,
    concurrency: 1,
    ...(onEvent && { onEvent }),
    call: embeddings({
      baseUrl: 'http://127.0.0.1:9/v1',
      model: 'm',
      fetch: (_url, init) =>
        new Promise((resolve, reject) => {
          const ended = setTimeout(() => {
            resolve(Response.json({ data: [{ index: 0, embedding: [1] }] }));
          }, 100);
          init?.signal?.addEventListener('abort', () => {
            clearTimeout(ended);
            reject(new DOMException('aborted', 'AbortError'));
          });
        }),
    }),
  });

const kinds: readonly Kind[] = [
  {
    name: 'createBatcher',
    idle: (onEvent) => createBatcher(answer, { ...(onEvent && { onEvent }) }),
    busy: () => {
      const handle = createBatcher(answer, { maxSize: 1, concurrency: 1 });
      const loads = Promise.allSettled(['a', 'b', 'c'].map((text) => handle.loadAsync(text)));
      return { handle, work: () => loads, givenUp: { done: 0, aborted: 1, dropped: 2 } };
    },
  },
  {
    name: 'createLimiter',
    idle: (onEvent) => createLimiter({ ...(onEvent && { onEvent }) }),
    busy: () => {
      const handle = createLimiter({ concurrency: 1 });
      const runs = Promise.allSettled(['a', 'b', 'c'].map((text) => handle.runAsync(() => answer([text]))));
      return { handle, work: () => runs, givenUp: { done: 0, aborted: 1, dropped: 2 } };
    },
  },
  {
    name: 'createIntake',
    idle: (onEvent) => createIntake({ ...(onEvent && { onEvent }) }),
    busy: () => {
      const handle = createIntake<string>();
      for (const text of ['a', 'b', 'c']) handle.tryOffer(text);
      const read = async (): Promise<void> => {
        for await (const _ of handle);
      };
      return { handle, work: read, givenUp: { done: 0, aborted: 0, dropped: 3 } };
    },
  },
  {
    name: 'createEmbedder',
    idle: embedding,
    busy: () => {
      const handle = embedding();
      const texts = Promise.allSettled(['a', 'b', 'c'].map((text) => handle.embedAsync(text)));
      return { handle, work: () => texts, givenUp: { done: 0, aborted: 1, dropped: 2 } };
    },
  },
];

const listeners = (signal: AbortSignal): number => getEventListeners(signal, 'abort').length;

/** What has become of a promise by now. */
async function now<T>(promise: Promise<T>): Promise<T | 'pending'> {
  const later = vi.advanceTimersByTimeAsync(0);
  return Promise.race([promise, later.then(() => 'pending' as const)]);
}

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(async () => {
  // A call of an embedder that was cut off is under way until its server has seen that.
  await vi.advanceTimersByTimeAsync(CLOSE_GRACE_MS);
  expect(vi.getTimerCount()).toBe(0);
  vi.useRealTimers();
});

describe.each(kinds)('$name', ({ name, idle, busy }) => {
  it('drains at once when nothing was accepted, once and for all, and leaves no timer', async () => {
    const handle = idle();
    const drained = handle.drain({ timeoutMs: 1000 });
    expect(handle.drain()).toBe(drained);
    expect(await drained).toEqual(none);
    handle.close();
    expect(handle.drain({ timeoutMs: 5 })).toBe(drained);
    await handle[Symbol.asyncDispose]();
    await idle()[Symbol.asyncDispose]();
  });

  it('lets what was accepted end by itself, and counts it as done', async () => {
    const { handle, work } = busy();
    await vi.advanceTimersByTimeAsync(1);
    const drained = handle.drain();
    expect(await now(drained)).toBe('pending');
    const ended = work();
    await vi.advanceTimersByTimeAsync(1000);
    await ended;
    expect(await drained).toEqual({ done: 3, aborted: 0, dropped: 0 });
  });

  it('gives up the rest when the time is over', async () => {
    const { handle, givenUp } = busy();
    await vi.advanceTimersByTimeAsync(1);
    const drained = handle.drain({ timeoutMs: 50 });
    await vi.advanceTimersByTimeAsync(49);
    expect(await now(drained)).toBe('pending');
    await vi.advanceTimersByTimeAsync(1);
    expect(await now(drained)).toEqual(givenUp);
  });

  it('is given up earlier by a later call with less time, and never later', async () => {
    const { handle, givenUp } = busy();
    await vi.advanceTimersByTimeAsync(1);
    const drained = handle.drain({ timeoutMs: 80 });
    expect(handle.drain({ timeoutMs: 20 })).toBe(drained);
    void handle.drain();
    void handle.drain({ timeoutMs: 60 });
    await vi.advanceTimersByTimeAsync(20);
    expect(await now(drained)).toEqual(givenUp);
  });

  it('gives up at once when it is closed, also while it drains, and tells what became of everything', async () => {
    const [closed, draining] = [busy(), busy()];
    await vi.advanceTimersByTimeAsync(1);
    closed.handle.close();
    closed.handle.close();
    expect(await now(closed.handle.drain())).toEqual(closed.givenUp);
    const drained = draining.handle.drain({ timeoutMs: 1000 });
    draining.handle.close();
    expect(await now(drained)).toEqual(draining.givenUp);
  });

  it('drains when the signal aborts, within the time it was given, and then listens no more', async () => {
    const { handle, givenUp } = busy();
    await vi.advanceTimersByTimeAsync(1);
    const stop = new AbortController();
    expect(handle.shutdownOn(stop.signal, { timeoutMs: 50 })).toBe(handle);
    expect(listeners(stop.signal)).toBe(1);
    stop.abort();
    await vi.advanceTimersByTimeAsync(50);
    expect(await now(handle.drain())).toEqual(givenUp);
    expect(listeners(stop.signal)).toBe(0);
  });

  it('listens to no signal once it is over, drains at once under one that has aborted, and ignores one that comes too late', async () => {
    const session = new AbortController();
    for (let i = 0; i < 100; i++) await idle().shutdownOn(session.signal).drain();
    for (let i = 0; i < 100; i++) idle().shutdownOn(session.signal).close();
    expect(listeners(session.signal)).toBe(0);
    const over = idle();
    over.close();
    over.shutdownOn(session.signal);
    expect(listeners(session.signal)).toBe(0);
    const handle = idle().shutdownOn(AbortSignal.abort());
    expect(await now(handle.drain())).toEqual(none);
  });

  it('tells of its end once', async () => {
    const seen: FlowEvent[] = [];
    const handle = idle((event) => seen.push(event));
    await handle.drain();
    handle.close();
    expect(seen.filter((event) => event.type === 'drained' && event.operator === name)).toHaveLength(1);
  });

  it('refuses nonsense where it is said', () => {
    const handle = idle();
    const bad: DrainOptions[] = [
      { timeoutMs: -1 },
      { timeoutMs: NaN },
      { timeoutMs: '5' as never },
      { timeout: 5 } as never,
      null as never,
      5 as never,
    ];
    for (const options of bad) {
      expect(() => handle.drain(options)).toThrow(FlowConfigError);
      expect(() => handle.shutdownOn(new AbortController().signal, options)).toThrow(FlowConfigError);
    }
    for (const signal of [undefined, null, 5, {}, new AbortController()]) {
      expect(() => handle.shutdownOn(signal as never)).toThrow(/expected `signal` to be an AbortSignal/);
    }
  });
});

describe('what a batcher counts', () => {
  it('as done is a result and an error of its own; what its caller left is in nothing', async () => {
    const batcher = createBatcher((items: readonly string[]) => (items[0] === 'bad' ? throwError(() => new Error('no')) : answer(items)), {
      maxSize: 1,
      concurrency: 1,
    });
    const before = batcher.loadAsync('before');
    await vi.advanceTimersByTimeAsync(200);
    await before;
    const loads = ['good', 'bad', 'late'].map((item) => batcher.loadAsync(item, item === 'late' ? { deadlineMs: 50 } : {}));
    const left = batcher.load('left').subscribe();
    const drained = batcher.drain();
    left.unsubscribe();
    await vi.advanceTimersByTimeAsync(500);
    const ends = await Promise.allSettled(loads);
    expect(ends.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected']);
    expect(await drained).toEqual({ done: 3, aborted: 0, dropped: 0 });
  });

  it('as aborted is also what pauses between two attempts: it has been sent before', async () => {
    const batcher = createBatcher(() => throwError(() => Object.assign(new Error('busy'), { status: 503 })), {
      maxSize: 1,
      concurrency: 1,
      classify: classifyError,
      repair: robust({ retry: { delayMs: 10_000, jitter: 'none' } }),
    });
    const load = batcher.loadAsync('a');
    const drained = batcher.drain({ timeoutMs: 100 });
    await vi.advanceTimersByTimeAsync(100);
    await expect(load).rejects.toBeInstanceOf(ClosedError);
    expect(await drained).toEqual({ done: 0, aborted: 1, dropped: 0 });
  });

  it('is one item for loads that share it', async () => {
    const batcher = createBatcher(answer, { dedupe: (item) => item });
    const loads = ['a', 'a', 'b'].map((item) => batcher.loadAsync(item));
    const drained = batcher.drain();
    await vi.advanceTimersByTimeAsync(200);
    await Promise.all(loads);
    expect(await drained).toEqual({ done: 2, aborted: 0, dropped: 0 });
  });

  it('waits for no window, and for repairs', async () => {
    let calls = 0;
    const batcher = createBatcher(
      (items: readonly string[]) =>
        ++calls === 1
          ? timer(10).pipe(
              map(() => {
                throw new AttemptTimeoutError('test', 10);
              }),
            )
          : of(items),
      { ...repaired, window: fixed(60_000), random: () => 0 },
    );
    const load = batcher.loadAsync('a');
    const drained = batcher.drain();
    await vi.advanceTimersByTimeAsync(1000);
    expect([await load, calls]).toEqual(['a', 2]);
    expect(await drained).toEqual({ done: 1, aborted: 0, dropped: 0 });
  });
});

describe('what a limiter gives up', () => {
  it('is the work of run and runAsync, whose signal aborts and whose caller gets ClosedError', async () => {
    const limiter = createLimiter();
    const signals: AbortSignal[] = [];
    const seen: unknown[] = [];
    const work = ({ signal }: { readonly signal: AbortSignal }) => {
      signals.push(signal);
      return new Promise<never>(() => undefined);
    };
    let subscribed = 0;
    const stream = () => {
      subscribed++;
      return NEVER.pipe((source) => source);
    };
    limiter.run(work).subscribe({ error: (error: unknown) => seen.push(error) });
    limiter.run(stream).subscribe({ error: (error: unknown) => seen.push(error) });
    void limiter.runAsync(work).catch((error: unknown) => seen.push(error));
    void limiter.runAsync(() => timer(1e6)).catch((error: unknown) => seen.push(error));
    void limiter.runAsync(work, { signal: new AbortController().signal }).catch((error: unknown) => seen.push(error));
    expect([limiter.executing, subscribed, vi.getTimerCount()]).toEqual([5, 1, 1]);
    const drained = limiter.drain({ timeoutMs: 10 });
    await vi.advanceTimersByTimeAsync(10);
    expect(await drained).toEqual({ done: 0, aborted: 5, dropped: 0 });
    expect(seen).toHaveLength(5);
    expect(seen.every((error) => error instanceof ClosedError)).toBe(true);
    expect(signals.map(({ aborted }) => aborted)).toEqual([true, true, true]);
    expect(limiter.executing).toBe(0);
  });

  it('is not a lease that was acquired: it is counted as aborted and stays valid until it is released', async () => {
    const limiter = createLimiter({ concurrency: 1 });
    const lease = limiter.tryAcquire();
    const waiting = limiter.acquireAsync();
    const drained = limiter.drain({ timeoutMs: 10 });
    await Promise.all([vi.advanceTimersByTimeAsync(10), expect(waiting).rejects.toBeInstanceOf(ClosedError)]);
    expect([await drained, limiter.executing]).toEqual([{ done: 0, aborted: 1, dropped: 1 }, 1]);
    lease?.release();
    expect(limiter.executing).toBe(0);
    expect(await drained).toEqual({ done: 0, aborted: 1, dropped: 1 });
  });

  it('is nothing that its caller gave up before: that is in none of the counts', async () => {
    const limiter = createLimiter({ abortGraceMs: 50 });
    const left = limiter.run(() => new Promise<never>(() => undefined)).subscribe();
    const drained = limiter.drain({ timeoutMs: 1000 });
    left.unsubscribe();
    await vi.advanceTimersByTimeAsync(50);
    expect(await drained).toEqual(none);
  });
});

describe('an intake that drains', () => {
  it('rejects waiting offers, hands out queued items, and reports how many were left when the time is over', async () => {
    const intake = createIntake<string>({ maxQueued: 2 });
    intake.tryOffer('a');
    intake.tryOffer('b');
    const waiting = intake.offer('c');
    const drained = intake.drain({ timeoutMs: 100 });
    expect(await waiting).toBe(false);
    const reader = intake[Symbol.asyncIterator]();
    expect(await reader.next()).toEqual({ done: false, value: 'a' });
    await vi.advanceTimersByTimeAsync(100);
    expect(await drained).toEqual({ done: 1, aborted: 0, dropped: 1 });
    expect(await reader.next()).toEqual({ done: true, value: undefined });
  });
});

describe('an embedder', () => {
  it('completes its events when it is over, drained or closed', async () => {
    const ends: string[] = [];
    const [drained, closed] = [embedding(), embedding()];
    drained.events.subscribe({ complete: () => ends.push('drained') });
    closed.events.subscribe({ complete: () => ends.push('closed') });
    await drained.drain();
    closed.close();
    expect(ends).toEqual(['drained', 'closed']);
  });

  it('sends what waits for a window when it is flushed', async () => {
    const embedder = embedding();
    const answered = embedder.embedAsync('a', { lane: 'background' });
    embedder.flush();
    await vi.advanceTimersByTimeAsync(100);
    expect(await answered).toHaveLength(1);
  });
});

describe('a createBatcher that ends in the middle of something', () => {
  const echo = (items: readonly number[]) => of([...items]);
  const ways = (['close', 'drain'] as const).flatMap((end) =>
    (['dedupe', 'weigh', 'lane', 'id', 'deadlineMs'] as const).map((callback) => ({ end, callback })),
  );

  const fate = async (load: Promise<unknown>): Promise<unknown> =>
    load.catch((reason: unknown) => (reason instanceof ClosedError ? 'closed' : reason));

  it.each(ways)('settles the load whose $callback calls $end', async ({ end, callback }) => {
    const results = { dedupe: 1, weigh: 1, lane: 'a', id: 'a', deadlineMs: 1000 };
    const made = (): Batcher<number, number> => {
      const ends = () => {
        void batcher[end]();
        return results[callback];
      };
      const options = callback === 'lane' ? { queue: lanes([{ name: 'a' }], { by: ends as () => string }) } : { [callback]: ends };
      const batcher = createBatcher<number, number>(echo, options);
      return batcher;
    };
    // An item that was accepted before the drain began is answered.
    const expected = end === 'drain' && callback !== 'dedupe' ? 1 : 'closed';
    const [first, second, third] = [made(), made(), made()];
    expect(await fate(first.loadAsync(1))).toBe(expected);
    expect(await fate(firstValueFrom(second.load(1)))).toBe(expected);
    const [one, two] = await third.loadManyAsync([1, 2]);
    expect(one).toMatchObject(expected === 1 ? { value: 1 } : { reason: { code: 'FLOW_CLOSED' } });
    expect(two).toMatchObject({ reason: { code: 'FLOW_CLOSED' } });
    const accepted = callback === 'dedupe' ? none : end === 'drain' ? { ...none, done: 1 } : { ...none, dropped: 1 };
    expect([await first.drain(), await second.drain(), await third.drain()]).toEqual([accepted, accepted, accepted]);
  });

  it.each(['close', 'drain'] as const)('settles the load whose accepted event calls %s', async (end) => {
    const batcher: Batcher<number, number> = createBatcher(echo, {
      onEvent: ({ type }) => {
        if (type === 'accepted') void batcher[end]();
      },
    });
    expect(await fate(batcher.loadAsync(1))).toBe(end === 'drain' ? 1 : 'closed');
    expect(await batcher.drain()).toEqual(end === 'drain' ? { ...none, done: 1 } : { ...none, dropped: 1 });
  });

  it('ends a load whose dedupe aborts its signal', async () => {
    const controller = new AbortController();
    const batcher = createBatcher(() => NEVER, {
      dedupe: (item: number) => {
        controller.abort();
        return item;
      },
    });
    await expect(batcher.loadAsync(1, { signal: controller.signal })).rejects.toBe(controller.signal.reason);
    expect(await batcher.drain()).toEqual(none);
  });

  it('counts a failure without a reason as done', async () => {
    const batcher = createBatcher(() => Promise.reject<string[]>(undefined as unknown as Error));
    const load = batcher.loadAsync('a');
    expect(await batcher.drain()).toEqual({ ...none, done: 1 });
    await expect(load).rejects.toBeUndefined();
  });

  it('does not count a load that was left while its answer waited for an earlier one', async () => {
    const [first, second] = [new Subject<number[]>(), new Subject<number[]>()];
    const batcher = createBatcher(([item]: readonly number[]) => (item === 1 ? first : second), { maxSize: 1, order: inputOrder() });
    const early = batcher.loadAsync(1);
    const late = batcher.load(2).subscribe();
    await setImmediate();
    const drained = batcher.drain();
    second.next([2]);
    second.complete();
    expect(batcher.snapshot().heldBack).toBe(1);
    late.unsubscribe();
    first.next([1]);
    first.complete();
    expect([await early, await drained]).toEqual([1, { ...none, done: 1 }]);
  });
});
