import fc from 'fast-check';
import { concat, from, interval, map, NEVER, Observable, of, take, takeUntil, timer } from 'rxjs';
import { describe, expect, it } from 'vitest';
import type { VirtualClock } from '../../marbles/virtual.js';
import { virtualTime } from '../../marbles/virtual.js';
import type { BatchMapOptions, Limiter, LimiterOptions } from '../../operators/index.js';
import { batchMap, createLimiter, natural, perMinute, tokenBucket } from '../../operators/index.js';

interface Item {
  readonly id: number;
  readonly tokens: number;
}

interface Call {
  readonly atMs: number;
  readonly ids: readonly number[];
  readonly tokens: number;
}

interface Outcome {
  readonly calls: readonly Call[];
  /** Ids in the order they were settled, and when the last one was. */
  readonly done: readonly number[];
  readonly rejected: readonly number[];
  readonly finishedMs: number;
  readonly limiter: Limiter;
}

const CALL_MS = 50;

/** A thousand items of 60 tokens at 60,000 tokens a minute: a minute's worth. */
const items = Array.from({ length: 1000 }, (_, id): Item => ({ id, tokens: 60 }));

function send(source: Observable<Item>, limits: LimiterOptions, options: BatchMapOptions<Item>, clock: VirtualClock): Outcome {
  const limiter = createLimiter({ headroom: 1, ...limits });
  const calls: Call[] = [];
  const done: number[] = [];
  const rejected: number[] = [];
  let finishedMs = NaN;
  const work = (batch: readonly Item[]) => {
    const tokens = batch.reduce((sum, item) => sum + item.tokens, 0);
    calls.push({ atMs: clock.now(), ids: batch.map(({ id }) => id), tokens });
    return timer(CALL_MS).pipe(map(() => batch.map(({ id }) => id)));
  };
  source.pipe(batchMap(work, { limiter, weigh: (item) => item.tokens, maxQueued: 2000, ...options })).subscribe((settled) => {
    (settled.status === 'fulfilled' ? done : rejected).push(settled.input.id);
    finishedMs = clock.now();
  });
  clock.flush();
  return { calls, done, rejected, finishedMs, limiter };
}

const arrivals = {
  'all at once': () => from(items),
  'one each ms': () =>
    interval(1).pipe(
      take(items.length),
      map((id) => items[id]!),
    ),
};

/** When the last item can be done at the soonest: the bucket is full at the start, the rest has to come in. */
const soonestMs = (burstTokens: number): number => items.length * 60 - burstTokens + CALL_MS;

describe('batchMap under a token limit', () => {
  describe.each(Object.entries(arrivals))('with items that arrive %s', (_name, source) => {
    it.each([1, 4, 16])(
      'sends full batches: 50 calls for 1,000 items, a fifth more at most, and is no later for it; %d slots',
      (concurrency) => {
        virtualTime((clock) => {
          const { calls, done, finishedMs } = send(source(), { concurrency, rates: [perMinute('tokens', 60_000)] }, { maxSize: 20 }, clock);
          expect(done.toSorted((a, b) => a - b)).toEqual(items.map(({ id }) => id));
          expect(calls.length).toBeGreaterThanOrEqual(50);
          expect(calls.length).toBeLessThanOrEqual(60);
          expect(finishedMs).toBeGreaterThanOrEqual(soonestMs(2000));
          // Waiting for full batches delays no batch beyond this.
          expect(finishedMs).toBeLessThanOrEqual(soonestMs(2000) + 20);
        });
      },
    );

    it('fills them by weight when that is what is short: what the limiter can ever grant is what it aims at', () => {
      virtualTime((clock) => {
        const { calls, done, finishedMs } = send(
          source(),
          { concurrency: 4, rates: [perMinute('tokens', 60_000, { burst: 1000 })] },
          { maxSize: 100, maxWeight: 8192 },
          clock,
        );
        expect(done).toHaveLength(1000);
        expect(Math.max(...calls.map(({ tokens }) => tokens))).toBeLessThanOrEqual(1000);
        // 16 items fit into 1,000 tokens: 63 calls.
        expect(calls.length).toBeLessThanOrEqual(63 * 1.2);
        expect(finishedMs).toBeLessThanOrEqual(soonestMs(1000) + 960);
      });
    });

    it('keeps the order, and never sends more tokens than have come in', () => {
      virtualTime((clock) => {
        const { calls } = send(source(), { rates: [perMinute('tokens', 60_000)] }, { maxSize: 20 }, clock);
        expect(calls.flatMap(({ ids }) => ids)).toEqual(items.map(({ id }) => id));
        let sent = 0;
        for (const { atMs, tokens } of calls) {
          sent += tokens;
          expect(sent).toBeLessThanOrEqual(2000 + atMs + 0.01);
        }
      });
    });
  });

  it('does not wait for company while tokens are saved up and the window is 0, and sends full batches once they are spent', () => {
    virtualTime((clock) => {
      const { calls } = send(
        arrivals['one each ms'](),
        { rates: [perMinute('tokens', 60_000)] },
        { maxSize: 20, window: natural() },
        clock,
      );
      const alone = calls.findIndex(({ ids }) => ids.length > 1);
      expect(alone).toBe(33);
      expect(calls.slice(alone, -1).every(({ ids }) => ids.length === 20)).toBe(true);
    });
  });

  it('shares the limit with others without going past them', () => {
    virtualTime((clock) => {
      const limiter = createLimiter({ rates: [perMinute('tokens', 60_000)], headroom: 1 });
      const order: string[] = [];
      const stream = (name: string, count: number): void => {
        from(items.slice(0, count))
          .pipe(batchMap((batch: readonly Item[]) => (order.push(name), of(batch)), { limiter, weigh: (item) => item.tokens, maxSize: 20 }))
          .subscribe();
      };
      stream('a', 200);
      stream('b', 200);
      clock.flush();
      // Neither waits for the other to be done: they take turns.
      let lead = 0;
      let most = 0;
      for (const name of order) {
        lead += name === 'a' ? 1 : -1;
        most = Math.max(most, Math.abs(lead));
      }
      expect([order.length, lead]).toEqual([20, 0]);
      expect(most).toBeLessThanOrEqual(2);
    });
  });
});

describe('an item deadline under a token limit', () => {
  /** The bucket is empty, 20 items of 60 tokens wait: a whole batch can be paid after 1,200 ms. */
  const late = (deadlineMs: number, clock: VirtualClock): Outcome => {
    const spent = { rates: [perMinute('tokens', 60_000, { burst: 1200 })] };
    const first = { id: -1, tokens: 1200 };
    return send(
      concat(of(first), timer(10).pipe(map(() => items[0]!)), from(items.slice(1, 20))),
      spent,
      { maxSize: 20, window: natural(), deadlineMs: (item) => (item.id < 0 ? Infinity : deadlineMs) },
      clock,
    );
  };

  it('that can be met waits for the whole batch', () => {
    virtualTime((clock) => {
      const { calls, rejected } = late(5000, clock);
      expect(rejected).toEqual([]);
      expect(calls.map(({ ids }) => ids.length)).toEqual([1, 20]);
      expect(calls[1]?.atMs).toBe(1200);
    });
  });

  it('that would be missed makes the part go that can be paid, and only when it is time for it', () => {
    virtualTime((clock) => {
      const { calls, done, rejected } = late(600, clock);
      const [, second] = calls;
      // Calls take 50 ms, so the last moment for a deadline at 610 is 560; by then 560 tokens have come in: nine items.
      expect(second?.atMs).toBeGreaterThanOrEqual(540);
      expect(second?.atMs).toBeLessThanOrEqual(560);
      expect(second?.ids).toEqual(items.slice(0, Math.floor((second?.atMs ?? 0) / 60)).map(({ id }) => id));
      expect(done.length + rejected.length).toBe(21);
      expect(done).toEqual(expect.arrayContaining([...(second?.ids ?? [])]));
    });
  });

  it('makes no difference to items without one', () => {
    virtualTime((clock) => {
      expect(late(Infinity, clock).calls.map(({ ids }) => ids.length)).toEqual([1, 20]);
    });
  });

  it('of an item that cannot be paid in time at all rejects it, and the others go', () => {
    virtualTime((clock) => {
      const limiter = createLimiter({ rates: [perMinute('tokens', 60_000, { burst: 1000 })], headroom: 1 });
      limiter.tryAcquire({ cost: { tokens: 1000 } });
      const seen: string[] = [];
      from([
        { id: 0, tokens: 900 },
        { id: 1, tokens: 60 },
      ])
        .pipe(
          batchMap((batch: readonly Item[]) => of(batch), {
            limiter,
            weigh: (item) => item.tokens,
            maxSize: 2,
            deadlineMs: (item) => (item.id === 0 ? 300 : Infinity),
          }),
        )
        .subscribe((settled) => seen.push(`${String(settled.input.id)} ${settled.status} at ${String(clock.now())}`));
      clock.flush();
      expect(seen).toEqual(['0 rejected at 300', '1 fulfilled at 300']);
    });
  });

  it('leaves nothing behind when the consumer leaves', () => {
    virtualTime(({ pending }) => {
      const limiter = createLimiter({ rates: [perMinute('tokens', 60_000)], headroom: 1 });
      limiter.tryAcquire({ cost: { tokens: 2000 } })!.release();
      const subscription = concat(from(items.slice(0, 5)), NEVER)
        .pipe(batchMap((batch: readonly Item[]) => of(batch), { limiter, weigh: (item) => item.tokens, maxSize: 5, deadlineMs: 500 }))
        .subscribe();
      expect(pending()).toBeGreaterThan(0);
      subscription.unsubscribe();
      expect([pending(), limiter.snapshot().queued]).toEqual([0, 0]);
    });
  });
});

it('sends an item above `maxWeight` alone, whatever its deadline and however many weightless ones wait', () => {
  const plan = fc.record({
    weights: fc.array(fc.constantFrom(0, 0, 1, 2, 3, 5, 7), { minLength: 1, maxLength: 8 }),
    spent: fc.integer({ min: 0, max: 6 }),
    deadlineMs: fc.constantFrom(60, 120, 300, 5000),
    burst: fc.constantFrom(3, 5, 8),
  });
  fc.assert(
    fc.property(plan, ({ weights, spent, deadlineMs, burst }) => {
      virtualTime(({ flush }) => {
        const limiter = createLimiter({ headroom: 1, rates: [tokenBucket({ unit: 'tokens', amount: burst, windowMs: 100, burst })] });
        limiter.tryAcquire({ cost: { tokens: spent } })?.release();
        const calls: (readonly number[])[] = [];
        const work = (items: readonly number[]) => of((calls.push(items), items));
        const options = { limiter, weigh: (weight: number) => weight, maxWeight: 3, window: natural(), deadlineMs };
        concat(from(weights), NEVER.pipe(takeUntil(timer(9000))))
          .pipe(batchMap(work, options))
          .subscribe();
        flush();
        for (const items of calls) if (items.some((weight) => weight > 3)) expect(items).toHaveLength(1);
      });
    }),
    { numRuns: 300 },
  );
});
