/* oxlint-disable no-restricted-imports -- the parts of a shared limit are not exported */

import { describe, expect, it } from 'vitest';
import { isCredit, partMs, partsOf } from '../../operators/kernel/credit/credit.js';
import type { SharedRate } from '../../operators/kernel/credit/credit-limits.js';
import { creditLimits } from '../../operators/kernel/credit/credit-limits.js';
import type { ReserveRule } from '../../operators/kernel/limits/limit.js';

const paced: SharedRate = { unit: 'tokens', windowMs: 60_000, isStrict: false };
const strict: SharedRate = { ...paced, isStrict: true };
const HOUR_MS = 3_600_000;

const reserveOf = (...shares: readonly number[]): ReserveRule => ({ shares, share: shares.reduce((sum, share) => sum + share, 0) });

function limitsOf(rate: SharedRate, of: { amount?: number; burst?: number; column?: number; reserve?: ReserveRule; now?: number } = {}) {
  const { amount = 1000, burst = 100, column = 0, reserve, now = 0 } = of;
  return creditLimits(rate, { amount, burst, column, reserve, now });
}

describe('the limits of a shared rate', () => {
  it('are one for all lanes without reserves', () => {
    expect(limitsOf(paced, { column: 3 })).toEqual([
      { key: 'tokens/60000/bucket/0', column: 3, amount: 1000, windowMs: 60_000, fromLane: 0, endsInMs: undefined, burst: 20 },
    ]);
    expect(limitsOf(strict)).toEqual([
      { key: 'tokens/60000/window/0', column: 0, amount: 1000, windowMs: 60_000, fromLane: 0, endsInMs: undefined, burst: undefined },
    ]);
  });

  it('of a paced rate without a burst save up a fiftieth of it, at least 1, and no more than the rate saves up', () => {
    const burst = (amount: number, most: number): number | undefined => limitsOf(paced, { amount, burst: most })[0]?.burst;
    expect([burst(1000, 100), burst(1000, 20), burst(1000, 19)]).toEqual([20, 20, 19]);
    expect([burst(50, 10), burst(49, 10), burst(10, 10), burst(10, 0.5)]).toEqual([1, 1, 1, 0.5]);
  });

  it('of a paced rate with a burst save up what the rate says', () => {
    expect(limitsOf({ ...paced, burst: 80 }, { burst: 70 })[0]?.burst).toBe(70);
    expect(limitsOf({ ...paced, burst: 0.1 }, { burst: 0.1 })[0]?.burst).toBe(0.1);
  });

  it('of a calendar window end with it', () => {
    const hourly: SharedRate = {
      unit: 'requests',
      windowMs: HOUR_MS,
      isStrict: true,
      endOf: (at) => (Math.floor(at / HOUR_MS) + 1) * HOUR_MS,
    };
    expect(limitsOf(hourly, { now: 10.5 * HOUR_MS })).toEqual([
      {
        key: 'requests/3600000/calendar/0',
        column: 0,
        amount: 1000,
        windowMs: HOUR_MS,
        fromLane: 0,
        endsInMs: HOUR_MS / 2,
        burst: undefined,
      },
    ]);
    expect(limitsOf(hourly, { now: 11 * HOUR_MS })[0]?.endsInMs).toBe(HOUR_MS);
    expect(limitsOf({ ...hourly, isStrict: false })[0]?.key).toBe('requests/3600000/calendar/0');
  });

  it('have different keys for different units, windows and ways to count', () => {
    const rates = [paced, strict, { ...paced, unit: 'requests' }, { ...paced, windowMs: 1000 }, { ...paced, endOf: () => 1 }];
    expect(new Set(rates.map((rate) => limitsOf(rate)[0]?.key)).size).toBe(5);
  });
});

describe('the limits of a shared rate with reserves', () => {
  const parts = (rate: SharedRate, ...shares: readonly number[]) =>
    limitsOf(rate, { reserve: reserveOf(...shares) }).map(({ key, fromLane, amount, burst }) => [
      key.split('/').at(-1),
      fromLane,
      amount,
      burst,
    ]);

  it('are one for all lanes, and one for the lanes below each reserve that leaves it out', () => {
    expect(parts(strict, 0.25, 0.125)).toEqual([
      ['0', 0, 1000, undefined],
      ['1', 1, 750, undefined],
      ['2', 2, 625, undefined],
    ]);
  });

  it('save up the reserves of the lanes that they hold for, beside their part of the burst', () => {
    expect(parts(paced, 0.25, 0.125)).toEqual([
      ['0', 0, 1000, 20 + 375],
      ['1', 1, 750, 15 + 125],
      ['2', 2, 625, 12.5],
    ]);
  });

  it('do not exist for lanes below a lane that keeps nothing', () => {
    expect(parts(strict, 0, 0.25, 0, 0.5)).toEqual([
      ['0', 0, 1000, undefined],
      ['2', 2, 750, undefined],
      ['4', 4, 250, undefined],
    ]);
    expect(parts(paced, 0, 0.25, 0, 0.5).map(([, , , burst]) => burst)).toEqual([770, 515, 5]);
    expect(parts(paced, 0, 0)).toEqual([['0', 0, 1000, 20]]);
  });
});

describe('the parts of a window', () => {
  it('are 500, but none is shorter than 20 ms', () => {
    expect([1, 1000, 10_000, 10_001, 60_000, 86_400_000].map(partMs)).toEqual([20, 20, 20, 21, 120, 172_800]);
  });

  it('are those of the window and of the guard, each rounded up, and the present one', () => {
    const parts = (windowMs: number, guardMs: number): number => partsOf({ windowMs }, guardMs);
    expect([parts(1000, 200), parts(1000, 201), parts(1001, 200), parts(1, 0), parts(60_000, 200)]).toEqual([61, 62, 62, 2, 503]);
  });
});

describe('an answer of a store', () => {
  const news = { left: [], holdMs: 0, epoch: 0, lessons: {} };

  it('is credit where it names one, and else a wait', () => {
    expect([isCredit({ ...news, credit: 0, amounts: [] }), isCredit({ ...news, waitMs: 5 })]).toEqual([true, false]);
  });
});
