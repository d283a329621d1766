import DataLoader from 'dataloader';
import PQueue from 'p-queue';
import type { Subscription } from 'rxjs';
import { concat, delay, from, interval, lastValueFrom, map, mergeMap, NEVER, of, Subject, take, throwError, timer, toArray } from 'rxjs';
import { describe, expect, it, vi } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import type { Limiter, LimiterJob, RateRule } from '../../operators/index.js';
import {
  adaptiveLimit,
  batch,
  batchMap,
  bulkheadMap,
  classifyError,
  createBatcher,
  createLimiter,
  divideAndConquer,
  fixed,
  lanes,
  mergeLanes,
  perMinute,
  retryFailed,
  slidingWindow,
} from '../../operators/index.js';
import { DeadlineHeap, parseRetryAfterMs } from '../../operators/kernel/index.js';
import { refusing } from '../support/refusing.js';
import { deferred, elementsMoved, hostTime, numbers, repeatable, sleep, stateOf, turns } from './tools.js';

// The classes and functions in this file are what others do, in as few lines as show it. Each test begins with what goes wrong there.

/** Asks a limiter for a permit and notes which job gets one when. */
function granted(limiter: Limiter, log: string[], name: string, job: LimiterJob = {}, now?: () => number): Subscription {
  return limiter.acquire(job).subscribe({
    next: (lease) => {
      log.push(now === undefined ? name : `${name} at ${now()}`);
      lease.release();
    },
    error: (error: unknown) => log.push(`${name}: ${(error as Error).name}`),
  });
}

describe('a timed batch whose consumer is not ready', () => {
  /** Gathers for `waitMs`. A batch without a request fails, or is kept and sent with the next request, full or not. */
  class DemandBuffer {
    #items: string[] = [];
    #asked = 0;
    constructor(
      readonly waitMs: number,
      readonly unasked: 'fail' | 'keep',
      readonly send: (items: string[] | Error) => void,
    ) {}
    push(item: string): void {
      this.#items.push(item);
      if (this.#items.length > 1) return;
      timer(this.waitMs).subscribe(() => {
        if (this.#asked > 0) this.#emit();
        else if (this.unasked === 'fail') this.send(new Error('could not emit: no request'));
      });
    }
    ask(): void {
      this.#asked++;
      if (this.unasked === 'keep') this.#emit();
    }
    #emit(): void {
      if (this.#items.length === 0) return;
      this.#asked--;
      this.send(this.#items.splice(0));
    }
  }

  /** Items at these times, for a consumer that takes 40 ms for each batch. */
  function theirs(unasked: 'fail' | 'keep', arrivals: readonly (readonly [number, string])[]): string[] {
    return virtualTime(({ flush, now }) => {
      const log: string[] = [];
      const buffer = new DemandBuffer(10, unasked, (items) => {
        log.push(`${now()} ${items instanceof Error ? items.message : items.join('')}`);
        if (!(items instanceof Error)) timer(40).subscribe(ask);
      });
      const ask = (): void => {
        buffer.ask();
      };
      ask();
      for (const [at, item] of arrivals)
        timer(at).subscribe(() => {
          buffer.push(item);
        });
      flush();
      return log;
    });
  }

  function ours(arrivals: readonly (readonly [number, string])[]): string[] {
    return virtualTime(({ flush, now }) => {
      const log: string[] = [];
      const work = (items: readonly string[]) => {
        log.push(`${now()} ${items.join('')}`);
        return of(items).pipe(delay(40));
      };
      const source = concat(from(arrivals).pipe(mergeMap(([at, item]) => timer(at).pipe(map(() => item)))), NEVER);
      source
        .pipe(batchMap(work, { concurrency: 1, window: fixed(10), repair: [retryFailed(), divideAndConquer()], classify: classifyError }))
        .subscribe();
      flush();
      return log;
    });
  }

  it('fails elsewhere; here it waits for the slot and grows', () => {
    const arrivals = [
      [0, 'a'],
      [12, 'b'],
      [30, 'c'],
    ] as const;
    expect(theirs('fail', arrivals)).toEqual(['10 a', '22 could not emit: no request']);
    expect(ours(arrivals)).toEqual(['10 a', '50 bc']);
  });

  it('leaves before its time once the consumer is back; here its window holds', () => {
    const arrivals = [
      [0, 'a'],
      [45, 'b'],
      [52, 'c'],
    ] as const;
    expect(theirs('keep', arrivals)[1]).toBe('50 b');
    expect(ours(arrivals)).toEqual(['10 a', '55 bc']);
  });
});

describe('an item too heavy for a batch', () => {
  /** Puts it aside when it closes the batch before it, and looks at it again when something happens. */
  class WeightedGroup {
    #items: number[] = [];
    #aside: number | undefined;
    constructor(
      readonly maxWeight: number,
      readonly send: (items: number[]) => void,
    ) {}
    push(weight: number): void {
      if (this.#aside !== undefined) this.send([this.#aside]);
      this.#aside = undefined;
      if (weight <= this.maxWeight) {
        this.#items.push(weight);
        return;
      }
      this.send(this.#items.splice(0));
      this.#aside = weight;
    }
  }

  it('waits for the next item elsewhere; here it is sent at once, behind the batch it closes', () => {
    const theirs: number[][] = [];
    const group = new WeightedGroup(5, (items) => theirs.push(items));
    for (const weight of [1, 2, 9]) group.push(weight);
    expect(theirs).toEqual([[1, 2]]);

    const options = { maxWeight: 5, weigh: (weight: number) => weight };
    virtualTime(({ advance }) => {
      const ours: (readonly number[])[] = [];
      const calls: (readonly number[])[] = [];
      const source = new Subject<number>();
      const work = (items: readonly number[]) => {
        calls.push(items);
        return of(items);
      };
      const subscriptions = [
        source.pipe(batch({ ...options, maxWaitMs: Infinity })).subscribe((items) => ours.push(items)),
        source
          .pipe(batchMap(work, { ...options, window: fixed(1000), repair: [retryFailed(), divideAndConquer()], classify: classifyError }))
          .subscribe(),
      ];
      for (const weight of [1, 2, 9]) source.next(weight);
      advance(0);
      expect(ours).toEqual([[1, 2], [9]]);
      expect(calls).toEqual([[1, 2], [9]]);
      for (const subscription of subscriptions) subscription.unsubscribe();
    });
  });
});

describe('a bulkhead with a queue', () => {
  /** The usual one: an end frees the slot, and a turn later the first in the queue asks for it as if it had just come. */
  class Bulkhead {
    active = 0;
    readonly #queue: { readonly signal: AbortSignal | undefined; readonly start: () => Promise<void> }[] = [];
    constructor(
      readonly slots: number,
      readonly places: number,
    ) {}
    async execute<R>(call: () => Promise<R>, signal?: AbortSignal): Promise<R> {
      if (this.active < this.slots) {
        this.active++;
        try {
          return await call();
        } finally {
          this.active--;
          const next = this.#queue.shift();
          void Promise.resolve().then(() => next?.start());
        }
      }
      if (this.#queue.length >= this.places) throw new Error('no room');
      return new Promise<R>((resolve, reject) => {
        signal?.addEventListener('abort', () => {
          reject(new DOMException('left', 'AbortError'));
        });
        this.#queue.push({ signal, start: () => this.execute(call).then(resolve, reject) });
      });
    }
  }

  /** One call runs and one is accepted. When the first ends, two newcomers come in one of the turns that follow; what becomes of the second? */
  async function bargeIn(turn: number, execute: (call: () => Promise<string>) => Promise<string>): Promise<string> {
    const first = deferred<string>();
    void execute(() => first.promise);
    const accepted = execute(() => Promise.resolve('served')).catch((error: unknown) => (error as Error).message);
    let end: Promise<unknown> = first.promise;
    for (let i = 0; i < turn; i++) end = end.then(() => undefined);
    void end.then(() => {
      for (const _ of numbers(2)) execute(() => turns(3).then(() => 'newcomer')).catch(() => undefined);
    });
    first.resolve('first');
    return accepted;
  }

  it('rejects what it had accepted when newcomers come between two turns; here the accepted call is next', async () => {
    const [theirs, ours] = [new Set<string>(), new Set<string>()];
    for (const turn of numbers(8)) {
      const bulkhead = new Bulkhead(1, 1);
      theirs.add(await bargeIn(turn, (call) => bulkhead.execute(call)));
      const limiter = createLimiter({ concurrency: 1, maxQueued: 1, overflow: 'dropNewest' });
      ours.add(await bargeIn(turn, (call) => limiter.runAsync(call)));
    }
    expect(theirs).toContain('no room');
    expect([...ours]).toEqual(['served']);
  });

  it('keeps the place of a call that was aborted in the queue; here the place is free', async () => {
    const leave = new AbortController();
    const theirs = new Bulkhead(1, 1);
    void theirs.execute(() => new Promise<never>(() => undefined));
    const left = theirs.execute(() => Promise.resolve(), leave.signal);
    const ours = createLimiter({ concurrency: 1, maxQueued: 1 });
    const lease = await ours.acquireAsync();
    const alsoLeft = ours.acquireAsync({ signal: leave.signal });
    leave.abort();
    await expect(left).rejects.toThrow('left');
    await expect(alsoLeft).rejects.toMatchObject({ name: 'AbortError' });
    await expect(theirs.execute(() => Promise.resolve())).rejects.toThrow('no room');
    const next = ours.acquireAsync();
    lease.release();
    (await next).release();
  });
});

describe('a batcher with a list and an event', () => {
  /** Hands its list out and takes a new one afterwards. */
  class EventBatcher {
    #items: string[] = [];
    constructor(
      readonly maxSize: number,
      readonly send: (items: readonly string[]) => void,
    ) {}
    add(item: string): void {
      this.#items.push(item);
      if (this.#items.length !== this.maxSize) return;
      this.send([...this.#items]);
      this.#items = [];
    }
  }

  it('loses what is added while a batch is handed out; here it is in the next', () => {
    const theirs: string[] = [];
    const batcher = new EventBatcher(2, (items) => {
      if (theirs.length === 0) batcher.add('fed');
      theirs.push(...items);
    });
    for (const item of ['a', 'b', 'c', 'd']) batcher.add(item);
    expect(theirs).toEqual(['a', 'b', 'c', 'd']);

    virtualTime(({ flush }) => {
      const source = new Subject<string>();
      const high = new Subject<string>();
      const seen: Record<'batch' | 'batchMap' | 'mergeLanes', string[]> = { batch: [], batchMap: [], mergeLanes: [] };
      source.pipe(batch({ maxSize: 2 })).subscribe((items) => {
        if (seen.batch.length === 0) source.next('fed');
        seen.batch.push(...items);
      });
      mergeLanes([{ name: 'one', source: high }], { maxSize: 2 }).subscribe(({ items }) => {
        if (seen.mergeLanes.length === 0) high.next('fed');
        seen.mergeLanes.push(...items);
      });
      const calls = new Subject<string>();
      calls
        .pipe(
          batchMap(
            (items: readonly string[]) => {
              if (seen.batchMap.length === 0) calls.next('fed');
              seen.batchMap.push(...items);
              return of(items);
            },
            { maxSize: 2, repair: [retryFailed(), divideAndConquer()], classify: classifyError },
          ),
        )
        .subscribe();
      for (const input of [source, high, calls]) for (const item of ['a', 'b']) input.next(item);
      flush();
      for (const input of [source, high, calls]) input.complete();
      expect(seen).toEqual({ batch: ['a', 'b', 'fed'], batchMap: ['a', 'b', 'fed'], mergeLanes: ['a', 'b', 'fed'] });
    });
  });

  /** A store that is filled up at each beat of its clock. */
  class BeatingStore {
    #level = 0;
    readonly #waiting: (() => void)[] = [];
    constructor(perBeat: number, beatMs: number, beats: number) {
      interval(beatMs)
        .pipe(take(beats))
        .subscribe(() => {
          this.#level += perBeat;
          while (this.#level >= 1) {
            this.#level--;
            this.#waiting.shift()?.();
          }
        });
    }
    acquire(start: () => void): void {
      this.#waiting.push(start);
    }
  }

  it('grants by the beat of its clock, late and several at once; here each permit comes when it is due', () => {
    virtualTime(({ advance, now }) => {
      const theirs: number[] = [];
      // Ten a second, in beats of 250 ms.
      const store = new BeatingStore(2.5, 250, 4);
      for (const _ of numbers(5)) store.acquire(() => theirs.push(now()));
      const limiter = createLimiter({ rates: [perMinute('requests', 600, { burst: 1 })], headroom: 1 });
      limiter.tryAcquire()!.release();
      const ours: string[] = [];
      for (const _ of numbers(5)) granted(limiter, ours, 'one', {}, now);
      advance(1000);
      expect(theirs).toEqual([250, 250, 500, 500, 500]);
      expect(ours).toEqual([100, 200, 300, 400, 500].map((at) => `one at ${at}`));
    });
  });
});

describe('a priority queue', () => {
  it('that is a sorted array moves what is less urgent for each urgent one; here nothing is moved', () => {
    const theirs = elementsMoved(() => {
      const queue = new PQueue({ concurrency: 1, autoStart: false });
      for (const i of numbers(2000)) void queue.add(() => undefined, { priority: i });
      queue.clear();
    });
    const order: number[] = [];
    const ours = elementsMoved(() => {
      const queue = new DeadlineHeap<number>();
      for (const i of numbers(2000)) queue.push(i, 1999 - i);
      while (queue.length > 0) order.push(queue.pop()!);
    });
    expect(theirs).toBeGreaterThan(1_900_000);
    expect(ours).toBe(0);
    expect(order).toEqual(numbers(2000).reverse());
  });

  /** A binary heap over [priority, tie]. */
  function heapOrder(entries: readonly (readonly [number, number, string])[]): string[] {
    const heap: (readonly [number, number, string])[] = [];
    const isBefore = (i: number, j: number): boolean =>
      heap[i]![0] !== heap[j]![0] ? heap[i]![0] < heap[j]![0] : heap[i]![1] < heap[j]![1];
    const swap = (i: number, j: number): void => {
      [heap[i], heap[j]] = [heap[j]!, heap[i]!];
    };
    for (const entry of entries) {
      let i = heap.push(entry) - 1;
      for (let up = (i - 1) >> 1; i > 0 && isBefore(i, up); up = (i - 1) >> 1) {
        swap(i, up);
        i = up;
      }
    }
    const out: string[] = [];
    while (heap.length > 0) {
      out.push(heap[0]![2]);
      const last = heap.pop()!;
      if (heap.length === 0) break;
      heap[0] = last;
      for (let i = 0; ; ) {
        let least = i;
        for (const child of [2 * i + 1, 2 * i + 2]) if (child < heap.length && isBefore(child, least)) least = child;
        if (least === i) break;
        swap(i, least);
        i = least;
      }
    }
    return out;
  }

  const names = numbers(10).map((i) => `call ${i}`);
  const ourOrder = (): string[] => {
    const limiter = createLimiter({ concurrency: 1, queue: lanes([{ name: 'now' }, { name: 'later' }]) });
    const lease = limiter.tryAcquire()!;
    const log: string[] = [];
    for (const name of names) granted(limiter, log, name, { lane: 'later' });
    lease.release();
    return log;
  };

  it('that breaks ties by a random id shuffles equals; here they stay in line', () => {
    const random = repeatable();
    expect(heapOrder(names.map((name) => [1, random(), name]))).not.toEqual(names);
    expect(ourOrder()).toEqual(names);
  });

  it('that is a heap without a number for each entry shuffles equals; here they stay in line', () => {
    expect(heapOrder(names.map((name) => [1, 0, name]))).not.toEqual(names);
    expect(ourOrder()).toEqual(names);
  });

  it('that gives up the least urgent when it is full rejects what it had accepted; here only if told to', () => {
    const full = ['accepted', 'too'];
    const makeRoom = (urgent: string): string | undefined => {
      const rejected = full.pop();
      full.unshift(urgent);
      return rejected;
    };
    expect(makeRoom('urgent')).toBe('too');

    const run = (overflow: 'dropNewest' | 'dropLowest'): string[] => {
      const limiter = createLimiter({ concurrency: 1, maxQueued: 2, overflow, queue: lanes([{ name: 'now' }, { name: 'later' }]) });
      const lease = limiter.tryAcquire()!;
      const log: string[] = [];
      for (const name of ['accepted', 'too']) granted(limiter, log, name, { lane: 'later' });
      granted(limiter, log, 'urgent', { lane: 'now' });
      lease.release();
      return log;
    };
    expect(run('dropNewest')).toEqual(['urgent: OverflowError', 'accepted', 'too']);
    expect(run('dropLowest')).toEqual(['too: OverflowError', 'urgent', 'accepted']);
  });

  /** A bounded heap; who finds it full stands in a line at the door, first come, first served. */
  it('with a line at its door makes the urgent wait outside; here each lane has room of its own', () => {
    const inside: [number, string][] = [];
    const door: [number, string][] = [];
    const put = (entry: [number, string]): void => void (inside.length < 2 ? inside : door).push(entry);
    const get = (): string => {
      const next = inside.sort(([a], [b]) => a - b).shift()!;
      const entered = door.shift();
      if (entered !== undefined) inside.push(entered);
      return next[1];
    };
    for (const name of ['a', 'b', 'c', 'd', 'e']) put([1, name]);
    put([0, 'urgent']);
    expect(numbers(6).map(get).indexOf('urgent')).toBeGreaterThan(3);

    const queue = lanes([{ name: 'now' }, { name: 'later', maxQueued: 2, overflow: 'dropNewest' }]);
    const limiter = createLimiter({ concurrency: 1, queue });
    const lease = limiter.tryAcquire()!;
    const log: string[] = [];
    for (const name of ['a', 'b', 'c', 'd', 'e']) granted(limiter, log, name, { lane: 'later' });
    granted(limiter, log, 'urgent', { lane: 'now' });
    lease.release();
    expect(log).toEqual(['c: OverflowError', 'd: OverflowError', 'e: OverflowError', 'urgent', 'a', 'b']);
  });

  it('that is read and written back through a cache loses entries; here all that was accepted is served', async () => {
    let stored: readonly string[] = [];
    const add = async (name: string): Promise<void> => {
      const read = await Promise.resolve(stored);
      await Promise.resolve();
      stored = [...read, name];
    };
    await Promise.all(names.map(add));
    expect(stored.length).toBeLessThan(names.length);

    const limiter = createLimiter({ concurrency: 1 });
    const lease = await limiter.acquireAsync();
    const served: string[] = [];
    const all = names.map((name) => limiter.runAsync(() => of(served.push(name))));
    lease.release();
    await Promise.all(all);
    expect(served).toEqual(names);
  });
});

describe('an answer that lacks one item', () => {
  it('rejects every key in DataLoader; here, named by id, only the one that is missing', async () => {
    const without = (keys: readonly string[]): string[] => keys.filter((key) => key !== 'gone');
    const theirs = new DataLoader<string, string>((keys) => Promise.resolve(without(keys)));
    const lost = await Promise.allSettled(['a', 'gone', 'b'].map((key) => theirs.load(key)));
    expect(lost.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected']);

    const ours = createBatcher((keys: readonly string[]) => Promise.resolve(new Map(without(keys).map((key) => [key, key]))), {
      id: (key) => key,
    });
    const kept = await Promise.allSettled(['a', 'gone', 'b'].map((key) => ours.loadAsync(key)));
    expect(kept.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
  });
});

describe('a loop that serves batches', () => {
  /** A promise whose two ends may be used once, as futures are elsewhere. */
  class Future {
    #isDone = false;
    readonly #ends = deferred<string>();
    readonly promise = this.#ends.promise;
    resolve(value: string): void {
      if (this.#isDone) throw new Error('invalid state');
      this.#isDone = true;
      this.#ends.resolve(value);
    }
    cancel(): void {
      this.#isDone = true;
      this.#ends.reject(new DOMException('left', 'AbortError'));
    }
  }

  /** Takes all there is, asks for the size of each, answers them; whatever is thrown in it ends it. */
  class ServingLoop {
    diedOf = '';
    readonly #waiting: { readonly item: string; readonly future: Future }[] = [];
    #wake = deferred<undefined>();
    constructor(
      readonly sizeOf: (item: string) => number,
      readonly answer: (items: readonly string[]) => Promise<readonly string[]>,
    ) {
      this.#serve().catch((error: unknown) => (this.diedOf = (error as Error).message));
    }
    load(item: string): Future {
      const future = new Future();
      this.#waiting.push({ item, future });
      this.#wake.resolve(undefined);
      return future;
    }
    async #serve(): Promise<never> {
      for (;;) {
        await this.#wake.promise;
        this.#wake = deferred();
        const taken = this.#waiting.splice(0).filter(({ item }) => this.sizeOf(item) > 0);
        const answers = await this.answer(taken.map(({ item }) => item));
        for (const [i, { future }] of taken.entries()) future.resolve(answers[i]!);
      }
    }
  }

  const sizeOf = (item: string): number => {
    if (item === 'bad') throw new Error('no size');
    return 1;
  };

  it('dies of a callback that throws, and later callers hang; here the one item is rejected', async () => {
    const theirs = new ServingLoop(sizeOf, (items) => Promise.resolve(items));
    theirs.load('bad');
    await turns(5);
    expect(await stateOf(theirs.load('good').promise)).toBe('pending');
    expect(theirs.diedOf).toBe('no size');

    const ours = createBatcher((items: readonly string[]) => Promise.resolve(items), {
      weigh: sizeOf,
      repair: [retryFailed(), divideAndConquer()],
      classify: classifyError,
    });
    await expect(ours.loadAsync('bad')).rejects.toMatchObject({ code: 'FLOW_CALLBACK' });
    await expect(ours.loadAsync('good')).resolves.toBe('good');
  });

  it('dies of an answer to a caller that has left; here the others get theirs', async () => {
    const call = deferred<readonly string[]>();
    const theirs = new ServingLoop(sizeOf, (items) => (items.length === 2 ? call.promise : Promise.resolve(items)));
    const left = theirs.load('left');
    const stays = theirs.load('stays');
    await turns(5);
    left.cancel();
    call.resolve(['left', 'stays']);
    await expect(left.promise).rejects.toThrow('left');
    expect(await stateOf(stays.promise)).toBe('pending');
    expect(await stateOf(theirs.load('later').promise)).toBe('pending');

    const sent = deferred<readonly string[]>();
    const ours = createBatcher((items: readonly string[]) => (items.length === 2 ? sent.promise : Promise.resolve(items)), {
      repair: [retryFailed(), divideAndConquer()],
      classify: classifyError,
    });
    const leave = new AbortController();
    const leaving = ours.loadAsync('left', { signal: leave.signal });
    const staying = ours.loadAsync('stays');
    await turns(5);
    expect(ours.snapshot().executing).toBe(1);
    leave.abort();
    sent.resolve(['left', 'stays']);
    await expect(leaving).rejects.toMatchObject({ name: 'AbortError' });
    await expect(staying).resolves.toBe('stays');
    await expect(ours.loadAsync('later')).resolves.toBe('later');
  });

  it('polls, busy or not; here nothing is scheduled while nothing waits', async () => {
    await hostTime(async (pass) => {
      let polls = 0;
      const poll = (): void => {
        polls++;
        setTimeout(poll, 1);
      };
      poll();
      await pass(100);
      expect(polls).toBeGreaterThan(99);
    });
    await hostTime(async (pass) => {
      const batcher = createBatcher((items: readonly string[]) => Promise.resolve(items), {
        repair: [retryFailed(), divideAndConquer()],
        classify: classifyError,
      });
      const limiter = createLimiter({ concurrency: 1, rates: [perMinute('requests', 600)] });
      await batcher.loadAsync('once');
      (await limiter.acquireAsync()).release();
      await pass(100);
      expect(vi.getTimerCount()).toBe(0);
    });
  });

  it('drops the first for the length of the queue behind it; here it is served when its own call fits the time', () => {
    const callMs = (size: number): number => 5 + size;
    const dropped: number[] = [];
    const queue = numbers(100);
    // Answers would be due within 50 ms: predicted for the whole queue, though ten travel in a call.
    while (callMs(queue.length) > 50) dropped.push(queue.shift()!);
    expect(dropped).toContain(0);

    const served = virtualTime(({ flush }) => {
      const seen: number[] = [];
      from(numbers(100))
        .pipe(
          batchMap((items: readonly number[]) => of(items).pipe(delay(callMs(items.length))), {
            maxSize: 10,
            concurrency: 1,
            deadlineMs: 50,
            repair: [retryFailed(), divideAndConquer()],
            classify: classifyError,
          }),
        )
        .subscribe(({ input, status }) => status === 'fulfilled' && seen.push(input));
      flush();
      return seen;
    });
    expect(served).toEqual(numbers(30));
  });
});

describe('a worker whose caller has waited long enough', () => {
  const slow = (): Promise<string> => sleep(100).then(() => 'late');

  it('stays taken until the call is over elsewhere; here the call is told, and its place is free after the grace', async () => {
    const theirs = await hostTime(async (pass) => {
      let startedAt = -1;
      let slot: Promise<unknown> = Promise.resolve();
      const submit = (call: () => Promise<string>): Promise<string> => {
        const running = slot.then(call);
        slot = running;
        return Promise.race([running, sleep(10).then(() => Promise.reject(new Error('too late')))]);
      };
      const first = submit(slow).catch((error: unknown) => (error as Error).message);
      submit(() => Promise.resolve(String((startedAt = Date.now())))).catch(() => undefined);
      await pass(200);
      expect(await first).toBe('too late');
      return startedAt;
    });
    expect(theirs).toBe(100);

    const ours = await hostTime(async (pass) => {
      let startedAt = -1;
      let aborted = false;
      const limiter = createLimiter({ concurrency: 1, abortGraceMs: 5 });
      const batcher = createBatcher(
        (items: readonly string[], { signal }) => {
          if (items[0] !== 'slow') return of(items.map(() => String((startedAt = Date.now()))));
          signal.addEventListener('abort', () => (aborted = true));
          return slow().then(() => items);
        },
        { limiter, maxSize: 1, timeoutMs: 10, repair: divideAndConquer(), classify: classifyError },
      );
      const first = batcher.loadAsync('slow').catch((error: unknown) => (error as Error).name);
      const second = batcher.loadAsync('next');
      await pass(200);
      expect([await first, await second, aborted]).toEqual(['AttemptTimeoutError', '15', true]);
      return startedAt;
    });
    expect(ours).toBe(15);
  });
});

describe('a client that keeps to a rate', () => {
  /** Sends what can be paid from a minute's worth of tokens, looking at the head of the line every 10 ms. */
  function script(costs: readonly number[], perMinute: number, ticks: number): number[] {
    const sent: number[] = [];
    let level = perMinute;
    let head = 0;
    for (let tick = 0; tick < ticks && head < costs.length; tick++) {
      level = Math.min(perMinute, level + perMinute / 6000);
      while (head < costs.length && costs[head]! <= level) {
        level -= costs[head]!;
        head++;
        sent.push(tick * 10);
      }
    }
    return sent;
  }

  it('waits for ever for a request above a minute’s worth; here it is charged as one, or refused', () => {
    expect(script([700, 1], 600, 100_000)).toEqual([]);
    virtualTime(({ flush, now }) => {
      const aMinutesWorth = (rate: RateRule) => createLimiter({ rates: [rate], headroom: 1 });
      const log: string[] = [];
      const borrows = aMinutesWorth(perMinute('tokens', 600, { burst: 600 }));
      granted(borrows, log, 'heavy', { cost: { tokens: 700 } }, now);
      granted(borrows, log, 'light', { cost: { tokens: 1 } }, now);
      granted(aMinutesWorth(slidingWindow({ unit: 'tokens', amount: 600, windowMs: 60_000 })), log, 'refused', { cost: { tokens: 700 } });
      flush();
      // Charged are 600: one token more comes in within 100 ms.
      expect(log).toEqual(['heavy at 0', 'refused: ItemTooHeavyError', 'light at 100']);
    });
  });

  it('holds all requests behind one heavy request; here other lanes go on', () => {
    const sent = script([600, 500, 1], 600, 100_000);
    expect(sent[2]).toBeGreaterThan(45_000);
    virtualTime(({ advance, now }) => {
      const queue = lanes([{ name: 'now' }, { name: 'later' }]);
      const limiter = createLimiter({ rates: [perMinute('tokens', 600, { burst: 600 })], headroom: 1, queue });
      limiter.tryAcquire({ cost: { tokens: 600 } })!.release();
      const log: string[] = [];
      granted(limiter, log, 'heavy', { lane: 'later', cost: { tokens: 500 } }, now);
      granted(limiter, log, 'light', { lane: 'now', cost: { tokens: 1 } }, now);
      advance(60_000);
      expect(log).toEqual(['light at 100', 'heavy at 50100']);
    });
  });

  it('sends two minutes’ worth in the first, most of it at once; here a few seconds’ worth may be saved up', () => {
    const sent = script(
      numbers(2000).map(() => 1),
      600,
      6000,
    );
    expect(sent.filter((at) => at === 0)).toHaveLength(600);
    expect(sent.length).toBeGreaterThan(1190);
    virtualTime(({ advance, now }) => {
      const limiter = createLimiter({ rates: [perMinute('requests', 600)], maxQueued: Infinity });
      const at: number[] = [];
      for (const _ of numbers(2000))
        limiter.acquire().subscribe({
          next: (lease) => {
            at.push(now());
            lease.release();
          },
          error: () => undefined,
        });
      advance(59_999);
      expect(at.filter((time) => time === 0)).toHaveLength(18);
      expect(at.length).toBeLessThanOrEqual(600);
      limiter.close();
    });
  });

  it('stops for 15 seconds after a refusal, whatever the server says; here for as long as it says', () => {
    const refusal = Object.assign(new Error('slow down'), { status: 429, headers: { 'retry-after': '1' } });
    /** Looks every 100 ms whether there is something to send, but not within 15 s of the last refusal. */
    const theirs: number[] = [];
    const waiting = ['refused once', 'b'];
    let lastRefusalAt = -Infinity;
    for (let at = 0; waiting.length > 0; at += 100) {
      if (at - lastRefusalAt < 15_000) continue;
      theirs.push(at);
      if (waiting.shift() !== 'refused once') continue;
      waiting.push('again');
      lastRefusalAt = at;
    }
    expect(theirs).toEqual([0, 15_000, 15_100]);

    const ours = virtualTime(({ flush, now }) => {
      const at: number[] = [];
      of('a')
        .pipe(
          batchMap(
            (items: readonly string[], { attempt }) => {
              at.push(now());
              return attempt === 1 ? throwError(() => refusal) : of(items);
            },
            { random: () => 0.5, repair: [retryFailed(), divideAndConquer()], classify: classifyError },
          ),
        )
        .subscribe();
      flush();
      return at;
    });
    expect(ours[1]).toBeGreaterThanOrEqual(1000);
    expect(ours[1]).toBeLessThanOrEqual(1100);
  });

  it('repeats a request that is wrong; here it is made once', () => {
    const wrong = Object.assign(new Error('unknown model'), { status: 400, code: 'model_not_found' });
    let calls = 0;
    const call = (): never => {
      calls++;
      throw wrong;
    };
    for (let left = 5; left > 0; left--) {
      try {
        call();
      } catch {
        // Back into the line, while there are attempts left.
      }
    }
    expect(calls).toBe(5);
    calls = 0;
    virtualTime(({ flush }) => {
      of('a', 'b')
        .pipe(batchMap(call, { repair: [retryFailed(), divideAndConquer()], classify: classifyError }))
        .subscribe();
      flush();
    });
    expect(calls).toBe(1);
  });

  it('takes "6m0s" for six seconds; here a pause that is not understood is not made up', () => {
    expect(Number.parseFloat('6m0s') * 1000).toBe(6000);
    for (const text of ['6m0s', '12ms', '1.5s']) expect(parseRetryAfterMs({ 'retry-after': text })).toBeUndefined();
    expect(parseRetryAfterMs({ 'retry-after': '6' })).toBe(6000);
  });

  it('never comes back from asking for more permits than there are; here it is told, or goes into debt', async () => {
    const permits = 4;
    const waiting: (() => void)[] = [];
    const takePermits = (count: number): Promise<void> =>
      new Promise((resolve) => {
        if (count <= permits) resolve();
        else waiting.push(resolve);
      });
    expect(await stateOf(takePermits(5))).toBe('pending');
    const limiter = createLimiter({ rates: [refusing(perMinute('requests', 240, { burst: 4 }))], headroom: 1 });
    await expect(limiter.acquireAsync({ cost: { requests: 5 } })).rejects.toMatchObject({ code: 'FLOW_ITEM_TOO_HEAVY' });
    const borrowing = createLimiter({ rates: [perMinute('requests', 240, { burst: 4 })], headroom: 1 });
    (await borrowing.acquireAsync({ cost: { requests: 5 } })).release();
    expect(borrowing.snapshot().requests).toBeLessThan(0);
  });

  it('keeps what was reserved for a caller that has left; here it costs nothing', () => {
    /** Ten a second, each asker reserving the next free tenth. */
    let nextFreeMs = 0;
    const reserve = (): number => (nextFreeMs += 100);
    for (const _ of numbers(5)) reserve(); // Five ask, and all of them give up.
    expect(reserve()).toBe(600);
    virtualTime(({ advance, now }) => {
      const limiter = createLimiter({ rates: [perMinute('requests', 600, { burst: 1 })], headroom: 1 });
      limiter.tryAcquire()!.release();
      const log: string[] = [];
      for (const leaver of numbers(5).map((i) => granted(limiter, log, `leaver ${i}`))) leaver.unsubscribe();
      granted(limiter, log, 'stays', {}, now);
      advance(1000);
      expect(log).toEqual(['stays at 100']);
    });
  });

  it('lets twice the rate through where two cycles meet; here there are no cycles', () => {
    const perCycle = new Map<number, number>();
    const isAllowed = (at: number): boolean => {
      const cycle = Math.floor(at / 1000);
      perCycle.set(cycle, (perCycle.get(cycle) ?? 0) + 1);
      return perCycle.get(cycle)! <= 10;
    };
    expect([...numbers(20).map(() => 999), ...numbers(20).map(() => 1000)].filter(isAllowed)).toHaveLength(20);
    virtualTime(({ advance, now }) => {
      const limiter = createLimiter({ rates: [perMinute('requests', 600, { burst: 10 })], headroom: 1 });
      const at: number[] = [];
      const ask = (): void => {
        for (const _ of numbers(20)) if (limiter.tryAcquire() !== undefined) at.push(now());
      };
      advance(999);
      ask();
      advance(1);
      ask();
      expect(at).toEqual(numbers(10).map(() => 999));
    });
  });

  it('has a timer for each waiting job; here one serves them all', async () => {
    await hostTime(async (pass) => {
      for (const i of numbers(500)) void sleep(100 * i);
      expect(vi.getTimerCount()).toBe(500);
      await pass(50_000);
    });
    await hostTime(async () => {
      const limiter = createLimiter({ rates: [perMinute('requests', 600)] });
      for (const _ of numbers(500)) limiter.acquireAsync().catch(() => undefined);
      await turns(5);
      expect(limiter.snapshot().queued).toBe(482);
      expect(vi.getTimerCount()).toBe(1);
      limiter.close();
    });
  });

  it('charges a request its tokens when limits are chained with one weight; here requests and tokens are counted apart', () => {
    const chain = [{ level: 100 }, { level: 10_000 }];
    for (const store of chain) store.level -= 500;
    expect(chain.map(({ level }) => level)).toEqual([-400, 9500]);
    virtualTime(() => {
      const limiter = createLimiter({
        rates: [perMinute('requests', 100, { burst: 100 }), perMinute('tokens', 10_000, { burst: 10_000 })],
        headroom: 1,
      });
      limiter.tryAcquire({ cost: { tokens: 500 } })!.release();
      expect(limiter.snapshot()).toMatchObject({ requests: 99, tokens: 9500 });
    });
  });
});

describe('a list embedded in several calls', () => {
  it('loses the calls that were paid for when one is refused; here only the refused items', async () => {
    const wrong = Object.assign(new Error('bad input'), { status: 400 });
    let paid = 0;
    const call = (items: readonly number[]): Promise<readonly number[]> => {
      if (items.includes(7)) return Promise.reject(wrong);
      paid += items.length;
      return Promise.resolve(items);
    };
    await expect(Promise.all([call([0, 1, 2]), call([3, 4, 5]), call([6, 7, 8])])).rejects.toBe(wrong);
    expect(paid).toBe(6);
    const results = await lastValueFrom(
      from(numbers(9)).pipe(
        batchMap(call, { maxSize: 3, repair: [retryFailed(), divideAndConquer()], classify: classifyError }),
        map(({ status }) => status),
        toArray(),
      ),
    );
    expect(results.filter((status) => status === 'rejected')).toHaveLength(1);
    expect(results).toHaveLength(9);
  });
});

describe('a limit that finds itself', () => {
  const overloaded = Object.assign(new Error('overloaded'), { status: 529 });

  /** Less for each refusal, more for each answer. */
  const byEachCall = (limiter: Limiter): void => {
    let limit = 16;
    limiter.setLimits({ concurrency: limit });
    limiter.onRelease(({ outcome }) => {
      limit = outcome === 'ok' ? Math.min(64, limit + 1) : Math.max(1, Math.floor(limit * 0.75));
      limiter.setLimits({ concurrency: limit });
    });
  };
  const ours = (limiter: Limiter): Subscription => adaptiveLimit(limiter);

  it('goes down for each refusal of one burst; here the burst is one step', () => {
    virtualTime(({ advance }) => {
      const limits = [byEachCall, ours].map((steer) => {
        const limiter = createLimiter();
        steer(limiter);
        const leases = numbers(10).map(() => limiter.tryAcquire());
        advance(5);
        for (const lease of leases) lease?.release('error', overloaded);
        return limiter.concurrency;
      });
      expect(limits).toEqual([1, 3]);
    });
  });

  it('goes up while it is unused, and then lets through a burst that was never tried; here it stays where it was tried', () => {
    virtualTime(({ advance }) => {
      const limits = [byEachCall, ours].map((steer) => {
        const limiter = createLimiter();
        steer(limiter);
        for (const _ of numbers(100)) {
          const lease = limiter.tryAcquire();
          advance(5);
          lease?.release();
        }
        return limiter.concurrency;
      });
      expect(limits).toEqual([64, 4]);
    });
  });

  it('by the time of an answer takes a long answer for a queue; here its length says nothing', () => {
    /** The queue is what an answer took longer than the shortest one: the rule of Vegas. */
    const byTime = (limiter: Limiter): void => {
      let shortestMs = Infinity;
      let limit = 32;
      limiter.setLimits({ concurrency: limit });
      limiter.onRelease(({ grantedAt, releasedAt }) => {
        const tookMs = releasedAt - grantedAt;
        shortestMs = Math.min(shortestMs, tookMs);
        const queued = Math.ceil(limit * (1 - shortestMs / tookMs));
        const step = Math.log10(limit) || 1;
        if (queued <= 3 * step) limit += step;
        else if (queued > 6 * step) limit -= step;
        limit = Math.min(64, Math.max(1, Math.floor(limit)));
        limiter.setLimits({ concurrency: limit });
      });
    };
    // The model has no queue at all: it takes a second for a short answer and twenty for a long one.
    const settled = (steer: (limiter: Limiter) => unknown): number =>
      virtualTime(({ flush }) => {
        const limiter = createLimiter();
        steer(limiter);
        from(numbers(3000))
          .pipe(bulkheadMap((call) => timer(call % 5 === 0 ? 1000 : 20_000), { limiter, maxQueued: Infinity }))
          .subscribe();
        flush();
        return limiter.concurrency;
      });
    expect(settled(byTime)).toBeLessThan(16);
    expect(settled((limiter) => adaptiveLimit(limiter))).toBe(64);
  });
});
