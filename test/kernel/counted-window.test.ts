/* oxlint-disable no-restricted-imports -- the parts of a shared limit are not exported */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CountedWindow, spanMs } from '../../operators/kernel/credit/counted-window.js';
import type { CreditLimit } from '../../operators/kernel/credit/credit.js';
import { liveCopy, plainCopy } from '../../operators/kernel/credit/saved-credit.js';
import { limit } from '../support/credit.js';
import { draws } from '../support/deep.js';

/** With a guard of 200 ms this is counted in 61 parts of 20 ms: 50 of the window, 10 of the guard and the present one. */
const GUARD_MS = 200;
const SPAN_MS = 1220;
const window100 = limit({ amount: 100, windowMs: 1000 });
/** One each ms. */
const bucket = limit({ amount: 1220, windowMs: 1000, burst: 100 });

/** A window of which the time is told with each call. */
class Timed {
  readonly window: CountedWindow;
  constructor(
    private readonly limit: CreditLimit,
    { at = 0, guardMs = GUARD_MS, isLost = false } = {},
  ) {
    this.window = new CountedWindow(limit, guardMs, at, isLost);
  }

  to(now: number, isAwaited = false, guardMs = GUARD_MS): this {
    this.window.advance(this.limit, guardMs, now, isAwaited);
    return this;
  }

  room(now: number, isAwaited = false): number {
    return this.to(now, isAwaited).window.room(this.limit, now);
  }

  left(now: number): number {
    return this.to(now).window.left(this.limit);
  }

  waitMs(now: number, cost: number, ahead = 0): number {
    return this.to(now).window.waitMs(this.limit, cost, ahead, now);
  }

  grant(now: number, amount: number): this {
    this.to(now).window.grant(this.limit, amount, now);
    return this;
  }

  correct(now: number, delta: number, at: number): this {
    this.to(now).window.correct(this.limit, delta, at);
    return this;
  }
}

describe('a window that is counted in parts', () => {
  it('counts a grant for the window, the guard and the rest of the present part', () => {
    expect(spanMs(window100, GUARD_MS)).toBe(SPAN_MS);
    const timed = new Timed(window100).grant(0, 30).grant(19, 20).grant(20, 10);
    expect([timed.left(20), timed.room(20)]).toEqual([40, 40]);
    expect([timed.left(1219), timed.left(1220), timed.left(1239), timed.left(1240)]).toEqual([40, 90, 90, 100]);
  });

  it('says when the parts end in which enough was granted', () => {
    const timed = new Timed(window100).grant(0, 30).grant(20, 20).grant(40, 50);
    const waits = [0, 1, 30, 31, 50, 51, 100, 101, 1000].map((cost) => timed.waitMs(50, cost));
    expect(waits).toEqual([0, 1170, 1170, 1190, 1190, 1210, 1210, 1210, 1210]);
    expect(timed.waitMs(1219, 30)).toBe(1);
    expect([timed.waitMs(1220, 30), timed.waitMs(1220, 31)]).toEqual([0, 20]);
  });

  it('waits for what is ahead as well, for no more than there ever is', () => {
    const timed = new Timed(window100).grant(0, 30).grant(20, 70);
    expect([timed.waitMs(20, 10, 20), timed.waitMs(20, 10, 21), timed.waitMs(20, 0, 31), timed.waitMs(20, 90, 90)]).toEqual([
      1200, 1220, 1220, 1220,
    ]);
  });

  it('waits for nothing where less than a millionth is missing', () => {
    const timed = new Timed(window100).grant(0, 30).grant(20, 70 + 1e-6);
    expect([timed.waitMs(20, 0), timed.waitMs(20, 1e-6), timed.waitMs(20, 30), timed.waitMs(20, 30 + 1e-6)]).toEqual([0, 1200, 1200, 1220]);
  });

  it('waits for nothing where exactly a millionth is missing', () => {
    const least = { amount: 1e-6, windowMs: 1000 };
    for (const each of [limit(least), limit({ ...least, burst: 1e-6 }), limit({ ...least, endsInMs: 1000 })])
      expect(new Timed(each).grant(0, 1e-6).waitMs(0, 1e-6)).toBe(0);
  });

  it('may be in debt after a grant of more than there is', () => {
    const timed = new Timed(window100).grant(0, 130).grant(20, 10);
    expect([timed.left(20), timed.room(20), timed.waitMs(20, 0), timed.waitMs(20, 95)]).toEqual([-40, -40, 1200, 1220]);
  });

  it('corrects the part in which a credit was granted', () => {
    const timed = new Timed(window100).grant(0, 30).grant(100, 20);
    expect(timed.correct(110, -10, 19).left(110)).toBe(60);
    expect(timed.correct(110, 5, 119).left(110)).toBe(55);
    expect(timed.left(1220)).toBe(75);
    expect(timed.left(1320)).toBe(100);
  });

  it('gives back no more than a part has', () => {
    const timed = new Timed(window100).grant(0, 30).grant(100, 20);
    expect([timed.correct(110, -31, 0).left(110), timed.correct(110, -5, 50).left(110), timed.correct(110, -5, 0).left(110)]).toEqual([
      80, 80, 80,
    ]);
    expect(timed.waitMs(110, 81)).toBe(1210);
  });

  it('charges a part in which nothing was granted, in its place among the others', () => {
    const timed = new Timed(window100).grant(0, 30).grant(100, 20).correct(110, 40, 50);
    expect([timed.waitMs(110, 11), timed.waitMs(110, 40), timed.waitMs(110, 41), timed.waitMs(110, 81)]).toEqual([1110, 1110, 1150, 1210]);
    expect([timed.left(1219), timed.left(1220), timed.left(1260), timed.left(1320)]).toEqual([10, 40, 80, 100]);
  });

  it('takes a correction of a later time for one of the present part', () => {
    const timed = new Timed(window100).grant(0, 30).correct(40, 10, 5000);
    expect([timed.left(40), timed.left(1220), timed.left(1259), timed.left(1260)]).toEqual([60, 90, 90, 100]);
  });

  it('corrects nothing that has left it', () => {
    const timed = new Timed(window100).grant(0, 30).grant(20, 30);
    expect([timed.correct(1220, 50, 19).left(1220), timed.correct(1220, -10, 20).left(1220)]).toEqual([70, 80]);
    expect(timed.waitMs(1220, 90)).toBe(20);
  });

  it('is not touched by a correction of what has left it, and neither is a bucket', () => {
    for (const each of [window100, bucket]) {
      const timed = new Timed(each).grant(0, 30).grant(1220, 40);
      const before = [timed.window.left(each), timed.window.room(each, 1220), timed.window.waitMs(each, 90, 0, 1220)];
      timed.window.correct(each, 50, 19);
      timed.window.correct(each, -20, 19);
      expect([timed.window.left(each), timed.window.room(each, 1220), timed.window.waitMs(each, 90, 0, 1220)]).toEqual(before);
    }
  });

  it('has exactly all of it again when nothing is left in it', () => {
    const timed = new Timed(window100).grant(0, 0.1).grant(0, 0.2).grant(20, 0.3);
    expect([timed.left(1220), timed.left(1240)]).toEqual([99.7, 100]);
  });

  const steps = fc.array(
    fc.record({
      do: fc.constantFrom('grant', 'grant', 'correct', 'wait', 'wait'),
      size: fc.nat({ max: 40 }),
      ms: fc.oneof(fc.nat({ max: 45 }), fc.nat({ max: 700 })),
    }),
    { minLength: 1, maxLength: 60, size: 'max' },
  );

  it('is the sum of its parts, and waits until enough of them are over', () => {
    fc.assert(
      fc.property(steps, fc.nat({ max: 130 }), fc.nat({ max: 60 }), (all, cost, ahead) => {
        const timed = new Timed(window100);
        const parts = new Map<number, number>();
        let now = 0;
        const used = (at: number): number =>
          [...parts].reduce((sum, [part, amount]) => (part > Math.floor(at / 20) - 61 ? sum + amount : sum), 0);
        for (const { do: what, size, ms } of all) {
          const part = Math.floor((what === 'correct' ? Math.max(0, now - ms) : now) / 20);
          const before = parts.get(part) ?? 0;
          if (what === 'wait') now += ms;
          if (what === 'grant') {
            timed.grant(now, size);
            parts.set(part, before + size);
          }
          if (what === 'correct') {
            timed.correct(now, size - 25, Math.max(0, now - ms));
            parts.set(part, Math.max(0, before + size - 25));
          }
          expect([timed.left(now), timed.room(now)]).toEqual([100 - used(now), 100 - used(now)]);
          // The first moment at which a part ends and enough is left.
          let at = now;
          while (used(at) + Math.min(100, cost + ahead) > 100) at = Math.floor(at / 20 + 1) * 20;
          expect(timed.waitMs(now, cost, ahead)).toBe(at - now);
        }
      }),
      { numRuns: draws(100, 300) },
    );
  });
});

describe('a bucket', () => {
  it('starts full, is filled evenly and overflows', () => {
    const timed = new Timed(bucket);
    expect(timed.room(0)).toBe(100);
    timed.grant(0, 60);
    expect([timed.room(0), timed.left(0)]).toEqual([40, 1160]);
    expect([10, 59, 60, 61, 500].map((at) => Math.round(timed.room(at) * 1e6) / 1e6)).toEqual([50, 99, 100, 100, 100]);
  });

  it('never gives more than its window has', () => {
    const timed = new Timed(bucket).grant(0, 1200);
    // By its pace it is full again.
    expect([timed.room(1219), timed.room(1220)]).toEqual([20, 100]);
  });

  it('saves up two parts more while something waits, and loses them when nothing does', () => {
    const timed = new Timed(bucket);
    expect([timed.room(50, true), timed.room(1000, true)].map((room) => Math.round(room * 1e6) / 1e6)).toEqual([140, 140]);
    expect([timed.room(1000), timed.room(1000, true)].map((room) => Math.round(room * 1e6) / 1e6)).toEqual([100, 100]);
    expect(timed.room(1010, true)).toBeCloseTo(110, 6);
  });

  it('says when enough has come in', () => {
    const timed = new Timed(bucket).grant(0, 100);
    const waits = (now: number): number[] =>
      (
        [
          [30, 0],
          [30, 50],
          [100, 0],
          [300, 0],
          [300, 50],
          [0, 300],
          [0, 0],
        ] as const
      ).map(([cost, ahead]) => Math.round(timed.waitMs(now, cost, ahead) * 1e6) / 1e6);
    expect(waits(0)).toEqual([30, 80, 100, 100, 150, 300, 0]);
    expect(waits(30)).toEqual([0, 50, 70, 70, 120, 270, 0]);
    expect(waits(150)).toEqual([0, 0, 0, 0, 50, 200, 0]);
  });

  it('waits for nothing where less than a millionth is missing', () => {
    const timed = new Timed(bucket).grant(0, 50);
    expect([timed.waitMs(0, 50 + 5e-7), timed.waitMs(0, 50 + 2e-6) > 0]).toEqual([0, true]);
  });

  it('waits for its window where that has less', () => {
    const timed = new Timed(bucket).grant(0, 1220);
    expect([timed.waitMs(0, 1), timed.waitMs(1000, 50), timed.waitMs(1210, 300)]).toEqual([1220, 220, 10]);
    const other = new Timed(bucket).grant(0, 1000);
    // 1000 are to come in before it has saved up anything.
    expect(other.waitMs(0, 100)).toBe(1000);
  });

  it('saves up no more than the amount, whatever its burst', () => {
    const timed = new Timed({ ...bucket, burst: 5000 }).grant(0, 1000);
    expect([timed.room(0), timed.waitMs(0, 3000), timed.waitMs(0, 120, 200)]).toEqual([220, 1220, 1220]);
    expect(Math.round(timed.waitMs(600, 100, 800))).toBe(620);
  });

  it('is filled by what is given back, and no further than it may be', () => {
    const timed = new Timed(bucket).grant(0, 100);
    expect(timed.correct(0, -60, 0).room(0)).toBeCloseTo(60, 6);
    expect(timed.correct(0, 10, 0).room(0)).toBeCloseTo(50, 6);
    // Ten more came in, and 50 are given back: it is full.
    expect(timed.correct(10, -50, 0).room(10)).toBe(100);
    const awaited = new Timed(bucket).grant(0, 100);
    awaited.to(60, true).window.correct(bucket, -90, 0);
    expect(awaited.window.room(bucket, 60)).toBeCloseTo(140, 6);
  });

  it('is filled by what was granted, not by what a process wants back', () => {
    const timed = new Timed(bucket).grant(0, 100).grant(20, 50);
    expect(timed.correct(20, -500, 0).room(20)).toBeCloseTo(70, 6);
    expect(timed.correct(20, -500, 0).room(20)).toBeCloseTo(70, 6);
  });

  it('means the same to processes whose amounts differ: what one took is a part of each of them', () => {
    const half = { ...bucket, amount: 610, burst: 50 };
    const { window } = new Timed(bucket).grant(0, 100);
    expect([window.room(bucket, 0), window.room(half, 0)].map((room) => Math.round(room * 1e6))).toEqual([0, 0]);
    window.advance(half, GUARD_MS, 20, false);
    expect([window.room(bucket, 20), window.room(half, 20)].map((room) => Math.round(room * 1e6) / 1e6)).toEqual([20, 10]);
    expect([window.waitMs(bucket, 50, 0, 20), window.waitMs(half, 50, 0, 20)].map((ms) => Math.round(ms * 1e6) / 1e6)).toEqual([30, 80]);
  });
});

describe('the guard of a window', () => {
  it('is the longest of the processes that use it', () => {
    const timed = new Timed(window100, { guardMs: 400 }).to(0, false, 400).grant(0, 100);
    expect(timed.waitMs(0, 1)).toBe(1420);
    expect([timed.left(1400), timed.left(1419), timed.left(1420)]).toEqual([0, 0, 100]);
  });

  it('is a shorter one when no process has had a longer one for as long as that counts', () => {
    // 71 parts of 20 ms are counted with a guard of 400 ms.
    const timed = new Timed(window100, { guardMs: 400 });
    timed.to(1000, false, 400);
    timed.grant(2400, 10);
    expect(timed.waitMs(2400, 100)).toBe(1420);
    expect(timed.waitMs(2420, 100)).toBe(1400);
    // Later than 1000 + 1420 by 1 ms.
    expect(timed.waitMs(2421, 100)).toBe(2400 + SPAN_MS - 2421);
  });

  it('is a longer one at once, and again for as long as that counts', () => {
    const timed = new Timed(window100).grant(0, 10);
    expect(timed.waitMs(5, 100)).toBe(SPAN_MS - 5);
    timed.to(10, false, 400);
    expect(timed.waitMs(20, 100)).toBe(1420 - 20);
    timed.to(30, false, 200).to(40, false, 400);
    timed.grant(1440, 10);
    expect([timed.waitMs(1460, 100), timed.waitMs(1461, 100)]).toEqual([1440 + 1420 - 1460, 1440 + SPAN_MS - 1461]);
  });
});

describe('a window of which grants were lost', () => {
  it('begins with a debt, as if its bucket had been spent twice', () => {
    const timed = new Timed(bucket, { isLost: true });
    // Twice the burst, and what is saved up while something waits.
    expect(timed.room(0)).toBeCloseTo(100 - 200 - 20, 6);
    expect(timed.left(0)).toBe(1220);
    expect(timed.waitMs(0, 30)).toBeCloseTo(150, 6);
    expect(timed.room(150)).toBeCloseTo(30, 6);
  });

  it('comes in evenly until nothing that was lost counts any more, although it may be spent at once', () => {
    const timed = new Timed(limit({ amount: 1220, windowMs: 1000 }), { at: 1000, isLost: true });
    // A hundredth of the amount is saved up.
    expect(timed.room(1000)).toBeCloseTo(12.2 - 24.4 - 20, 6);
    expect(timed.waitMs(1000, 10)).toBeCloseTo(42.2, 6);
    expect(timed.waitMs(1000, 500)).toBeCloseTo(44.4, 6);
    expect([timed.room(1040), timed.room(1100), timed.room(2219)].map((room) => Math.round(room * 1e6) / 1e6)).toEqual([7.8, 12.2, 12.2]);
    expect(timed.room(2220)).toBe(1220);
  });

  it('says when it may be spent at once, where that is earlier', () => {
    const timed = new Timed(limit({ amount: 1220, windowMs: 1000 }), { isLost: true });
    expect([timed.waitMs(0, 0, 2000), timed.waitMs(0, 5, 1000), timed.waitMs(1000, 0, 500), timed.waitMs(1220, 0, 500)]).toEqual([
      1220,
      expect.closeTo(1037.2, 6),
      220,
      0,
    ]);
    // A bucket comes in evenly for ever.
    expect(new Timed(bucket, { isLost: true }).waitMs(0, 0, 2000)).toBeCloseTo(2120, 6);
  });

  it('has spent no more than its amount, where its burst is larger', () => {
    const timed = new Timed({ ...bucket, burst: 5000 }, { isLost: true });
    expect(timed.room(0)).toBeCloseTo(1220 - 2440 - 20, 6);
  });

  it('does not come in evenly where it is one of the calendar', () => {
    const day = limit({ amount: 100, windowMs: 1000, endsInMs: 1000 });
    const timed = new Timed(day, { isLost: true });
    expect([timed.room(0), timed.waitMs(0, 100)]).toEqual([100, 0]);
  });
});

describe('a window of the calendar', () => {
  const DAY_MS = 10_000;

  /** A window that ends at fixed times, of which each process may know another one. */
  class Day {
    readonly window = new CountedWindow(this.limitAt(0, DAY_MS), GUARD_MS, 0, false);

    limitAt(now: number, endsAt: number): CreditLimit {
      return limit({ amount: 100, windowMs: DAY_MS, endsInMs: endsAt - now });
    }

    to(now: number, endsAt: number): CreditLimit {
      const each = this.limitAt(now, endsAt);
      this.window.advance(each, GUARD_MS, now, false);
      return each;
    }

    left(now: number, endsAt: number): number {
      return this.window.left(this.to(now, endsAt));
    }

    grant(now: number, endsAt: number, amount: number): this {
      this.window.grant(this.to(now, endsAt), amount, now);
      return this;
    }

    correct(now: number, endsAt: number, delta: number, at: number): this {
      this.window.correct(this.to(now, endsAt), delta, at);
      return this;
    }
  }

  it('has all of it at once, and again when it ends', () => {
    const day = new Day().grant(10, 10_000, 60);
    expect([day.left(20, 10_000), day.window.room(day.to(30, 10_000), 30), day.left(9999, 10_000), day.left(10_000, 20_000)]).toEqual([
      40, 40, 40, 100,
    ]);
  });

  it('says when it ends where it has not enough, at least 1 ms later', () => {
    const day = new Day().grant(10, 10_000, 60);
    const waitMs = (now: number, cost: number, ahead = 0): number => day.window.waitMs(day.to(now, 10_000), cost, ahead, now);
    expect([waitMs(20, 40), waitMs(20, 41), waitMs(20, 20, 20), waitMs(20, 20, 21), waitMs(20, 500)]).toEqual([0, 9980, 0, 9980, 9980]);
    expect([waitMs(9998, 41), waitMs(9999.5, 41), waitMs(20, 40 + 1e-6), waitMs(20, 40 + 2e-6)]).toEqual([2, 1, 0, 9980]);
    expect(new Day().window.waitMs(limit({ amount: 100, windowMs: DAY_MS, endsInMs: DAY_MS }), 500, 0, 0)).toBe(0);
  });

  it('counts what was granted within the guard before its end in the next one as well, and no longer', () => {
    const day = new Day().grant(10, 10_000, 10).grant(9799, 10_000, 10).grant(9800, 10_000, 20).grant(9900, 10_000, 5);
    expect([day.left(9999, 10_000), day.left(10_000, 20_000), day.left(19_999, 20_000), day.left(20_000, 30_000)]).toEqual([
      55, 75, 75, 100,
    ]);
  });

  it('counts nothing of the last but one, and of one that follows a gap', () => {
    // The next window ends half a window later than it would, and counts as the next one; by a ms more it does not.
    for (const [endsAt, left] of [
      [24_999, 80],
      [25_000, 100],
    ] as const) {
      const day = new Day().grant(9900, 10_000, 20);
      expect(day.left(endsAt - 9000, endsAt)).toBe(left);
    }
  });

  it('is another window only where it ends later by more than half of one', () => {
    const day = new Day().grant(10, 10_000, 20);
    expect([day.left(20, 15_000), day.left(20, 15_001)]).toEqual([80, 100]);
  });

  it('is not another window where a clock that is far behind has asked in between', () => {
    const day = new Day().grant(10, 10_000, 20);
    expect([day.left(20, 4999), day.left(30, 10_000), day.left(40, -500_000), day.left(50, 10_000)]).toEqual([80, 80, 80, 80]);
  });

  it('ends with the earliest end that a process knows, unless that is of another window', () => {
    // By the clock of the first process the guard before the end begins at 9800, by that of the second at 9000.
    const late = (of: (day: Day) => void): number => {
      const day = new Day();
      day.to(0, 10_000);
      of(day);
      return day.grant(9500, 10_000, 20).left(10_000, 19_990);
    };
    expect([late((day) => day.to(10, 9200)), late((day) => day.to(10, 10_500)), late(() => undefined)]).toEqual([80, 100, 100]);
    expect([late((day) => day.to(10, 5000)), late((day) => day.to(10, 4999))]).toEqual([80, 100]);
  });

  it('takes back what was granted in it, also at the end of the last one', () => {
    const day = new Day().grant(10, 10_000, 10).grant(9850, 10_000, 20);
    expect([day.correct(9860, 10_000, -5, 10).left(9860, 10_000), day.left(10_010, 20_000)]).toEqual([75, 80]);
    expect([
      day.correct(10_020, 20_000, -5, 9849).left(10_020, 20_000),
      day.correct(10_020, 20_000, -5, 9850).left(10_020, 20_000),
    ]).toEqual([80, 85]);
    expect([
      day.correct(10_020, 20_000, 50, 10_015).left(10_020, 20_000),
      day.correct(10_020, 20_000, -500, 10_015).left(10_020, 20_000),
    ]).toEqual([35, 100]);
  });

  it('takes back from its beginning on where nothing was granted late', () => {
    const day = new Day().grant(10, 10_000, 10).grant(10_500, 20_000, 10);
    expect([
      day.correct(10_600, 20_000, -3, 10_499).left(10_600, 20_000),
      day.correct(10_600, 20_000, -3, 10_500).left(10_600, 20_000),
    ]).toEqual([90, 93]);
    // The first one it knows begins when it is first asked for.
    const first = new Day().grant(500, 10_000, 10);
    expect([first.correct(600, 10_000, -3, 499).left(600, 10_000), first.correct(600, 10_000, -3, 500).left(600, 10_000)]).toEqual([
      90, 93,
    ]);
    // So does one that follows a gap.
    const gap = new Day().grant(9900, 10_000, 20).grant(40_500, 50_000, 10);
    expect([
      gap.correct(40_600, 50_000, -3, 40_499).left(40_600, 50_000),
      gap.correct(40_600, 50_000, -3, 40_500).left(40_600, 50_000),
    ]).toEqual([90, 93]);
  });

  it('corrects what counts in the next one, never to less than nothing', () => {
    const day = new Day().grant(10, 10_000, 50).grant(9850, 10_000, 20).grant(9900, 10_000, 10);
    day.correct(9910, 10_000, -15, 9900);
    expect(day.left(10_000, 20_000)).toBe(85);
    const early = new Day().grant(10, 10_000, 50).grant(9850, 10_000, 20);
    early.correct(9910, 10_000, -15, 9849).correct(9910, 10_000, -40, 9850).correct(9910, 10_000, 5, 9850);
    expect([early.left(9920, 10_000), early.left(10_000, 20_000)]).toEqual([80, 95]);
  });

  it('says of the next one what it says of the first', () => {
    const day = new Day().grant(9900, 10_000, 20).grant(19_850, 20_000, 30);
    expect([day.left(19_900, 20_000), day.left(20_000, 30_000), day.left(30_000, 40_000)]).toEqual([50, 70, 100]);
    expect(day.window.waitMs(day.to(30_000, 40_000), 101, 0, 30_000)).toBe(0);
  });
});

describe('a window from a saved state', () => {
  it('keeps no part in which nothing was granted', () => {
    const timed = new Timed(window100).grant(0, 30).grant(20, 0).correct(100, -5, 60).correct(100, 5, 100);
    expect(plainCopy(timed.window)).toMatchObject({
      parts: [
        [0, 30],
        [5, 5],
      ],
    });
  });

  const kinds = [
    window100,
    bucket,
    limit({ amount: 100, windowMs: 1000, endsInMs: 700 }),
    limit({ amount: 100, windowMs: 1000, endsInMs: 100 }),
  ];
  const acts = fc.array(fc.record({ size: fc.integer({ min: -20, max: 40 }), ms: fc.nat({ max: 300 }) }), { maxLength: 12 });

  it('goes on as the one that was saved, and leaves that alone', () => {
    fc.assert(
      fc.property(fc.constantFrom(...kinds), fc.boolean(), acts, acts, (each, isLost, before, after) => {
        const window = new CountedWindow(each, GUARD_MS, 0, isLost);
        let now = 0;
        const act = (of: CountedWindow, at: number, size: number): unknown[] => {
          of.advance(each, GUARD_MS, at, size % 2 === 0);
          if (size > 0) of.grant(each, size, at);
          else of.correct(each, size, at - 5);
          return [of.left(each), of.room(each, at), of.waitMs(each, 30, 5, at)];
        };
        for (const { size, ms } of before) act(window, (now += ms), size);
        const saved = plainCopy(window);
        const copies = [1, 2].map(() => CountedWindow.restored(liveCopy(saved) as Parameters<typeof CountedWindow.restored>[0]));
        for (const { size, ms } of after) {
          now += ms;
          const expected = act(window, now, size);
          expect(copies.map((copy) => act(copy, now, size))).toEqual([expected, expected]);
        }
      }),
      { numRuns: draws(60, 200) },
    );
  });
});
