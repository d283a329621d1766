import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createLimiter, lanes, perMinute } from '../../operators/index.js';
import { CountingScheduler } from '../support/counting-scheduler.js';
import { sized } from '../support/deep.js';

const shares = fc
  .array(fc.integer({ min: 1, max: 30 }), { minLength: 1, maxLength: 5 })
  .filter((floors) => floors.reduce((sum, floor) => sum + floor, 0) < 100)
  .map((floors) => floors.map((floor) => floor / 100));

/** One slot and lanes that are never empty: two jobs wait in each, and each grant adds another. Returns the granted lanes in order. */
function grants(floors: readonly number[], count: number, tokens: (lane: number) => number): number[] {
  const scheduler = new CountingScheduler();
  const limiter = createLimiter({
    concurrency: 1,
    rates: [perMinute('tokens', 60_000)],
    headroom: 1,
    scheduler,
    queue: lanes([{ name: 'l0' }, ...floors.map((floor, i) => ({ name: `l${String(i + 1)}`, floor }))]),
  });
  const order: number[] = [];
  const ask = (lane: number): void => {
    limiter.acquire({ lane: `l${String(lane)}`, cost: { tokens: tokens(lane) } }).subscribe((lease) => {
      order.push(lane);
      if (order.length >= count) return;
      ask(lane);
      lease.release();
    });
  };
  const first = limiter.tryAcquire();
  for (let lane = 0; lane <= floors.length; lane++) {
    ask(lane);
    ask(lane);
  }
  first?.release();
  scheduler.flush();
  return order;
}

/** Of every prefix: each lane with a floor has it, less a place for each lane that may be owed one at the same time. */
function expectFloors(order: readonly number[], floors: readonly number[]): void {
  floors.forEach((floor, i) => {
    let served = 0;
    order.forEach((lane, n) => {
      if (lane === i + 1) served++;
      const least = floor * (n + 1) - 2 * floors.length - 1;
      if (served < least)
        throw new Error(`lane ${String(i + 1)} has ${String(served)} of ${String(n + 1)} grants, its floor is ${String(floor)}`);
    });
  });
}

describe('no job starves', () => {
  it('when lane 0 never lets go: every lane gets its floor', () => {
    fc.assert(
      fc.property(shares, (floors) => {
        const order = grants(floors, 400, () => 0);
        expect(order).toHaveLength(400);
        expectFloors(order, floors);
      }),
      { numRuns: sized(80, 300) },
    );
  });

  it('when the tokens are short as well, and the lower lanes want more than the upper ones', () => {
    fc.assert(
      fc.property(shares, fc.array(fc.integer({ min: 0, max: 3000 }), { minLength: 6, maxLength: 6 }), (floors, wants) => {
        const order = grants(floors, 150, (lane) => (lane === 0 ? 10 : (wants[lane] ?? 0)));
        expect(order).toHaveLength(150);
        expectFloors(order, floors);
      }),
      { numRuns: sized(60, 200) },
    );
  });

  it('when more urgent jobs are only tried for: a turn is owed all the same', () => {
    const limiter = createLimiter({
      rates: [perMinute('tokens', 6000)],
      headroom: 1,
      queue: lanes([{ name: 'now' }, { name: 'later', floor: 0.25 }]),
      scheduler: new CountingScheduler(),
    });
    const waiting = ['first', 'second'].map(() => limiter.acquire({ lane: 'later', cost: { tokens: 150 } }).subscribe());
    // The second waits for its tokens. More urgent jobs get what is left, but not for ever.
    const tries = Array.from({ length: 6 }, () => limiter.tryAcquire({ lane: 'now', cost: { tokens: 1 } }) !== undefined);
    expect(tries).toEqual([true, true, true, true, false, false]);
    expect(limiter.snapshot().queued).toBe(1);
    for (const each of waiting) each.unsubscribe();
    expect(limiter.tryAcquire({ lane: 'now', cost: { tokens: 1 } })).toBeDefined();
  });
});
