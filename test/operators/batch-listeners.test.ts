import fc from 'fast-check';
import {
  BehaviorSubject,
  map,
  NEVER,
  Observable,
  of,
  Subject,
  Subscription,
  takeUntil,
  throwError,
  timer,
  VirtualTimeScheduler,
} from 'rxjs';
import { describe, expect, it } from 'vitest';
import type { FlowEvent, Settled } from '../../operators/index.js';
import {
  batchMap,
  batchMapFrom,
  createBatcher,
  createLimiter,
  divideAndConquer,
  isFlowError,
  lanes,
  lruCache,
  natural,
  orderPerKey,
  retryFailed,
  robust,
} from '../../operators/index.js';

/** Listeners, abort listeners and callbacks may do anything: nothing is lost, doubled, left behind or begun after the end. */

const badRequest = Object.assign(new Error('bad request'), { status: 400 });
const codeOf = (error: unknown): string => (isFlowError(error) ? error.code : String(error));
const later =
  (scheduler: VirtualTimeScheduler, ms = 10) =>
  (items: readonly string[]): Observable<readonly string[]> =>
    timer(ms, scheduler).pipe(map(() => items));

/** What became of loads, by their names. */
function outcomes() {
  const seen: Record<string, string[]> = {};
  const watch = (name: string, answer: Promise<unknown>): void => {
    const list = (seen[name] ??= []);
    answer.then(
      (value) => list.push(String(value)),
      (error: unknown) => list.push(codeOf(error)),
    );
  };
  return { seen, watch };
}
const settledNow = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 0));

describe('a run ends when its consumer leaves', () => {
  it.each(['attemptStarted', 'attemptEnded', 'batchFormed', 'settled', 'split', 'retryScheduled'] as const)(
    'from a listener that hears of %s, though the work fails at once',
    (type) => {
      const scheduler = new VirtualTimeScheduler();
      const source = new Subject<string>();
      const stop = new Subject<void>();
      let isOver = false;
      const onEvent = (event: FlowEvent): void => {
        if (event.type === type) stop.next();
      };
      const work = () => throwError(() => (type === 'retryScheduled' ? Object.assign(new Error('busy'), { status: 503 }) : badRequest));
      source.pipe(batchMap(work, { maxSize: 2, repair: robust(), scheduler, onEvent }), takeUntil(stop)).subscribe({
        complete: () => (isOver = true),
      });
      source.next('a');
      source.next('b');
      scheduler.flush();
      expect(isOver).toBe(true);
    },
  );

  it('when it is batchMapFrom', () => {
    const stop = new Subject<void>();
    const onEvent = (event: FlowEvent): void => {
      if (event.type === 'attemptEnded') stop.next();
    };
    const work = (): never => {
      throw badRequest;
    };
    const ends: string[] = [];
    batchMapFrom(['a', 'b'], work, { maxSize: 2, repair: divideAndConquer(), onEvent })
      .pipe(takeUntil(stop))
      .subscribe({ complete: () => ends.push('batchMapFrom') });
    expect(ends).toEqual(['batchMapFrom']);
  });

  it('when the source errors in the abort listener of a call that is out of time and then split', () => {
    const scheduler = new VirtualTimeScheduler();
    const source = new Subject<string>();
    const stop = new Error('stop');
    const work = (_items: readonly string[], { signal }: { signal: AbortSignal }) => {
      signal.addEventListener('abort', () => {
        source.error(stop);
      });
      return NEVER;
    };
    let seen: unknown;
    source
      .pipe(batchMap(work, { timeoutMs: 5, repair: robust(), classify: () => ({ class: 'itemFault' }), scheduler }))
      .subscribe({ error: (error: unknown) => (seen = error) });
    source.next('a');
    source.next('b');
    scheduler.flush();
    expect(seen).toBe(stop);
  });
});

describe('work is not called any more', () => {
  it.each(['batchFormed', 'attemptStarted'] as const)('when a listener that hears of %s has left, and its permit is back', (type) => {
    const scheduler = new VirtualTimeScheduler();
    const limiter = createLimiter({ concurrency: 1, scheduler });
    const source = new Subject<string>();
    let calls = 0;
    const subscription: Subscription = source
      .pipe(
        batchMap(
          () => {
            calls++;
            return NEVER;
          },
          {
            limiter,
            scheduler,
            onEvent: (event) => {
              if (event.type === type) subscription.unsubscribe();
            },
          },
        ),
      )
      .subscribe();
    source.next('a');
    scheduler.flush();
    expect([calls, limiter.snapshot().executing]).toEqual([0, 0]);
  });

  it('when a listener that hears of the batch has closed the batcher', async () => {
    const events: string[] = [];
    const batcher = createBatcher<string, string>(
      (items) => {
        events.push('called');
        return of(items);
      },
      {
        onEvent: ({ type }) => {
          events.push(type);
          if (type === 'batchFormed') batcher.close();
        },
      },
    );
    expect(await batcher.loadAsync('a').catch(codeOf)).toBe('FLOW_CLOSED');
    expect(await batcher.drain()).toEqual({ done: 0, aborted: 0, dropped: 1 });
    expect(events).not.toContain('called');
    expect(events.filter((type) => type === 'drained')).toHaveLength(1);
  });

  it('when an abort listener makes another load leave, or flushes, in the middle of a close', async () => {
    for (const act of ['leave', 'flush'] as const) {
      const scheduler = new VirtualTimeScheduler();
      const calls: string[] = [];
      const leaver = new Subscription();
      const { seen, watch } = outcomes();
      const batcher = createBatcher<string, string>(
        (items, { signal }) => {
          calls.push(items.join());
          signal.addEventListener('abort', () => {
            if (act === 'leave') leaver.unsubscribe();
            else batcher.flush();
          });
          return NEVER;
        },
        { concurrency: 2, maxSize: 1, window: natural(), timeoutMs: Infinity, scheduler },
      );
      for (const name of ['a', 'b']) watch(name, batcher.loadAsync(name));
      leaver.add(batcher.load('other').subscribe({ error: () => undefined }));
      for (const name of ['c', 'd']) watch(name, batcher.loadAsync(name));
      scheduler.flush();
      expect(calls).toEqual(['a', 'b']);
      batcher.close();
      scheduler.flush();
      expect(calls).toEqual(['a', 'b']);
      await batcher.drain();
      expect(seen).toEqual({ a: ['FLOW_CLOSED'], b: ['FLOW_CLOSED'], c: ['FLOW_CLOSED'], d: ['FLOW_CLOSED'] });
    }
  });
});

describe('a listener that hears of a dropped item', () => {
  it('may send: each item settles once', () => {
    const scheduler = new VirtualTimeScheduler();
    const source = new Subject<string>();
    const seen: string[] = [];
    let isFirst = true;
    source
      .pipe(
        batchMap(() => NEVER, {
          concurrency: 1,
          maxSize: 1,
          timeoutMs: Infinity,
          maxQueued: 1,
          overflow: 'dropOldest',
          window: natural(),
          scheduler,
          onEvent: ({ type }) => {
            if (type !== 'dropped' || !isFirst) return;
            isFirst = false;
            source.next('again');
          },
        }),
      )
      .subscribe(({ input }) => seen.push(input));
    source.next('running');
    scheduler.flush();
    for (const item of ['b', 'c']) source.next(item);
    scheduler.flush();
    expect(seen).toEqual(['b', 'c']);
  });

  it('may drain: every load is answered before that is over', async () => {
    const scheduler = new VirtualTimeScheduler();
    const { seen, watch } = outcomes();
    const batcher = createBatcher<string, string>(later(scheduler), {
      maxQueued: 1,
      overflow: 'dropOldest',
      scheduler,
      onEvent: ({ type }) => {
        if (type === 'dropped') void batcher.drain();
      },
    });
    for (const name of ['a', 'b']) watch(name, batcher.loadAsync(name));
    scheduler.flush();
    await batcher.drain();
    expect(seen).toEqual({ a: ['FLOW_OVERFLOW'], b: ['b'] });
    expect(batcher.snapshot().queued).toBe(0);
  });

  it('may close: nothing is left, and that is soon over', async () => {
    const scheduler = new VirtualTimeScheduler();
    const { seen, watch } = outcomes();
    const batcher = createBatcher<string, string>(later(scheduler), {
      maxQueued: 1,
      overflow: 'dropOldest',
      scheduler,
      onEvent: ({ type }) => {
        if (type === 'dropped') batcher.close();
      },
    });
    for (const name of ['a', 'b']) watch(name, batcher.loadAsync(name));
    await batcher.drain();
    expect(seen).toEqual({ a: ['FLOW_OVERFLOW'], b: ['FLOW_CLOSED'] });
    expect(batcher.snapshot()).toMatchObject({ queued: 0, executing: 0 });
  });
});

describe('the end', () => {
  it('is told once, though the window throws when it is asked again', async () => {
    let asked = 0;
    const events: string[] = [];
    const batcher = createBatcher<string, string>((items) => of(items), {
      window: () => {
        if (asked++ > 0) throw new Error('window');
        return 1000;
      },
      onEvent: ({ type }) => events.push(type),
    });
    expect(await batcher.loadAsync('a').catch(codeOf)).toBe('FLOW_CALLBACK');
    expect(events.filter((type) => type === 'drained')).toEqual(['drained']);
  });

  it('comes once, though a listener that hears of it asks for it again', async () => {
    const events: string[] = [];
    const batcher = createBatcher<string, string>((items) => of(items), {
      onEvent: ({ type }) => {
        events.push(type);
        if (type !== 'drained') return;
        void batcher.drain();
        batcher.close();
      },
    });
    void batcher.loadAsync('a');
    expect(await batcher.drain()).toEqual({ done: 1, aborted: 0, dropped: 0 });
    expect(events.filter((type) => type === 'drained')).toEqual(['drained']);
  });

  it('settles each load of a batch that was cut up once, whichever of its parts are under way', async () => {
    const scheduler = new VirtualTimeScheduler();
    const { seen, watch } = outcomes();
    const batcher = createBatcher<string, string>(
      (items) => {
        if (items.length > 1) throw badRequest;
        return NEVER;
      },
      { concurrency: 1, maxWeight: 3, weigh: (item) => item.length, window: natural(), repair: robust(), timeoutMs: Infinity, scheduler },
    );
    for (const name of ['a', 'bb', 'ccc', 'd']) watch(name, batcher.loadAsync(name));
    scheduler.flush();
    batcher.close();
    await batcher.drain();
    expect(Object.values(seen)).toEqual(Array.from({ length: 4 }, () => ['FLOW_CLOSED']));
  });
});

describe('a consumer that is told of an error', () => {
  it('starts nothing more, though it flushes and frees slots', () => {
    const flush = new Subject<void>();
    const concurrency = new BehaviorSubject(1);
    const calls: unknown[] = [];
    const source = new Subject<string>();
    const errors: unknown[] = [];
    const work = (items: readonly string[]): Observable<never> => {
      calls.push(items);
      return NEVER;
    };
    source.pipe(batchMap(work, { window: () => Infinity, flush, concurrency })).subscribe({
      error: (error: unknown) => {
        errors.push(error);
        concurrency.next(4);
        flush.next();
      },
    });
    source.next('a');
    source.error(badRequest);
    expect([errors, calls]).toEqual([[badRequest], []]);
  });
});

describe('a callback that sends', () => {
  // The callback of an item sends the next one: five, one inside the other.
  const run = (name: string, settings: (send: () => void) => object, makesFaults = false) => {
    const clock = new VirtualTimeScheduler();
    const source = new Subject<string>();
    const seen: (readonly [string, number])[] = [];
    let sent = 0;
    const send = (): void => {
      if (sent < 5) source.next(String(sent++));
      if (makesFaults && sent === 3) throw new Error('callback');
    };
    const options = { maxSize: 1, window: natural(), order: orderPerKey(() => 'same'), scheduler: clock, ...settings(send) };
    source.pipe(batchMap(later(clock), options as object)).subscribe(({ input, index }) => seen.push([input, index]));
    send();
    source.complete();
    clock.flush();
    return [...seen].sort((one, other) => (makesFaults ? one[1] - other[1] : 0));
  };
  const inOrder = Array.from({ length: 5 }, (_, i) => [String(i), i]);

  it.each([
    ['key', (send: () => void) => ({ order: orderPerKey(() => (send(), 'same')) })],
    ['weigh', (send: () => void) => ({ weigh: () => (send(), 1) })],
    ['id', (send: () => void) => ({ id: (item: string) => (send(), item) })],
    ['deadlineMs', (send: () => void) => ({ deadlineMs: () => (send(), 1000) })],
    ['lane', (send: () => void) => ({ queue: lanes([{ name: 'one' }], { by: () => (send(), 'one') }) })],
    ['key of a lane', (send: () => void) => ({ queue: lanes([{ name: 'one' }], { by: () => 'one', key: () => (send(), 1) }) })],
  ])('`%s` has what it sends behind its own item: results of a key are in the order in which items were sent', (name, settings) => {
    expect(run(name, settings)).toEqual(inOrder);
    expect(run(name, settings, true)).toEqual(inOrder);
  });

  it('has what other keys send in the order of these, and may make the consumer leave', () => {
    const source = new Subject<string>();
    const seen: string[] = [];
    const key = (item: string): string => {
      if (item === 'a1') for (const next of ['b1', 'a2', 'b2']) source.next(next);
      if (item === 'left') subscription.unsubscribe();
      return item.slice(0, 1);
    };
    const subscription = source
      .pipe(batchMap((items: readonly string[]) => of(items), { maxSize: 1, window: natural(), order: orderPerKey(key) }))
      .subscribe(({ input }) => seen.push(input));
    source.next('a1');
    expect(seen.filter((item) => item.startsWith('a'))).toEqual(['a1', 'a2']);
    expect(seen.filter((item) => item.startsWith('b'))).toEqual(['b1', 'b2']);
    source.next('left');
    expect(seen).toHaveLength(4);
  });
});

describe('a subscriber that leaves in a burst of listeners', () => {
  it('finds every signal aborted when `unsubscribe` has returned', () => {
    const act = fc.constantFrom('send' as const, 'error' as const, 'complete' as const, 'leave' as const, 'nothing' as const);
    const plan = fc.record({
      acts: fc.array(act, { maxLength: 14 }),
      onAbort: fc.array(act, { maxLength: 2 }),
      concurrency: fc.integer({ min: 1, max: 3 }),
    });
    fc.assert(
      fc.property(plan, ({ acts, onAbort, concurrency }) => {
        const source = new Subject<number>();
        const signals: AbortSignal[] = [];
        const left: (readonly boolean[])[] = [];
        let at = 0;
        const perform = (what: (typeof acts)[number] | undefined): void => {
          if (what === 'send') for (let n = 0; n < 3; n++) source.next(n);
          else if (what === 'error') source.error(new Error('source'));
          else if (what === 'complete') source.complete();
          else if (what === 'leave') {
            // RxJS tears a subscription down once, and may be at it.
            if (subscription.closed) return;
            subscription.unsubscribe();
            left.push(signals.map(({ aborted }) => aborted));
          }
        };
        const work = (_: unknown, { signal }: { readonly signal: AbortSignal }) => {
          signals.push(signal);
          signal.addEventListener('abort', () => {
            onAbort.forEach(perform);
          });
          return NEVER;
        };
        const subscription = new Subscription();
        const onEvent = (): void => {
          perform(acts[at++]);
        };
        const output = source.pipe(batchMap(work, { maxSize: 1, concurrency, window: natural(), onEvent }));
        subscription.add(output.subscribe({ error: () => undefined }));
        source.next(1);
        source.next(2);
        perform('leave');
        expect(left.flat().every(Boolean)).toBe(true);
        const { length } = signals;
        source.next(3);
        expect(signals).toHaveLength(length);
      }),
      { numRuns: 1000 },
    );
  });
});

describe('loads that one signal ends', () => {
  it('leave no listener when one that waited for room is answered by a load of its key', async () => {
    const clock = new VirtualTimeScheduler();
    const { signal } = new AbortController();
    const listeners = new Set<unknown>();
    const [add, remove] = [signal.addEventListener.bind(signal), signal.removeEventListener.bind(signal)];
    signal.addEventListener = (type: string, listener: never, how?: never) => {
      listeners.add(listener);
      add(type, listener, how);
    };
    signal.removeEventListener = (type: string, listener: never) => {
      listeners.delete(listener);
      remove(type, listener);
    };
    const options = {
      maxSize: 1,
      maxQueued: 1,
      concurrency: 1,
      dedupe: (item: string) => item,
      cache: lruCache(10),
      window: natural(),
      scheduler: clock,
    };
    const batcher = createBatcher(later(clock), options);
    const answers = ['a', 'b', 'c', 'd', 'c'].map((item) => batcher.loadAsync(item, { signal }));
    for (let turn = 0; turn < 20; turn++) {
      clock.flush();
      await Promise.resolve();
    }
    expect(await Promise.all(answers)).toEqual(['a', 'b', 'c', 'd', 'c']);
    expect(listeners.size).toBe(0);
  });

  it('all leave, though the call of one was just out of time, and none is sent again', async () => {
    let now = 0;
    const scheduler = new VirtualTimeScheduler();
    scheduler.now = () => now;
    const calls: string[] = [];
    const { seen, watch } = outcomes();
    const batcher = createBatcher<string, string>(
      (items) => {
        calls.push(items.join());
        return NEVER;
      },
      { concurrency: 1, maxSize: 1, window: natural(), timeoutMs: 20, repair: retryFailed({ delayMs: 10, maxAttempts: 2 }), scheduler },
    );
    const controller = new AbortController();
    for (const name of ['a', 'b']) watch(name, batcher.loadAsync(name, { signal: controller.signal }));
    batcher.flush();
    // The process was busy: the timer that ends the attempt has not fired yet.
    now = 30;
    controller.abort();
    await settledNow();
    expect([seen['a']?.length, seen['b']?.length]).toEqual([1, 1]);
    scheduler.flush();
    now = 100;
    batcher.flush();
    expect(calls).toEqual(['a']);
    expect(batcher.snapshot()).toMatchObject({ queued: 0, executing: 0 });
  });

  it('settle once each, though the first that hears of it makes the others leave or come to their end', async () => {
    const controller = new AbortController();
    const batcher = createBatcher<string, string>((items) => timer(1).pipe(map(() => items)), { maxSize: 10 });
    const results = batcher.loadManyAsync(['a', 'b', 'c'], { signal: controller.signal });
    const first = batcher.load('d', { signal: controller.signal }).subscribe({
      error: () => {
        batcher.close();
      },
    });
    controller.abort(new Error('left'));
    expect((await results).map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected']);
    expect(first.closed).toBe(true);
    expect(await batcher.drain()).toEqual({ done: 0, aborted: 0, dropped: 0 });
  });
});

describe('callbacks that end the run they are asked in', () => {
  it('leave nothing when `classify` closes, or leaves', async () => {
    const batcher = createBatcher<string, string>(
      () => {
        throw badRequest;
      },
      {
        repair: robust(),
        classify: () => {
          batcher.close();
          return { class: 'itemFault' };
        },
      },
    );
    expect(await Promise.all(['a', 'b', 'c'].map((item) => batcher.loadAsync(item).catch(codeOf)))).toEqual(
      Array.from({ length: 3 }, () => 'FLOW_CLOSED'),
    );
    expect(await batcher.drain()).toEqual({ done: 0, aborted: 3, dropped: 0 });

    const scheduler = new VirtualTimeScheduler();
    const limiter = createLimiter({ concurrency: 1, scheduler });
    const source = new Subject<string>();
    const results: Settled<string, string>[] = [];
    const subscription: Subscription = source
      .pipe(
        batchMap<string, string>(
          () => {
            throw badRequest;
          },
          {
            limiter,
            scheduler,
            repair: robust(),
            classify: () => {
              subscription.unsubscribe();
              return { class: 'itemFault' };
            },
          },
        ),
      )
      .subscribe((settled) => results.push(settled));
    for (const item of ['a', 'b']) source.next(item);
    scheduler.flush();
    expect([results.length, limiter.snapshot().executing]).toEqual([0, 0]);
  });

  it('hold no slot of a limiter that others wait for', () => {
    const scheduler = new VirtualTimeScheduler();
    const limiter = createLimiter({ concurrency: 1, scheduler });
    const source = new Subject<string>();
    const subscription = source.pipe(batchMap(() => NEVER, { limiter, scheduler, window: natural(), timeoutMs: Infinity })).subscribe();
    source.next('a');
    scheduler.flush();
    expect(limiter.snapshot().executing).toBe(1);
    let granted = 0;
    limiter.acquire().subscribe((lease) => {
      granted++;
      lease.release();
    });
    subscription.unsubscribe();
    scheduler.flush();
    expect([granted, limiter.snapshot().executing]).toEqual([1, 0]);
  });
});

describe('a load that leaves before its batch is sent', () => {
  it.each(['batchFormed', 'attemptStarted'] as const)('is not in it, though the listener that made it leave heard of %s', async (type) => {
    const calls: string[][] = [];
    const controller = new AbortController();
    const batcher = createBatcher<string, string>(
      (items, { weight }) => {
        calls.push([...items, String(weight)]);
        return items.map((item) => item.toUpperCase());
      },
      {
        onEvent: (event) => {
          if (event.type === type) controller.abort();
        },
      },
    );
    const left = batcher.loadAsync('a', { signal: controller.signal }).catch((error: unknown) => (error as Error).name);
    const stays = batcher.loadAsync('b');
    expect(await Promise.all([left, stays])).toEqual(['AbortError', 'B']);
    expect(calls).toEqual([['b', '1']]);
  });
});
