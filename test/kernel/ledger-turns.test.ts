import { describe, expect, it } from 'vitest';
import { CreditLedger } from '../../operators/kernel/index.js';
import type { CreditLimit } from '../../operators/options/credit-store.js';
import { isGranted, limit, question } from '../support/credit.js';

const EPOCH = 1_790_000_000_000;

/** What is granted in it counts for 1220 ms. */
const limits = [limit({ amount: 10, windowMs: 1000 })];

/** A ledger of which the first 10 were granted at 0. */
function spent(floors: readonly number[] = [0, 0.5]) {
  const ledger = new CreditLedger({ isLost: false });
  let number = 0;
  const ask = (owner: string, now: number, least: number, lane = 0) =>
    ledger.ask(question({ owner, number: ++number, limits, lane, floors, least: [least] }), EPOCH + now);
  const isGrantedTo = (owner: string, now: number, least: number, lane = 0): boolean => isGranted(ask(owner, now, least, lane));
  ask('x', 0, 10);
  return { ledger, ask, isGrantedTo };
}

describe('an owner that waits', () => {
  it('waits as long as there is enough for it and for those ahead', () => {
    const { ask } = spent();
    expect(ask('a', 1219, 5)).toMatchObject({ waitMs: 1 });
    expect(ask('b', 1219.5, 5)).toMatchObject({ waitMs: 1 });
  });

  it('waits until the first of those ahead would be late, where there is not enough for all', () => {
    const { ask, isGrantedTo } = spent();
    expect(ask('a', 1000, 10)).toMatchObject({ waitMs: 220 });
    // It is asked again at 1220, and is late at 1320.
    expect(ask('b', 1001, 10)).toMatchObject({ waitMs: 319 });
    expect(ask('c', 1002, 10)).toMatchObject({ waitMs: 318 });
    expect([isGrantedTo('b', 1319, 10), isGrantedTo('b', 1320, 10)]).toEqual([false, true]);
  });

  it('does not wait for what it has asked for before in another lane', () => {
    const { ask, isGrantedTo } = spent();
    ask('a', 1200, 10, 0);
    expect(isGrantedTo('a', 1220, 10, 1)).toBe(true);
  });
});

describe('a lane', () => {
  it('waits for those above it although it costs nothing itself', () => {
    const { ask, isGrantedTo } = spent();
    ask('urgent', 1200, 10);
    expect(ask('low', 1201, 0, 1)).toMatchObject({ waitMs: 19 });
    // When there is enough for both, it need not be the second.
    expect([isGrantedTo('low', 1220, 0, 1), isGrantedTo('urgent', 1220, 10)]).toEqual([true, true]);
  });

  it('does not wait for what those above it need of other limits', () => {
    const ledger = new CreditLedger({ isLost: false });
    let number = 0;
    const [all, low, other] = [
      limit({ amount: 10, windowMs: 1000 }),
      limit({ amount: 10, windowMs: 1000, fromLane: 1 }),
      limit({ amount: 10, windowMs: 2000 }),
    ];
    const ask = (owner: string, lane: number, of: readonly CreditLimit[]) =>
      ledger.ask(question({ owner, number: ++number, limits: of, lane, floors: [0, 0], least: [10] }), EPOCH);
    expect(isGranted(ask('x', 0, [all]))).toBe(true);
    expect(isGranted(ask('urgent', 0, [all, low]))).toBe(false);
    // Processes with other limits of the same scope.
    expect([ask('b', 1, [low]), ask('c', 1, [other])].map(isGranted)).toEqual([true, true]);
  });

  it('is told what there is of a limit that no question was decided by', () => {
    const ledger = new CreditLedger({ isLost: false });
    const ask = (number: number, windowMs: number) =>
      ledger.ask(question({ number, limits: [limit({ amount: 10, windowMs })], least: [4] }), EPOCH);
    expect([ask(2, 1000), ask(1, 3000)]).toMatchObject([{ left: [6] }, { waitMs: 1, left: [10] }]);
  });
});

describe('a lane that is owed its floor', () => {
  it('goes before more urgent ones when that pays for it', () => {
    for (const [least, isFirst] of [
      [5, true],
      [6, false],
    ] as const) {
      const { ask, isGrantedTo } = spent();
      ask('low', 900, least, 1);
      // All of the limit: half of that is the floor of the lane that waits.
      expect(isGrantedTo('urgent', 1220, 10)).toBe(true);
      for (const now of [1300, 1800, 2300, 2420]) {
        ask('low', now, least, 1);
        ask('urgent', now + 1, 10);
      }
      expect(isGrantedTo('urgent', 2440, 10)).toBe(!isFirst);
    }
  });

  it('has waited meanwhile: one that comes later is owed nothing', () => {
    const { ask, isGrantedTo } = spent([0, 0.5, 0.2]);
    ask('lowest', 900, 10, 2);
    expect(isGrantedTo('urgent', 1220, 10)).toBe(true);
    for (const now of [1300, 1800, 2300, 2420]) {
      ask('low', now, 5, 1);
      ask('urgent', now + 1, 10);
    }
    expect(isGrantedTo('urgent', 2440, 10)).toBe(true);
    const alone = spent();
    expect(alone.isGrantedTo('urgent', 1220, 10)).toBe(true);
    for (const now of [1300, 1800, 2300, 2420]) {
      alone.ask('low', now, 5, 1);
      alone.ask('urgent', now + 1, 10);
    }
    expect(alone.isGrantedTo('urgent', 2440, 10)).toBe(true);
  });

  /** Whether the urgent lane has to wait for the lower one, which is owed and has not waited for so long. */
  function isKept(absentMs: number): boolean {
    const { ask, isGrantedTo } = spent();
    ask('low', 900, 5, 1);
    expect(isGrantedTo('urgent', 1220, 10)).toBe(true);
    // While it waited, the other lane got all of the limit: it is owed half of that.
    ask('low', 1221, 5, 1);
    expect(isGrantedTo('urgent', 2500, 10)).toBe(true);
    const back = 1221 + absentMs;
    ask('low', back, 5, 1);
    ask('urgent', back + 1, 10);
    for (const now of [3200, 3690]) {
      ask('low', now, 5, 1);
      ask('urgent', now + 1, 10);
    }
    return !isGrantedTo('urgent', 3720, 10);
  }

  it('is no longer owed it when it has not waited for more than 1500 ms', () => {
    expect([isKept(1500), isKept(1501)]).toEqual([true, false]);
  });
});
