import { monitorEventLoopDelay } from 'node:perf_hooks';
import fc from 'fast-check';
import { concat, EMPTY, from, groupBy, mergeMap, NEVER, Observable, of, range, Subject, take, throwError, timer, toArray } from 'rxjs';
import { describe, expect, it, vi } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import { createWorker } from '../../marbles/worker.js';
import type { BulkheadMapOptions, FlowEvent, ItemContext, Settled } from '../../operators/index.js';
import {
  AttemptTimeoutError,
  bulkheadMap,
  CallbackError,
  ClosedError,
  createLimiter,
  FlowConfigError,
  inputOrder,
  isFlowError,
  OverflowError,
  orderPerKey,
} from '../../operators/index.js';
import { sized } from '../support/deep.js';
import { unstamped } from '../support/events.js';

const MANY = 100_000;

type Settling<T> = BulkheadMapOptions<T> & { readonly errors?: 'settle' };

const ORDERS = ['completion', 'input', 'perKey'] as const;

/** Results in that order, as options; those of a key in their order need the key. */
function ordered<T>(order: (typeof ORDERS)[number], key: (item: T) => unknown): Pick<BulkheadMapOptions<T>, 'order'> {
  if (order === 'completion') return {};
  return { order: order === 'input' ? inputOrder() : orderPerKey(key) };
}

/** Subscribes and keeps what happens. */
function watch<R>(stream: Observable<R>) {
  const values: R[] = [];
  const ends: unknown[] = [];
  const subscription = stream.subscribe({
    next: (value) => values.push(value),
    error: (error: unknown) => ends.push(error),
    complete: () => ends.push('complete'),
  });
  return { values, ends, subscription };
}

/** A promise and its two ends. */
function deferred<R>() {
  let resolve: (value: R) => void = () => undefined;
  let reject: (error: unknown) => void = () => undefined;
  const promise = new Promise<R>((yes, no) => {
    resolve = yes;
    reject = no;
  });
  return { promise, resolve, reject };
}

describe('bulkheadMap with a queue of 100,000', () => {
  it.each(['settle', 'propagate'] as const)("runs synchronous inner streams one after the other on a flat stack: errors '%s'", (errors) => {
    const gate = new Subject<number>();
    const source = new Subject<number>();
    const { values, ends } = watch(
      source.pipe(
        bulkheadMap((item: number) => (item === 0 ? gate : of(item)), { concurrency: 1, maxQueued: Infinity, errors } as Settling<number>),
      ),
    );
    for (let i = 0; i < MANY; i++) source.next(i);
    source.complete();
    expect(values).toHaveLength(0);
    gate.next(0);
    gate.complete();
    expect(values).toHaveLength(MANY);
    expect(ends).toEqual(['complete']);
  });

  it.each([
    ['completion', {}],
    ['input', { order: inputOrder() }],
  ])("loses nothing of a consumer that feeds the source: order '%s'", (_order, order) => {
    const source = new Subject<number>();
    const seen: number[] = [];
    source.pipe(bulkheadMap((item: number) => of(item), { concurrency: 2, ...order })).subscribe(({ index }) => {
      seen.push(index);
      if (index + 1 < MANY) source.next(index + 1);
    });
    source.next(0);
    expect(seen).toHaveLength(MANY);
    expect(new Set(seen).size).toBe(MANY);
  });

  it('leaves the event loop free between promises', async () => {
    const delay = monitorEventLoopDelay({ resolution: 1 });
    delay.enable();
    let count = 0;
    await range(0, MANY)
      .pipe(
        bulkheadMap((item) => (item % 1000 === 0 ? new Promise((done) => setImmediate(done)) : Promise.resolve(item)), {
          maxQueued: Infinity,
        }),
      )
      .forEach(() => count++);
    delay.disable();
    expect(count).toBe(MANY);
    // Generous: other tests have the same processors.
    expect(delay.max / 1e6).toBeLessThan(2000);
  });

  it('takes keys by the thousand and forgets them', () => {
    const { values, ends } = watch(
      range(0, MANY).pipe(bulkheadMap((item) => of(item), { key: (item) => item, perKey: 1, maxKeys: 1, concurrency: Infinity })),
    );
    expect(values).toHaveLength(MANY);
    expect(ends).toEqual(['complete']);
  });
});

describe('what goes wrong elsewhere', () => {
  it('mergeMap(f, c) loses queued synchronous streams and never ends; every item settles here, once', () => {
    const { values, ends } = watch(range(0, 5000).pipe(bulkheadMap((item) => of(item), { concurrency: 3, maxQueued: Infinity })));
    expect(values.map(({ index }) => index)).toEqual(Array.from({ length: 5000 }, (_, i) => i));
    expect(ends).toEqual(['complete']);
  });

  it('groupBy and mergeMap(c) lose the items of groups that are subscribed to late; keys lose none', () => {
    const items = ['a1', 'b1', 'c1', 'a2', 'b2'];
    virtualTime(({ flush }) => {
      const worker = createWorker<string, string>({ marbles: '--(r|)', answer: (item) => item });
      const grouped = watch(
        from(items).pipe(
          groupBy((item) => item.charAt(0)),
          mergeMap((group) => group.pipe(mergeMap((item) => worker.work(item), 1)), 2),
        ),
      );
      const keyed = watch(
        from(items).pipe(
          bulkheadMap((item, context) => worker.work(item, context), { key: (item) => item.charAt(0), perKey: 1, concurrency: 2 }),
        ),
      );
      flush();
      expect(grouped.values.length).toBeLessThan(items.length);
      expect(keyed.values).toHaveLength(items.length);
    });
  });

  it('mergeMap hangs with a concurrency of 0, NaN or -1; it is refused here', () => {
    for (const concurrency of [0, NaN, -1]) expect(() => bulkheadMap(() => EMPTY, { concurrency })).toThrow(FlowConfigError);
  });

  it('one failure cancels all others in mergeMap; the others go on here', () => {
    const bad = new Error('bad');
    const { values } = watch(range(0, 4).pipe(bulkheadMap((item) => (item === 1 ? throwError(() => bad) : of(item)), { concurrency: 1 })));
    expect(values.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled', 'fulfilled']);
    expect(values[1]).toEqual({ status: 'rejected', reason: bad, input: 1, index: 1, id: '1', attempts: 1 });
  });

  it('a bulkhead may reject what it had accepted when newcomers come between two microtasks; here every accepted item stays', async () => {
    const source = new Subject<string>();
    const first = deferred<string>();
    const { values } = watch(
      source.pipe(
        bulkheadMap((item: string) => (item === 'first' ? first.promise : Promise.resolve(item)), {
          concurrency: 1,
          maxQueued: 1,
          overflow: 'dropNewest',
        }),
      ),
    );
    source.next('first');
    source.next('accepted');
    first.resolve('first');
    source.next('too many');
    await Promise.resolve();
    source.next('in the gap');
    await new Promise((done) => setImmediate(done));
    const fate = Object.fromEntries(values.map(({ input, status }) => [input, status]));
    expect(fate).toEqual({ first: 'fulfilled', accepted: 'fulfilled', 'too many': 'rejected', 'in the gap': 'fulfilled' });
  });

  it('a timeout may leave the call running in its slot; here it is told, and the slot is free', () => {
    virtualTime(({ advance, now }) => {
      const aborted: number[] = [];
      const started: number[] = [];
      const { values, subscription } = watch(
        concat(of('slow', 'next'), NEVER).pipe(
          bulkheadMap(
            (item, { signal }) => {
              started.push(now());
              signal.addEventListener('abort', () => aborted.push(now()));
              return item === 'slow' ? new Promise<string>(() => undefined) : of(item);
            },
            { concurrency: 1, timeoutMs: 50 },
          ),
        ),
      );
      advance(60);
      expect(started).toEqual([0, 50]);
      expect(aborted).toEqual([50]);
      expect(values.map((settled) => (settled.status === 'rejected' ? settled.reason : settled.value))).toEqual([
        new AttemptTimeoutError('bulkheadMap', 50),
        'next',
      ]);
      subscription.unsubscribe();
    });
  });

  it('a limit per key above the limit of all never resumes elsewhere; here the smaller one holds', () => {
    virtualTime(({ flush }) => {
      const worker = createWorker<number, number>({ marbles: '--(r|)', answer: (item) => item });
      const { values } = watch(
        range(0, 9).pipe(bulkheadMap((item, context) => worker.work(item, context), { key: () => 'one', perKey: 100, concurrency: 2 })),
      );
      flush();
      expect(values).toHaveLength(9);
      expect(worker.peak).toBe(2);
    });
  });
});

describe('the context of bulkheadMap', () => {
  it('has the index and the key of the item', () => {
    const seen: unknown[] = [];
    of('a', 'b')
      .pipe(bulkheadMap((item, { index, key }) => of(seen.push([item, index, key])), { key: (item) => item.toUpperCase() }))
      .subscribe();
    expect(seen).toEqual([
      ['a', 0, 'A'],
      ['b', 1, 'B'],
    ]);
  });

  it('has a signal that stays silent when all goes well', async () => {
    const signals: AbortSignal[] = [];
    await of(1, 2)
      .pipe(
        bulkheadMap((item, { signal }) => {
          signals.push(signal);
          return Promise.resolve(item);
        }),
      )
      .forEach(() => undefined);
    expect(signals.map(({ aborted }) => aborted)).toEqual([false, false]);
  });

  it("aborts the others at the first error with errors 'propagate'", () => {
    const reasons: unknown[] = [];
    const failing = new Subject<never>();
    const bad = new Error('b is bad');
    const { ends } = watch(
      of('a', 'b', 'c').pipe(
        bulkheadMap(
          (item, { signal }) => {
            signal.addEventListener('abort', () => reasons.push([item, (signal.reason as Error).name]));
            return item === 'b' ? failing : NEVER;
          },
          { errors: 'propagate' },
        ),
      ),
    );
    failing.error(bad);
    expect(ends).toEqual([bad]);
    expect(reasons).toContainEqual(['a', 'AbortError']);
    expect(reasons).toContainEqual(['c', 'AbortError']);
  });

  it('creates no signal that is never read', () => {
    const made = vi.spyOn(globalThis, 'AbortController');
    try {
      watch(range(0, 100).pipe(bulkheadMap((item) => of(item)))).subscription.unsubscribe();
      expect(made).not.toHaveBeenCalled();
    } finally {
      made.mockRestore();
    }
  });
});

describe('promises in bulkheadMap', () => {
  it('does not take a late answer for that of the next item in the same slot', async () => {
    const late = deferred<string>();
    const next = deferred<string>();
    const source = new Subject<string>();
    const { values } = watch(
      source.pipe(bulkheadMap((item: string) => (item === 'late' ? late.promise : next.promise), { concurrency: 1, timeoutMs: 5 })),
    );
    source.next('late');
    await vi.waitFor(() => {
      expect(values).toHaveLength(1);
    });
    source.next('next');
    late.resolve('too late');
    await Promise.resolve();
    next.resolve('in time');
    await vi.waitFor(() => {
      expect(values).toHaveLength(2);
    });
    expect(values.map((settled) => (settled.status === 'fulfilled' ? settled.value : (settled.reason as Error).name))).toEqual([
      'AttemptTimeoutError',
      'in time',
    ]);
  });

  it('takes one answer of something that answers twice', async () => {
    const twice = {
      then: (resolve: (value: string) => void) => {
        resolve('once');
        resolve('twice');
      },
    } as PromiseLike<string>;
    const { values } = watch(of(1, 2, 3).pipe(bulkheadMap(() => twice, { concurrency: 1 })));
    await new Promise((done) => setImmediate(done));
    expect(values.map((settled) => settled.status === 'fulfilled' && settled.value)).toEqual(['once', 'once', 'once']);
  });

  it('emits nothing, and swallows the rejection, of a promise whose consumer has left', async () => {
    const late = deferred<string>();
    const { values, ends, subscription } = watch(of(1).pipe(bulkheadMap(() => late.promise)));
    subscription.unsubscribe();
    late.reject(new Error('after the subscriber left'));
    await new Promise((done) => setImmediate(done));
    expect([values, ends]).toEqual([[], []]);
  });
});

describe('leaving bulkheadMap', () => {
  it('goes on to the next inner stream when a teardown throws, which the code that unsubscribes is handed', () => {
    const torn: string[] = [];
    const { subscription } = watch(
      of('a', 'b', 'c').pipe(
        bulkheadMap(
          (item) =>
            new Observable<never>(() => () => {
              torn.push(item);
              if (item === 'b') throw new Error('the teardown of b');
            }),
        ),
      ),
    );
    expect(() => {
      subscription.unsubscribe();
    }).toThrow('the teardown of b');
    expect(torn).toEqual(['a', 'b', 'c']);
  });

  it('starts nothing more when `project` makes the consumer leave', () => {
    const subscribed = vi.fn();
    const source = new Subject<number>();
    const subscription = source
      .pipe(
        bulkheadMap(() => {
          subscription.unsubscribe();
          return new Observable<number>(subscribed);
        }),
      )
      .subscribe();
    source.next(1);
    expect(subscribed).not.toHaveBeenCalled();
    expect(source.observed).toBe(false);
  });
});

describe('an inner stream that ends while the consumer leaves', () => {
  const cases = ORDERS.flatMap((order) =>
    (['settle', 'propagate'] as const).flatMap((errors) => ['completes', 'fails'].map((how) => ({ order, errors, how }))),
  );

  it.each(cases)("$how unheard: order '$order', errors '$errors'", ({ order, errors, how }) => {
    const other = new Subject<string>();
    const endsOther = new Observable<string>(() => () => {
      other.next('late');
      if (how === 'fails') other.error(new Error('late'));
      else other.complete();
    });
    const work = (item: string) => (item === 'first' ? endsOther : item === 'other' ? other : NEVER);
    const key = (item: string) => item;
    const options = { ...ordered(order, key), errors, key } as Settling<string>;
    const { values, ends, subscription } = watch(of('first', 'other', 'last').pipe(bulkheadMap(work, options)));
    subscription.unsubscribe();
    expect([values, ends, other.observed]).toEqual([[], [], false]);
  });
});

describe('the signal of an item that is over', () => {
  it('is the one it had, and silent, whatever becomes of the next item in its place', () => {
    const contexts: ItemContext[] = [];
    const streams = [new Subject<string>(), new Subject<string>(), new Subject<string>()];
    const source = new Subject<number>();
    const work = (item: number, context: ItemContext) => {
      contexts.push(context);
      return streams[item] as Subject<string>;
    };
    const { subscription } = watch(source.pipe(bulkheadMap(work, { concurrency: 1 })));
    for (const item of [0, 1, 2]) source.next(item);
    const seenEarly = contexts[0]?.signal;
    streams[0]?.complete();
    streams[1]?.complete();
    subscription.unsubscribe();
    expect(contexts[0]?.signal).toBe(seenEarly);
    expect(contexts.map(({ signal }) => signal.aborted)).toEqual([false, false, true]);
    expect(contexts[2]?.signal).toBe(contexts[2]?.signal);
  });

  it('cuts off what ends in the very ms of its limit, also after others were cut off', () => {
    virtualTime(({ flush, now, scheduler }) => {
      const ends: unknown[] = [];
      const work = (i: number): Observable<number> => (i === 0 ? NEVER : timer(5, scheduler));
      of(0, 1)
        .pipe(bulkheadMap(work, { concurrency: 1, timeoutMs: 5, scheduler }))
        .subscribe(({ status }) => ends.push([now(), status]));
      flush();
      expect(ends).toEqual([
        [5, 'rejected'],
        [10, 'rejected'],
      ]);
    });
  });

  it('is aborted when first read after its timeout, though its slot has gone to another item', () => {
    virtualTime(({ advance }) => {
      const contexts: ItemContext[] = [];
      const work = (_item: number, context: ItemContext) => {
        contexts.push(context);
        return NEVER;
      };
      const { subscription } = watch(concat(of(0, 1, 2), NEVER).pipe(bulkheadMap(work, { concurrency: 1, timeoutMs: 10 })));
      advance(25);
      expect(contexts.map(({ signal }) => signal.aborted)).toEqual([true, true, false]);
      subscription.unsubscribe();
    });
  });
});

describe('bulkheadMap under a limiter', () => {
  it('takes one slot per inner stream and gives it back', () => {
    const limiter = createLimiter({ concurrency: 2 });
    virtualTime(({ flush }) => {
      const worker = createWorker<number, number>({ marbles: '--(r|)', answer: (item) => item });
      const branch = () =>
        range(0, 5).pipe(
          bulkheadMap((item, context) => worker.work(item, context), { limiter }),
          toArray(),
        );
      const [one, two] = [watch(branch()), watch(branch())];
      expect(limiter.executing).toBe(2);
      flush();
      expect(worker.peak).toBe(2);
      expect([one.values[0], two.values[0]].map((all) => all?.length)).toEqual([5, 5]);
    });
    expect(limiter.executing).toBe(0);
  });

  it('rejects what waits when the limiter is closed', () => {
    const limiter = createLimiter({ concurrency: 1 });
    const source = new Subject<number>();
    const { values, ends } = watch(source.pipe(bulkheadMap((item: number) => (item === 0 ? NEVER : of(item)), { limiter })));
    for (const item of [0, 1, 2]) source.next(item);
    limiter.close();
    source.next(3);
    expect(values.map((settled) => settled.status === 'rejected' && settled.reason)).toEqual(
      [1, 2, 3].map(() => new ClosedError('createLimiter')),
    );
    expect(ends).toEqual([]);
  });

  it('keeps the slot of a promise that was given up until it is over', async () => {
    const limiter = createLimiter({ concurrency: 1, abortGraceMs: 60_000 });
    const work = deferred<number>();
    const { subscription } = watch(of(1).pipe(bulkheadMap(() => work.promise, { limiter })));
    subscription.unsubscribe();
    expect(limiter.executing).toBe(1);
    work.resolve(1);
    await new Promise((done) => setImmediate(done));
    expect(limiter.executing).toBe(0);
  });

  it('runs 100,000 synchronous inner streams on a flat stack', () => {
    const limiter = createLimiter({ concurrency: 1 });
    const { values, ends } = watch(range(0, MANY).pipe(bulkheadMap((item) => of(item), { limiter })));
    expect(values).toHaveLength(MANY);
    expect(ends).toEqual(['complete']);
    expect(limiter.executing).toBe(0);
  });
});

describe('the bounds of bulkheadMap', () => {
  it("errors with overflow 'error' also where errors propagate", () => {
    const { ends } = watch(range(0, 3).pipe(bulkheadMap(() => NEVER, { concurrency: 1, maxQueued: 1, errors: 'propagate' })));
    expect(ends).toEqual([new OverflowError('bulkheadMap', 1, 'error')]);
  });

  it('takes what can start at once and nothing else with maxQueued 0', () => {
    const { values, subscription } = watch(
      concat(range(0, 4), NEVER).pipe(bulkheadMap(() => NEVER, { concurrency: 2, maxQueued: 0, overflow: 'dropNewest' })),
    );
    expect(values.map(({ input }) => input)).toEqual([2, 3]);
    subscription.unsubscribe();
  });

  it("makes room in the longest queue for a key that has none, with overflow 'dropOldest'", () => {
    const source = new Subject<string>();
    const { values, subscription } = watch(
      source.pipe(
        bulkheadMap(() => NEVER, {
          key: (item: string) => item.charAt(0),
          perKey: 1,
          concurrency: 2,
          maxQueued: 2,
          overflow: 'dropOldest',
        }),
      ),
    );
    for (const item of ['a1', 'b1', 'a2', 'a3', 'c1']) source.next(item);
    expect(values.map(({ input }) => input)).toEqual(['a2']);
    subscription.unsubscribe();
  });

  it("counts results held back by order 'input', and does not start more than it may hold", () => {
    const source = new Subject<number>();
    const gate = new Subject<number>();
    const { values, ends } = watch(
      source.pipe(
        bulkheadMap((item: number) => (item === 0 ? gate : of(item)), { order: inputOrder(), maxQueued: 2, overflow: 'dropNewest' }),
      ),
    );
    for (const item of [0, 1, 2, 3]) source.next(item);
    expect(values).toEqual([]);
    gate.complete();
    expect(values.map(({ index, status }) => [index, status])).toEqual([
      [0, 'fulfilled'],
      [1, 'fulfilled'],
      [2, 'fulfilled'],
      [3, 'rejected'],
    ]);
    expect(ends).toEqual([]);
  });

  it('leaves an inner stream that emits without end while it is being started', () => {
    const endless = new Observable<number>((subscriber) => {
      for (let i = 0; !subscriber.closed; i++) subscriber.next(i);
    });
    for (const order of [{}, { order: inputOrder() }]) {
      const { values, ends } = watch(
        of(1).pipe(
          bulkheadMap(() => endless, { errors: 'propagate', ...order }),
          take(3),
        ),
      );
      expect(values).toEqual([0, 1, 2]);
      expect(ends).toEqual(['complete']);
    }
  });
});

describe('bulkheadMap', () => {
  it('settles every item once and keeps every limit, whatever comes', () => {
    const item = fc.record({ key: fc.nat({ max: 3 }), ms: fc.nat({ max: 6 }), fails: fc.boolean(), gap: fc.nat({ max: 3 }) });
    const options = fc.record({
      concurrency: fc.constantFrom(1, 2, 3, Infinity),
      perKey: fc.constantFrom(1, 2, Infinity),
      order: fc.constantFrom(...ORDERS),
      maxQueued: fc.constantFrom(0, 1, 3, Infinity),
      overflow: fc.constantFrom('dropNewest' as const, 'dropOldest' as const, 'latest' as const),
      timeoutMs: fc.constantFrom(3, Infinity),
    });
    fc.assert(
      fc.property(fc.array(item, { maxLength: 25 }), options, (items, { order, ...given }) => {
        virtualTime(({ scheduler, advance, now }) => {
          const running = new Map<number, number>();
          let [total, problems] = [0, 0];
          const source = new Subject<(typeof items)[number]>();
          const { values, ends } = watch(
            source.pipe(
              bulkheadMap(
                ({ key, ms, fails }) =>
                  new Observable<number>((subscriber) => {
                    running.set(key, (running.get(key) ?? 0) + 1);
                    total++;
                    if (total > given.concurrency || running.get(key)! > given.perKey) problems++;
                    subscriber.add(
                      scheduler.schedule(() => {
                        if (fails) subscriber.error(new Error('failed'));
                        else subscriber.complete();
                      }, ms),
                    );
                    return () => {
                      running.set(key, running.get(key)! - 1);
                      total--;
                    };
                  }),
                { ...given, ...ordered(order, ({ key }: (typeof items)[number]) => key), key: ({ key }) => key },
              ),
            ),
          );
          for (const each of items) {
            advance(each.gap);
            source.next(each);
          }
          source.complete();
          advance(1000);
          expect(problems).toBe(0);
          expect(ends).toEqual(['complete']);
          expect(values.map(({ index }) => index).sort((a, b) => a - b)).toEqual(items.map((_, i) => i));
          for (const { input, index } of values) expect(input).toBe(items[index]);
          const lines = order === 'perKey' ? [0, 1, 2, 3].map((key) => values.filter(({ input }) => input.key === key)) : [values];
          if (order !== 'completion')
            for (const line of lines) expect(line.map(({ index }) => index)).toEqual(line.map(({ index }) => index).sort((a, b) => a - b));
          expect(now()).toBeGreaterThan(0);
        });
      }),
      { numRuns: sized(100, 300) },
    );
  });

  it('tells what it does', () => {
    virtualTime(({ flush }) => {
      const events: FlowEvent[] = [];
      const worker = createWorker<string, string>({ marbles: ['--(r|)', '---#'], answer: (item) => item });
      of('a', 'b', 'c')
        .pipe(
          bulkheadMap((item, context) => worker.work(item, context), {
            concurrency: 1,
            maxQueued: 1,
            overflow: 'dropNewest',
            onEvent: unstamped((event) => events.push(event)),
          }),
        )
        .subscribe();
      flush();
      expect(events.map(({ type }) => type)).toEqual([
        'accepted',
        'attemptStarted',
        'accepted',
        'accepted',
        'dropped',
        'settled',
        'attemptEnded',
        'settled',
        'attemptStarted',
        'attemptEnded',
        'settled',
        'drained',
      ]);
      expect(events).toContainEqual({
        type: 'settled',
        operator: 'bulkheadMap',
        lane: 'default',
        outcome: 'fulfilled',
        attempts: 1,
        totalMs: 2,
      });
      expect(events).toContainEqual({
        type: 'settled',
        operator: 'bulkheadMap',
        lane: 'default',
        outcome: 'rejected',
        attempts: 1,
        totalMs: 5,
      });
      expect(events).toContainEqual({ type: 'dropped', operator: 'bulkheadMap', lane: 'default', policy: 'dropNewest' });
    });
  });

  it('tells how many it gave up', () => {
    const events: FlowEvent[] = [];
    const { subscription } = watch(
      range(0, 3).pipe(bulkheadMap(() => NEVER, { concurrency: 1, onEvent: unstamped((event) => events.push(event)) })),
    );
    subscription.unsubscribe();
    expect(events.slice(-2)).toMatchObject([
      { type: 'cancelled', operator: 'bulkheadMap', lane: 'default', count: 3 },
      { type: 'attemptEnded', outcome: 'cancelled', batchId: '0', size: 1 },
    ]);
  });

  it('refuses answers of its callbacks that are of no use', () => {
    const reasons = (options: Settling<string>): unknown[] =>
      watch(of('a').pipe(bulkheadMap((item) => of(item), options))).values.map((settled: Settled<string, string>) =>
        settled.status === 'rejected' ? settled.reason : undefined,
      );
    expect(reasons({ key: (item) => item, perKey: () => 0 })).toEqual([
      new CallbackError('bulkheadMap', 'perKey', 'must return a whole number >= 1 or Infinity, returned 0'),
    ]);
  });

  it('does not take a key for a limit that objects have anyway', () => {
    const { values } = watch(
      of('constructor', '__proto__').pipe(bulkheadMap((item) => of(item), { key: (item) => item, perKey: { constructor: 1 } })),
    );
    expect(values.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled']);
  });

  it('finds the limit of a key that is a number by its name', () => {
    let [running, most] = [0, 0];
    const work = () =>
      new Observable<never>(() => {
        most = Math.max(most, ++running);
      });
    const { subscription } = watch(of(7, 7, 7).pipe(bulkheadMap(work, { key: (item) => item, perKey: { 7: 2 } })));
    expect(most).toBe(2);
    subscription.unsubscribe();
  });

  it('errors when a changing concurrency is out of range or errors', () => {
    const no = new Error('no');
    const range_ = watch(of(1).pipe(bulkheadMap(() => NEVER, { concurrency: of(0) })));
    expect(isFlowError(range_.ends[0], 'FLOW_CONFIG_INVALID')).toBe(true);
    const failing = watch(of(1).pipe(bulkheadMap(() => NEVER, { concurrency: throwError(() => no) })));
    expect(failing.ends).toEqual([no]);
  });

  it('runs ten at a time when nothing is said', () => {
    let started = 0;
    const { subscription } = watch(range(0, 50).pipe(bulkheadMap(() => (started++, NEVER))));
    expect(started).toBe(10);
    subscription.unsubscribe();
  });
});

describe('a bound, with a limiter as with slots of its own', () => {
  const script = fc.record({
    maxQueued: fc.nat({ max: 3 }),
    overflow: fc.constantFrom('dropOldest' as const, 'dropNewest' as const, 'latest' as const),
    slots: fc.integer({ min: 1, max: 3 }),
    perKey: fc.option(fc.integer({ min: 1, max: 2 }), { nil: undefined }),
    isOrdered: fc.boolean(),
    /** What is sent, or which of those under way ends. */
    steps: fc.array(fc.oneof({ weight: 2, arbitrary: fc.constantFrom('x', 'y', 'z') }, { weight: 1, arbitrary: fc.nat({ max: 3 }) }), {
      maxLength: 20,
    }),
  });

  it('keeps as many waiting, and drops the same', () => {
    fc.assert(
      fc.property(script, ({ maxQueued, overflow, slots, perKey, isOrdered, steps }) => {
        const logOf = (slotted: Settling<string>): string[] => {
          const log: string[] = [];
          const source = new Subject<string>();
          const calls: Subject<never>[] = [];
          const project = (_item: string, { index }: ItemContext): Observable<never> => {
            log.push(`call ${String(index)}`);
            const call = new Subject<never>();
            calls.push(call);
            return call;
          };
          const options = { ...slotted, maxQueued, overflow, ...(isOrdered && { order: inputOrder() }) };
          const keyed = perKey === undefined ? {} : { key: (item: string) => item, perKey };
          source
            .pipe(bulkheadMap(project, { ...options, ...keyed }))
            .subscribe(({ index, status }) => log.push(`${String(index)} ${status}`));
          for (const step of steps) {
            if (typeof step === 'string') source.next(step);
            else calls.splice(step % (calls.length || 1), 1)[0]?.complete();
          }
          return log;
        };
        expect(logOf({ limiter: createLimiter({ concurrency: slots }) })).toEqual(logOf({ concurrency: slots }));
      }),
    );
  });

  it('rejects at once with `maxQueued: 0` while another job holds the slot', () => {
    const limiter = createLimiter({ concurrency: 1 });
    limiter.tryAcquire();
    const { values } = watch(from([1, 2]).pipe(bulkheadMap(() => of(0), { limiter, maxQueued: 0, overflow: 'dropNewest' })));
    expect(values.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    expect(limiter.snapshot().queued).toBe(0);
  });
});
