import type { Observable } from 'rxjs';
import { from, lastValueFrom, map, NEVER, of, Subject, timer, toArray, VirtualTimeScheduler } from 'rxjs';
import { describe, expect, it } from 'vitest';
import type { FlowEvent, Settled } from '../../operators/index.js';
import {
  batch,
  batchMap,
  batchMapFrom,
  createBatcher,
  inputOrder,
  isFlowError,
  lruCache,
  mergeLanes,
  toAsyncIterable,
  toReadableStream,
  unwrap,
} from '../../operators/index.js';

/** The bounds of what waits, and which side waits for the other. */

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

describe('without a bound of yours', () => {
  const echo = (items: readonly number[]) => timer(1).pipe(map(() => items));
  const all = Array.from({ length: 3000 }, (_, n) => n);

  it('3,000 items at once are all answered by batchMap, in the order of input as well', async () => {
    expect(await lastValueFrom(from(all).pipe(batchMap(echo), unwrap('values'), toArray()))).toHaveLength(3000);
    expect(await lastValueFrom(from(all).pipe(batchMap(echo, { order: inputOrder() }), unwrap('values'), toArray()))).toEqual(all);
  });

  it('3,000 loads at once are all answered by createBatcher', async () => {
    const batcher = createBatcher(echo);
    expect(await Promise.all(all.map((n) => batcher.loadAsync(n)))).toEqual(all);
    expect((await batcher.loadManyAsync(all)).every(({ status }) => status === 'fulfilled')).toBe(true);
  });

  it('mergeLanes keeps 3,000 items for one batch', async () => {
    const [merged] = await lastValueFrom(mergeLanes([{ name: 'only', source: of(...all) }], { maxSize: Infinity }).pipe(toArray()));
    expect(merged?.items).toEqual(all);
  });

  it('a queue of 10,000 is told of once, and again when it has been empty in between', () => {
    const scheduler = new VirtualTimeScheduler();
    const source = new Subject<number>();
    const told: number[] = [];
    const onEvent = (event: FlowEvent): void => {
      if (event.type === 'queueLong') told.push(event.queued);
    };
    source.pipe(batchMap((items) => of(items), { maxSize: Infinity, maxWeight: Infinity, scheduler, onEvent })).subscribe();
    for (let n = 0; n < 12_000; n++) source.next(n);
    scheduler.flush();
    expect(told).toEqual([10_000]);
    for (let n = 0; n < 12_000; n++) source.next(n);
    expect(told).toEqual([10_000, 10_000]);
  });

  it('results held back for an early one are at most 1,000, and what comes after waits to be sent', () => {
    const scheduler = new VirtualTimeScheduler();
    const first = new Subject<readonly number[]>();
    const seen: number[] = [];
    let sent = 0;
    const work = (items: readonly number[]): Observable<readonly number[]> => {
      sent += items.length;
      return items.includes(0) ? first : of(items);
    };
    from(all)
      .pipe(batchMap(work, { maxSize: 1, concurrency: 2, order: inputOrder(), timeoutMs: Infinity, scheduler }))
      .subscribe(({ input }) => seen.push(input));
    scheduler.flush();
    expect([sent, seen.length]).toEqual([1001, 0]);
    first.next([0]);
    first.complete();
    scheduler.flush();
    expect(seen).toEqual(all);
  });
});

describe('a promised load where there is no room', () => {
  const echo = (items: readonly number[]) => timer(1).pipe(map(() => items));
  const code = (error: unknown): string => (isFlowError(error) ? error.code : (error as Error).name);

  it('waits for it, while `load` overflows', async () => {
    const batcher = createBatcher(echo, { maxQueued: 2, concurrency: 1, maxSize: 2 });
    const promised = [1, 2, 3, 4, 5, 6, 7].map((n) => batcher.loadAsync(n));
    const many = batcher.loadManyAsync([8, 9]);
    expect(batcher.snapshot().queued).toBe(2);
    expect(await lastValueFrom(batcher.load(10)).catch(code)).toBe('FLOW_OVERFLOW');
    expect(await Promise.all(promised)).toEqual([1, 2, 3, 4, 5, 6, 7]);
    expect((await many).map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled']);
  });

  it('is served by a drain, refused by a close, and leaves with its signal', async () => {
    for (const end of ['drain', 'close'] as const) {
      const batcher = createBatcher(echo, { maxQueued: 1, concurrency: 1, maxSize: 1 });
      const controller = new AbortController();
      const answers = [1, 2, 3].map((n) => batcher.loadAsync(n).catch(code));
      const left = batcher.loadAsync(4, { signal: controller.signal }).catch(code);
      controller.abort();
      const over = batcher.drain();
      const refused = batcher.loadAsync(5).catch(code);
      if (end === 'close') batcher.close();
      const closed = 'FLOW_CLOSED';
      expect(await Promise.all(answers)).toEqual(end === 'drain' ? [1, 2, 3] : [closed, closed, closed]);
      expect(await Promise.all([left, refused])).toEqual(['AbortError', closed]);
      expect(await over).toEqual(end === 'drain' ? { done: 3, aborted: 0, dropped: 0 } : { done: 0, aborted: 1, dropped: 2 });
    }
  });

  it('does not wait for what is known, and gives way under a policy that drops', async () => {
    const cached = createBatcher(echo, { maxQueued: 1, concurrency: 1, maxSize: 1, cache: lruCache(10) });
    cached.prime(7, 70);
    void cached.loadAsync(1);
    expect(await Promise.race([cached.loadAsync(2), cached.loadAsync(7)])).toBe(70);
    const dropping = createBatcher(echo, { maxQueued: 1, overflow: 'dropOldest' });
    expect(await Promise.all([1, 2].map((n) => dropping.loadAsync(n).catch(code)))).toEqual(['FLOW_OVERFLOW', 2]);
  });
});

describe('a reader that takes its time', () => {
  /** What is read of the input while so many results were taken, and how it ended. */
  async function slowly(results: (input: Iterable<number>) => AsyncIterable<unknown>) {
    let read = 0;
    let ahead = 0;
    let seen = 0;
    function* rows(): Generator<number> {
      for (let n = 0; n < 5000; n++) {
        read++;
        yield n;
      }
    }
    for await (const _ of results(rows())) {
      ahead = Math.max(ahead, read - ++seen);
      if (seen % 20 === 0) await pause(1);
      if (seen === 1200) break;
    }
    return { ahead, seen };
  }
  const work = (items: readonly number[]) => timer(1).pipe(map(() => items));

  it.each<[string, (source: Observable<Settled<number, number>>) => AsyncIterable<unknown>]>([
    ['toAsyncIterable', (source) => toAsyncIterable(source)],
    ['toAsyncIterable behind other operators', (source) => toAsyncIterable(source.pipe(map(({ input }) => String(input))))],
    ['toReadableStream', (source) => toReadableStream(source)],
    ['toAsyncIterable with room for 10', (source) => toAsyncIterable(source, { maxQueued: 10 })],
  ])('through %s has batchMapFrom read no further than what is on its way', async (_name, read) => {
    const { ahead, seen } = await slowly((input) => read(batchMapFrom(input, work, { maxSize: 20, concurrency: 4 })));
    expect(seen).toBe(1200);
    expect(ahead).toBeLessThanOrEqual(_name.endsWith('10') ? 11 : 161);
  });

  it('and leaves at once, or reads two inputs together, gets each value once', async () => {
    const seen: number[] = [];
    const both = from([0, 1]).pipe(
      map((n) => batchMapFrom([2 * n, 2 * n + 1], work, { maxSize: 1 })),
      toArray(),
    );
    for (const source of await lastValueFrom(both)) {
      for await (const one of toAsyncIterable(source)) seen.push(one.input);
    }
    expect(seen).toEqual([0, 1, 2, 3]);
    const iterator = toAsyncIterable(batchMapFrom(new Set([1, 2, 3]), () => NEVER))[Symbol.asyncIterator]();
    const next = iterator.next();
    await iterator.return();
    expect(await next).toEqual({ done: true, value: undefined });
  });
});

describe('a flush of batch', () => {
  it('from the source itself closes the batch with the item that came before it in the same call', () => {
    const source = new Subject<string>();
    const flush = new Subject<void>();
    const seen: string[][] = [];
    source.pipe(batch({ flush, maxWaitMs: Infinity })).subscribe((items) => seen.push(items));
    const last = (item: string): void => {
      source.next(item);
      flush.next();
    };
    source.next('a');
    last('b');
    last('c');
    expect(seen).toEqual([['a', 'b'], ['c']]);
  });

  it('is subscribed to before the source: one made of the source comes before the item that made it', () => {
    const source = new Subject<string>();
    const seen: string[][] = [];
    source.pipe(batch({ flush: source, maxWaitMs: Infinity })).subscribe((items) => seen.push(items));
    for (const item of ['a', 'b', 'c']) source.next(item);
    source.complete();
    expect(seen).toEqual([['a'], ['b'], ['c']]);
  });
});
