import fc from 'fast-check';
import { concatMap, delay, from, map, mergeMap, NEVER, Observable, of, range, Subject, take, timer } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { leakCheck } from '../../marbles/leak-check.js';
import type { VirtualClock } from '../../marbles/virtual.js';
import { virtualTime } from '../../marbles/virtual.js';
import type { Cost, FlowEvent, Lease, Limiter, LimiterOptions, RateLimitOptions } from '../../operators/index.js';
import {
  CallbackError,
  ClosedError,
  childOf,
  createLimiter,
  ItemTooHeavyError,
  lanes,
  OverflowError,
  perMinute,
  rateLimit,
} from '../../operators/index.js';
import { refusing } from '../support/refusing.js';

/** A stream behind a limiter, and all that is seen of it. */
function limited<T = number>(limiter: Limiter, cost?: Cost | ((item: T) => Cost), options: RateLimitOptions<T> = {}) {
  const source = new Subject<T>();
  const seen: T[] = [];
  const ends: unknown[] = [];
  const events: FlowEvent[] = [];
  const subscription = source.pipe(rateLimit(limiter, cost, { onEvent: (event) => events.push(event), ...options })).subscribe({
    next: (item) => seen.push(item),
    error: (error: unknown) => ends.push(error),
    complete: () => ends.push('complete'),
  });
  const send = (...items: readonly T[]): void => {
    for (const item of items) source.next(item);
  };
  return { source, seen, ends, events, subscription, send };
}

/** A limiter whose only slot is taken. */
function full(options: LimiterOptions = {}): { limiter: Limiter; lease: Lease } {
  const limiter = createLimiter({ concurrency: 1, ...options });
  return { limiter, lease: limiter.tryAcquire()! };
}

/** Ten tokens saved up, and one in each millisecond. */
const metered = (options: LimiterOptions = {}): Limiter =>
  createLimiter({ rates: [perMinute('tokens', 60_000, { burst: 10 })], headroom: 1, ...options });

describe('the permit', () => {
  it('is held while an item is handed on, and given back when the consumer has returned', () => {
    const limiter = createLimiter({ concurrency: 1 });
    const during: number[] = [];
    of(1, 2, 3)
      .pipe(rateLimit(limiter))
      .subscribe(() => during.push(limiter.executing));
    expect(during).toEqual([1, 1, 1]);
    expect(limiter.executing).toBe(0);
  });

  it('is granted in the same call when nothing is in the way', () => {
    const { seen, send, ends, source } = limited(createLimiter());
    send(1);
    expect(seen).toEqual([1]);
    send(2, 3);
    source.complete();
    expect([seen, ends]).toEqual([[1, 2, 3], ['complete']]);
  });

  it('waits for a slot as well as for the rate', () => {
    const { limiter, lease } = full();
    const { seen, send } = limited(limiter);
    send(1, 2, 3);
    expect(seen).toEqual([]);
    expect(limiter.snapshot()).toMatchObject({ queued: 1, heldBySlot: 1 });
    lease.release();
    expect(seen).toEqual([1, 2, 3]);
  });

  it('may be asked for by the consumer, of the same limiter with one slot', () => {
    const limiter = createLimiter({ concurrency: 1 });
    const seen: number[] = [];
    of(1, 2, 3)
      .pipe(
        rateLimit(limiter),
        mergeMap((item) => limiter.run(() => of(item))),
      )
      .subscribe((item) => seen.push(item));
    expect(seen).toEqual([1, 2, 3]);
    expect(limiter.snapshot()).toMatchObject({ executing: 0, queued: 0 });
  });

  it('is not charged for a subscriber that leaves while waiting, and the next job does not wait for it', () => {
    virtualTime(({ advance }) => {
      const limiter = metered();
      const first = limited(limiter, { tokens: 10 });
      const other = limited(limiter, { tokens: 1 });
      first.send(1, 2);
      other.send(9);
      first.subscription.unsubscribe();
      advance(1);
      expect([first.seen, other.seen]).toEqual([[1], [9]]);
      expect(first.events).toEqual([{ type: 'cancelled', operator: 'rateLimit', lane: 'default', count: 1 }]);
      advance(10);
      expect(limiter.snapshot()).toMatchObject({ tokens: 10, queued: 0, executing: 0 });
    });
  });

  it('is not charged twice, nor an item handed on twice, when the consumer leaves while it is handed one', () => {
    virtualTime(({ advance }) => {
      const limiter = metered();
      const seen: number[] = [];
      concatOpen([1, 2, 3])
        .pipe(rateLimit(limiter, { tokens: 4 }), take(2))
        .subscribe((item) => seen.push(item));
      expect(seen).toEqual([1, 2]);
      expect(limiter.snapshot()).toMatchObject({ tokens: 2, queued: 0, executing: 0 });
      advance(10);
    });
  });
});

/** Emits at once, and stays open. */
function concatOpen(items: readonly number[]): Observable<number> {
  return new Observable((subscriber) => {
    for (const item of items) subscriber.next(item);
  });
}

describe('the cost', () => {
  it('is one request by default', () => {
    virtualTime(() => {
      const limiter = createLimiter({ rates: [perMinute('requests', 600, { burst: 10 })], headroom: 1 });
      limited(limiter).send(1, 2, 3);
      expect(limiter.snapshot().requests).toBe(7);
    });
  });

  it('may be any number of requests and tokens, for all or for each', () => {
    virtualTime(() => {
      const limits = { rates: [perMinute('requests', 600, { burst: 10 }), perMinute('tokens', 6000, { burst: 100 })], headroom: 1 };
      const limiter = createLimiter(limits);
      limited(limiter, { requests: 2, tokens: 20 }).send(1, 2);
      expect(limiter.snapshot()).toMatchObject({ requests: 6, tokens: 60 });
      limited(limiter, (item) => ({ requests: item - 2, tokens: 10 * item })).send(2, 3);
      expect(limiter.snapshot()).toMatchObject({ requests: 5, tokens: 10 });
      limited(limiter, () => ({})).send(1);
      expect(limiter.snapshot()).toMatchObject({ requests: 4, tokens: 10 });
    });
  });

  it('counts in a limiter below another as well as above', () => {
    virtualTime(({ advance }) => {
      const limits = { rates: [perMinute('requests', 600, { burst: 10 }), perMinute('tokens', 6000, { burst: 100 })], headroom: 1 };
      const parent = createLimiter(limits);
      const limiter = childOf(parent, { concurrency: 1, ...limits });
      const lease = limiter.tryAcquire({ cost: { requests: 0 } })!;
      const { seen, send } = limited(limiter, (item) => ({ requests: item, tokens: 10 * item }));
      send(2, 3);
      lease.release('unused');
      advance(0);
      expect(seen).toEqual([2, 3]);
      expect([limiter.snapshot(), parent.snapshot()]).toMatchObject([
        { requests: 5, tokens: 50 },
        { requests: 5, tokens: 50 },
      ]);
    });
  });

  it('is asked once for each item, when its turn comes, and not of items that are dropped', () => {
    virtualTime(({ advance }) => {
      const asked: number[] = [];
      const cost = (item: number): Cost => {
        asked.push(item);
        return { tokens: 10 };
      };
      const { seen, send, subscription } = limited(metered(), cost, { maxQueued: 2, overflow: 'dropOldest' });
      send(1, 2, 3, 4, 5);
      expect([seen, asked]).toEqual([[1], [1, 2, 3, 4]]);
      advance(10);
      expect([seen, asked]).toEqual([
        [1, 4],
        [1, 2, 3, 4, 5],
      ]);
      subscription.unsubscribe();
    });
  });

  it.each([
    [
      'throws',
      () => {
        throw new Error('no idea');
      },
      '`cost` threw',
    ],
    [
      'is no object',
      () => 5,
      '`cost` must return `requests`, `tokens` and units that the limiter counts, each left out or a finite number >= 0',
    ],
    ['is nothing', () => undefined, '`cost` must return'],
    ['is not a number', () => ({ tokens: NaN }), '`cost` must return'],
    ['is negative', () => ({ requests: -1 }), '`cost` must return'],
    ['is infinite', () => ({ tokens: Infinity }), '`cost` must return'],
    ['has an unknown name', () => ({ token: 5 }), '`cost` must return'],
  ])('that %s errors the stream', (_what, cost, message) => {
    const { ends, send } = limited(createLimiter(), cost as () => Cost);
    send(1);
    expect(ends).toEqual([expect.any(CallbackError)]);
    expect((ends[0] as Error).message).toMatch(`rateLimit: ${message}`);
  });

  it('that can never be paid errors the stream, whether it is tokens or requests, and blocks no other job', () => {
    virtualTime(() => {
      const rates = [refusing(perMinute('tokens', 60_000, { burst: 10 })), refusing(perMinute('requests', 6000, { burst: 1 }))];
      const limiter = createLimiter({ rates, headroom: 1 });
      const tokens = limited(limiter, { tokens: 11 });
      tokens.send(1);
      const requests = limited(limiter, { requests: 2 });
      requests.send(1);
      expect([tokens.ends, requests.ends]).toEqual([
        [new ItemTooHeavyError('rateLimit', 11, 10, 'tokens')],
        [new ItemTooHeavyError('rateLimit', 2, 1, 'requests')],
      ]);
      const after = limited(limiter);
      after.send(1);
      expect(after.seen).toEqual([1]);
    });
  });

  it('that could be paid, and can no more since the limits were lowered, errors the stream instead of hanging', () => {
    virtualTime(() => {
      const limiter = createLimiter({ rates: [refusing(perMinute('tokens', 60_000, { burst: 10 }))], headroom: 1 });
      const { seen, send, ends } = limited(limiter, { tokens: 9 });
      send(1, 2);
      expect(seen).toEqual([1]);
      limiter.setLimits({ rates: [refusing(perMinute('tokens', 30_000, { burst: 5 }))] });
      expect(ends).toEqual([new ItemTooHeavyError('rateLimit', 9, 5, 'tokens')]);
      expect(limiter.snapshot().queued).toBe(0);
    });
  });

  it('above the capacity goes into debt where the limiter lends', () => {
    virtualTime(({ advance }) => {
      const { seen, send } = limited(metered(), { tokens: 15 });
      send(1, 2);
      advance(14);
      expect(seen).toEqual([1]);
      advance(1);
      expect(seen).toEqual([1, 2]);
    });
  });

  it('may make the consumer leave while it is asked: nothing is handed on or charged', () => {
    virtualTime(({ advance }) => {
      const limiter = metered();
      const stream = limited(limiter, () => {
        stream.subscription.unsubscribe();
        return { tokens: 5 };
      });
      stream.send(1);
      expect(stream.seen).toEqual([]);
      expect(limiter.snapshot()).toMatchObject({ tokens: 10, queued: 0, executing: 0 });
      advance(100);
    });
  });

  it('may send into the source while it is asked: nothing is lost, and the order is kept', () => {
    const stream = limited(createLimiter(), (item) => {
      if (item < 3) stream.send(item + 1);
      return {};
    });
    stream.send(1);
    expect(stream.seen).toEqual([1, 2, 3]);
  });
});

describe('the place in the queue', () => {
  it('is one for a stream, so that two streams take turns', () => {
    const { limiter, lease } = full();
    const order: string[] = [];
    for (const name of ['a', 'b'])
      range(1, 3)
        .pipe(rateLimit(limiter))
        .subscribe((item) => order.push(`${name}${item}`));
    expect(limiter.snapshot().queued).toBe(2);
    lease.release();
    expect(order).toEqual(['a1', 'b1', 'a2', 'b2', 'a3', 'b3']);
  });

  it('is in the lane of the stream', () => {
    const { limiter, lease } = full({ queue: lanes([{ name: 'urgent' }, { name: 'later' }]) });
    const order: string[] = [];
    for (const lane of [undefined, 'later', 'urgent'])
      of(1, 2)
        .pipe(rateLimit(limiter, {}, lane === undefined ? {} : { lane }))
        .subscribe(() => order.push(lane ?? 'last'));
    lease.release();
    expect(order.slice(0, 2)).toEqual(['urgent', 'urgent']);
    expect(order.slice(2)).toEqual(['last', 'later', 'last', 'later']);
  });

  it('is kept when the oldest item is dropped: what goes is decided when the turn comes', () => {
    const { limiter, lease } = full();
    const order: string[] = [];
    const stream = limited(limiter, {}, { maxQueued: 1, overflow: 'latest' });
    stream.send(1);
    limiter.acquire().subscribe((other) => {
      order.push(`other after ${String(stream.seen)}`);
      other.release();
    });
    stream.send(2, 3);
    lease.release();
    expect(order).toEqual(['other after 3']);
  });

  it('is looked at anew when the new oldest item costs less', () => {
    virtualTime(() => {
      const { seen, send } = limited(metered(), (item) => ({ requests: item, tokens: item }), { maxQueued: 1, overflow: 'dropOldest' });
      send(6, 9);
      expect(seen).toEqual([6]);
      send(4);
      expect(seen).toEqual([6, 4]);
    });
  });

  it.each([0, 1])('is abandoned when a job granted just before it leaves the stream, with %d more waiting', (more) => {
    virtualTime(({ advance }) => {
      const { limiter, lease } = full();
      const asked: unknown[] = [];
      const stream = limited(limiter, (item) => {
        asked.push(item);
        return {};
      });
      const others: Lease[] = [];
      limiter.acquire().subscribe((other) => {
        others.push(other);
        stream.subscription.unsubscribe();
      });
      for (let i = 0; i < more; i++) limiter.acquire().subscribe();
      // Those who wait have their turn at the end of the frame, or before a newcomer.
      lease.release('cancelled');
      expect(others).toEqual([]);
      stream.send(1);
      expect([others.length, stream.seen, asked]).toEqual([1, [], [1]]);
      expect(limiter.snapshot()).toMatchObject({ executing: 1, queued: more });
      advance(1);
    });
  });

  it('takes no permit when a job granted and released just before it leaves the stream', () => {
    virtualTime(({ advance }) => {
      const { limiter, lease } = full();
      const stream = limited(limiter);
      limiter.acquire().subscribe((other) => {
        stream.subscription.unsubscribe();
        other.release();
      });
      lease.release('cancelled');
      let released = 0;
      limiter.onRelease(() => released++);
      stream.send(1);
      expect([released, stream.seen]).toEqual([1, []]);
      expect(limiter.snapshot()).toMatchObject({ executing: 0, queued: 0 });
      advance(1);
    });
  });

  it('waits behind earlier jobs, and is granted in the same call when they are granted and released', () => {
    virtualTime(({ advance }) => {
      const { limiter, lease } = full();
      const order: unknown[] = [];
      limiter.acquire().subscribe((other) => {
        order.push('other');
        other.release();
      });
      lease.release('cancelled');
      of(1, 2)
        .pipe(rateLimit(limiter))
        .subscribe((item) => order.push(item));
      expect(order).toEqual(['other', 1, 2]);
      advance(1);
    });
  });

  it('does not count towards the bound of the limiter, and has no time limit', () => {
    virtualTime(({ advance }) => {
      const { limiter, lease } = full({ maxQueued: 0 });
      const { seen, send, ends } = limited(limiter);
      send(1);
      advance(1000);
      expect([seen, ends]).toEqual([[], []]);
      lease.release();
      expect(seen).toEqual([1]);
    });
  });
});

describe('the bound', () => {
  it('is a thousand items by default, and the one too many errors the stream', () => {
    const { limiter } = full();
    const { send, ends } = limited(limiter);
    send(...Array.from({ length: 1000 }, (_, i) => i));
    expect(ends).toEqual([]);
    send(-1);
    expect(ends).toEqual([new OverflowError('rateLimit', 1000, 'error')]);
    expect(limiter.snapshot().queued).toBe(0);
  });

  it.each([
    ['dropOldest', [3, 4], [1, 2]],
    ['dropNewest', [1, 2], [3, 4]],
    ['latest', [3, 4], [1, 2]],
  ] as const)('%s drops what it says, and reports it', (overflow, out, lost) => {
    const dropped: unknown[] = [];
    const { limiter, lease } = full();
    const { send, seen, events } = limited(limiter, {}, { maxQueued: 2, overflow, onDrop: (...drop) => dropped.push(drop) });
    send(1, 2, 3, 4);
    lease.release();
    expect(seen).toEqual(out);
    expect(dropped).toEqual(lost.map((item) => [item, overflow]));
    expect(events).toEqual(lost.map(() => ({ type: 'dropped', operator: 'rateLimit', lane: 'default', policy: overflow })));
  });

  it('of 0 hands on what can go at once, and drops the rest, or errors', () => {
    const { limiter, lease } = full();
    const lossy = limited(limiter, {}, { maxQueued: 0, overflow: 'dropNewest' });
    const strict = limited(limiter, {}, { maxQueued: 0 });
    lossy.send(1, 2);
    strict.send(1);
    expect(strict.ends).toEqual([new OverflowError('rateLimit', 0, 'error')]);
    expect(limiter.snapshot().queued).toBe(0);
    lease.release();
    lossy.send(3, 4);
    expect(lossy.seen).toEqual([3, 4]);
    lossy.source.complete();
    expect(lossy.ends).toEqual(['complete']);
  });

  it('holds for what the consumer sends in while it is handed an item', () => {
    const source = new Subject<number>();
    const seen: number[] = [];
    const ends: unknown[] = [];
    source.pipe(rateLimit(createLimiter(), {}, { maxQueued: 2 })).subscribe({
      next: (item) => {
        seen.push(item);
        if (item === 1) for (const more of [2, 3, 4]) source.next(more);
      },
      error: (error: unknown) => ends.push(error),
    });
    source.next(1);
    expect([seen, ends]).toEqual([[1], [new OverflowError('rateLimit', 2, 'error')]]);
  });

  it('errors the stream when onDrop throws', () => {
    const cause = new Error('no');
    const { limiter } = full();
    const onDrop = (): never => {
      throw cause;
    };
    const { send, ends } = limited(limiter, {}, { maxQueued: 1, overflow: 'dropOldest', onDrop });
    send(1, 2);
    expect(ends).toEqual([new CallbackError('rateLimit', 'onDrop', 'threw', cause)]);
    expect(limiter.snapshot().queued).toBe(0);
  });

  it('is never passed by what onDrop sends in', () => {
    const { limiter, lease } = full();
    let sends = 5;
    const stream = limited(
      limiter,
      {},
      {
        maxQueued: 2,
        overflow: 'dropOldest',
        onDrop: (item) => {
          if (sends-- > 0) stream.send(10 + item);
        },
      },
    );
    stream.send(1, 2, 3);
    lease.release();
    expect(stream.seen).toHaveLength(2);
    expect(stream.events.filter(({ type }) => type === 'dropped')).toHaveLength(6);
  });
});

describe('the end', () => {
  it('comes when nothing waits any more', () => {
    const { limiter, lease } = full();
    const { send, source, ends, seen } = limited(limiter);
    send(1, 2);
    source.complete();
    expect(ends).toEqual([]);
    lease.release();
    expect([seen, ends]).toEqual([[1, 2], ['complete']]);
  });

  it('comes after the item in whose handing on the source completes', () => {
    const source = new Subject<number>();
    const steps: unknown[] = [];
    source.pipe(rateLimit(createLimiter())).subscribe({
      next: (item) => {
        source.complete();
        steps.push(item);
      },
      complete: () => steps.push('complete'),
    });
    source.next(1);
    expect(steps).toEqual([1, 'complete']);
  });

  it('is an error when the limiter is closed: at once for what waits, and for what comes', () => {
    const { limiter } = full();
    const waiting = limited(limiter);
    const later = limited(limiter);
    waiting.send(1, 2);
    limiter.close();
    expect([waiting.ends, later.ends]).toEqual([[new ClosedError('createLimiter')], []]);
    expect(waiting.events).toEqual([{ type: 'cancelled', operator: 'rateLimit', lane: 'default', count: 2 }]);
    later.send(1);
    expect(later.ends).toEqual([new ClosedError('createLimiter')]);
  });

  it('is an error when the limiter drains: the item that is next passes, the one after it does not', async () => {
    const { limiter, lease } = full();
    const { send, seen, ends } = limited(limiter);
    send(1, 2);
    const drained = limiter.drain();
    lease.release();
    expect([seen, ends]).toEqual([[1], [new ClosedError('createLimiter')]]);
    await drained;
  });

  it('leaves nothing: no place, no timer, no subscription', () => {
    virtualTime(({ scheduler, advance }) => {
      using leaks = leakCheck({ scheduler });
      const limiter = metered();
      const source = leaks.watch('the source', NEVER);
      const subscriptions = [1, 2, 3].map(() => source.pipe(rateLimit(limiter, { tokens: 9 })).subscribe());
      const busy = leaks
        .watch('a burst', concatOpen([1, 2, 3]))
        .pipe(rateLimit(limiter, { tokens: 9 }))
        .subscribe();
      advance(1);
      for (const subscription of [...subscriptions, busy]) subscription.unsubscribe();
      advance(0);
      expect(leaks.left()).toEqual([]);
    });
  });
});

describe('many items', () => {
  it('a hundred thousand that waited are handed on in a flat loop', () => {
    const { limiter, lease } = full();
    let count = 0;
    range(1, 100_000)
      .pipe(rateLimit(limiter, {}, { maxQueued: Infinity }))
      .subscribe(() => count++);
    lease.release();
    expect(count).toBe(100_000);
  });

  it('that the consumer makes one of another do not recurse', () => {
    const source = new Subject<number>();
    const limiter = createLimiter();
    let last = 0;
    source.pipe(rateLimit(limiter)).subscribe((item) => {
      last = item;
      if (item < 50_000) source.next(item + 1);
    });
    source.next(1);
    expect(last).toBe(50_000);
    expect(limiter.snapshot()).toMatchObject({ executing: 0, queued: 0 });
  });

  it('may be null, undefined, or the same one again', () => {
    const { limiter, lease } = full();
    const { send, seen } = limited<unknown>(limiter);
    send(undefined, null, undefined, 0, '');
    lease.release();
    expect(seen).toEqual([undefined, null, undefined, 0, '']);
  });

  it('of two subscriptions of one stream are charged to one limiter, and share nothing else', () => {
    virtualTime(({ flush }) => {
      const limiter = metered();
      const stream = of('a', 'b').pipe(rateLimit(limiter, { tokens: 5 }));
      const seen: string[] = [];
      stream.subscribe((item) => seen.push(`1${item}`));
      stream.subscribe((item) => seen.push(`2${item}`));
      flush();
      expect(seen).toEqual(['1a', '1b', '2a', '2b']);
      expect(limiter.snapshot().tokens).toBe(0);
    });
  });
});

describe('the rate', () => {
  /** When items with these costs are handed on that come so many ms after one another. */
  function handedOnAt(clock: VirtualClock, gapsMs: readonly number[], costs: readonly number[]): readonly (readonly [number, number])[] {
    const limiter = metered();
    const seen: [number, number][] = [];
    from(gapsMs)
      .pipe(
        concatMap((gapMs, i) => (gapMs === 0 ? of(i) : of(i).pipe(delay(gapMs)))),
        rateLimit(limiter, (i) => ({ tokens: costs[i]! })),
      )
      .subscribe((i) => seen.push([i, clock.now()]));
    clock.flush();
    return seen;
  }

  it('is that of a bucket reckoned by hand, in order, with nothing lost and nothing doubled', () => {
    const items = fc.array(fc.record({ gapMs: fc.nat({ max: 12 }), cost: fc.nat({ max: 15 }) }), { maxLength: 30 });
    fc.assert(
      fc.property(items, (all) => {
        const seen = virtualTime((clock) =>
          handedOnAt(
            clock,
            all.map(({ gapMs }) => gapMs),
            all.map(({ cost }) => cost),
          ),
        );
        let level = 10;
        let at = 0;
        let arrivedAt = 0;
        const expected = all.map(({ gapMs, cost }, i) => {
          arrivedAt += gapMs;
          const from = Math.max(at, arrivedAt);
          level = Math.min(10, level + from - at);
          // More than the bucket holds is lent when it is full; what costs nothing waits until no debt is left.
          const waitMs = Math.max(0, Math.min(cost, 10) - level);
          at = from + waitMs;
          level = Math.min(10, level + waitMs) - cost;
          return [i, at];
        });
        expect(seen).toEqual(expected);
      }),
    );
  });

  it('is what concatMap with a timer makes of it, where that can say it', () => {
    virtualTime(({ flush, now }) => {
      const seen: string[] = [];
      const limiter = createLimiter({ rates: [perMinute('requests', 6000, { burst: 1 })], headroom: 1 });
      of(1, 2, 3)
        .pipe(rateLimit(limiter))
        .subscribe((item) => seen.push(`${item} at ${now()}`));
      const spaced: string[] = [];
      of(1, 2, 3)
        .pipe(concatMap((item, i) => timer(i === 0 ? 0 : 10).pipe(map(() => item))))
        .subscribe((item) => spaced.push(`${item} at ${now()}`));
      flush();
      expect(seen).toEqual(['1 at 0', '2 at 10', '3 at 20']);
      expect(spaced).toEqual(seen);
    });
  });
});

describe('a cost that sends items in', () => {
  const choices = fc.record({
    overflow: fc.constantFrom('dropOldest' as const, 'dropNewest' as const, 'latest' as const),
    maxQueued: fc.constantFrom(0, 1, 2, 5),
    isFull: fc.boolean(),
    sent: fc.integer({ min: 1, max: 6 }),
    /** How many the nth call of `cost` sends in. */
    burst: fc.array(fc.nat({ max: 3 }), { maxLength: 8 }),
  });

  it('is asked once for each item, and each pays its own', () => {
    fc.assert(
      fc.property(choices, ({ overflow, maxQueued, isFull, sent, burst }) => {
        const saved = 1_000_000;
        const limiter = createLimiter({ concurrency: 1, rates: [perMinute('tokens', 1, { burst: saved })], headroom: 1 });
        const lease = isFull ? limiter.tryAcquire({ cost: { requests: 0 } }) : undefined;
        const asked: number[] = [];
        let next = 0;
        const { send, seen, ends } = limited(
          limiter,
          (item) => {
            for (let left = burst[asked.push(item) - 1] ?? 0; left > 0; left--) send(next++);
            return { tokens: 2 ** (item % 16) };
          },
          { overflow, maxQueued },
        );
        while (next < sent) send(next++);
        lease?.release();
        expect(ends).toEqual([]);
        expect(new Set(asked).size).toBe(asked.length);
        expect(seen.filter((item) => !asked.includes(item))).toEqual([]);
        expect(saved - Math.round(limiter.snapshot().tokens)).toBe(seen.reduce((sum, item) => sum + 2 ** (item % 16), 0));
      }),
      { numRuns: 300 },
    );
  });
});

describe('a limiter that sorts its jobs into lanes', () => {
  it.each([true, false])('is not asked whose lane it is: the stream has one, and without a name the last (busy: %s)', (isFull) => {
    for (const lane of [undefined, 'urgent', 'bulk']) {
      const asked: unknown[] = [];
      const by = (job: unknown): string => {
        asked.push(job);
        return 'urgent';
      };
      const limiter = createLimiter({ concurrency: 1, queue: lanes([{ name: 'urgent' }, { name: 'bulk' }], { by }) });
      const lease = isFull ? limiter.tryAcquire({ lane: 'urgent' }) : undefined;
      const { send, seen } = limited(limiter, {}, lane === undefined ? {} : { lane });
      send(1, 2, 3);
      lease?.release();
      expect([seen, asked]).toEqual([[1, 2, 3], []]);
    }
  });
});
