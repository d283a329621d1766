import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CreditLedger } from '../../operators/kernel/index.js';
import type { Credit, CreditLimit, CreditWait } from '../../operators/options/credit-store.js';
import { corrections, limit, question } from '../support/credit.js';
import { draws } from '../support/deep.js';

const EPOCH = 1_790_000_000_000;

type Saved = ReturnType<CreditLedger['save']>;

/** As a file keeps it. */
const viaJson = (saved: Saved): Saved => JSON.parse(JSON.stringify(saved)) as Saved;

/** A ledger that goes on from what a file has kept. */
const restored = (saved: Saved, isLost = false): CreditLedger => new CreditLedger({ isLost, saved: viaJson(saved) });

const kinds: readonly (readonly CreditLimit[])[] = [
  [limit({ amount: 100, windowMs: 1000 })],
  [limit({ amount: 1000, windowMs: 2000, burst: 30 }), limit({ amount: 800, windowMs: 2000, burst: 20, fromLane: 1 })],
  [limit({ amount: 100, windowMs: 1000, endsInMs: 700 }), limit({ amount: 300, windowMs: 4000 })],
];

const step = fc.record({
  do: fc.constantFrom('ask', 'ask', 'ask', 'ask', 'again', 'correct', 'hold', 'learn'),
  who: fc.nat({ max: 2 }),
  size: fc.nat({ max: 60 }),
  ms: fc.oneof(fc.nat({ max: 30 }), fc.nat({ max: 900 })),
});

describe('a ledger from a saved state', () => {
  it('answers what the one that was saved would have answered', () => {
    const steps = fc.array(step, { maxLength: 25, size: 'max' });
    fc.assert(
      fc.property(fc.constantFrom(...kinds), fc.boolean(), steps, steps, (limits, isLost, before, after) => {
        let now = EPOCH;
        let number = 0;
        const act = (ledger: CreditLedger, of: (typeof before)[number]): Credit | CreditWait | undefined => {
          const { do: what, who, size } = of;
          const from = { owner: `o${String(who)}`, lane: who % 2, floors: [0, 0.2], limits };
          if (what === 'hold') ledger.hold('s', size < 10 ? 0 : size * 5, now);
          if (what === 'correct')
            ledger.correct(
              corrections({ ...from, number, corrections: [{ credit: now - size, lane: who % 2, amounts: [5 - size] }] }),
              now,
            );
          const lessons = what === 'learn' ? { [limits[0]?.key ?? '']: 50 + size } : undefined;
          const asks = { ...from, number: what === 'again' ? 1 : number, least: [size], most: [2 * size], epoch: size % 3, lessons };
          return what === 'hold' || what === 'correct' ? undefined : ledger.ask(question(asks), now);
        };
        const ledger = new CreditLedger({ isLost });
        for (const each of before) {
          now += each.ms;
          number++;
          act(ledger, each);
        }
        const copy = restored(ledger.save(now), isLost);
        for (const each of after) {
          now += each.ms;
          number++;
          expect(act(copy, each)).toEqual(act(ledger, each));
        }
        expect(viaJson(copy.save(now))).toEqual(viaJson(ledger.save(now)));
      }),
      { numRuns: draws(80, 300) },
    );
  });

  const limits = [limit({ amount: 10, windowMs: 1000 })];
  const ask = (ledger: CreditLedger, least: number, now: number, owner = 'a') =>
    ledger.ask(question({ owner, number: now + 1, limits, least: [least] }), EPOCH + now);

  it('is another one: what it grants, the saved one does not know', () => {
    const ledger = new CreditLedger({ isLost: false });
    ask(ledger, 4, 0);
    const saved = ledger.save(EPOCH);
    const text = JSON.stringify(saved);
    const [copy, other] = [new CreditLedger({ isLost: false, saved }), restored(saved)];
    expect(ask(copy, 6, 1)).toMatchObject({ amounts: [6], left: [0] });
    expect(ask(ledger, 5, 1)).toMatchObject({ amounts: [5], left: [1] });
    expect(ask(other, 1, 1)).toMatchObject({ amounts: [1], left: [5] });
    expect(JSON.stringify(saved)).toBe(text);
  });

  it('is never earlier than when it was saved', () => {
    const ledger = new CreditLedger({ isLost: false });
    ask(ledger, 10, 0);
    const copy = restored(ledger.save(EPOCH + 1000));
    expect(ask(copy, 10, 500)).toMatchObject({ waitMs: 220 });
    expect(copy.save(EPOCH).at).toBe(EPOCH + 1000);
    expect(copy.save(EPOCH + 1001).at).toBe(EPOCH + 1001);
  });

  it('keeps the place of owners that wait, and the answers that they may not have heard', () => {
    const ledger = new CreditLedger({ isLost: false });
    const first = ask(ledger, 10, 0);
    ask(ledger, 10, 1, 'b');
    ask(ledger, 10, 2, 'c');
    const copy = restored(ledger.save(EPOCH + 2));
    expect(copy.ask(question({ number: 1, limits, least: [10] }), EPOCH + 3)).toEqual(first);
    for (const now of [500, 900]) for (const owner of ['c', 'b']) ask(copy, 10, now, owner);
    expect(['amounts' in ask(copy, 10, 1220, 'c'), 'amounts' in ask(copy, 10, 1220, 'b')]).toEqual([false, true]);
  });

  it('keeps holds, lessons and scopes', () => {
    const ledger = new CreditLedger({ isLost: false });
    const key = limits[0]?.key ?? '';
    ledger.hold('held', 500, EPOCH);
    ledger.ask(question({ scope: 'learned', limits, least: [0], lessons: { [key]: 4 } }), EPOCH);
    const copy = restored(ledger.save(EPOCH));
    const of = (scope: string) => copy.ask(question({ scope, owner: 'b', limits, least: [0] }), EPOCH + 100);
    expect([of('held'), of('learned'), of('new')]).toMatchObject([
      { holdMs: 400, epoch: 0, lessons: {}, left: [10] },
      { holdMs: 0, epoch: 1, lessons: { [key]: 4 }, left: [4] },
      { holdMs: 0, epoch: 0, lessons: {}, left: [10] },
    ]);
  });

  it('knows until when grants may have been lost before', () => {
    const lost = new CreditLedger({ isLost: true });
    lost.hold('other', 1, EPOCH);
    const saved = lost.save(EPOCH + 600);
    expect([saved.lostAt, restored(saved).save(EPOCH).lostAt, restored(saved, true).save(EPOCH).lostAt]).toEqual([EPOCH, EPOCH, EPOCH]);
    // A window that is new to it begins evenly for as long as that matters.
    const copy = restored(saved);
    expect([ask(copy, 10, 1219), ask(restored(saved), 10, 1220)].map((answer) => 'amounts' in answer)).toEqual([false, true]);
    const known = new CreditLedger({ isLost: false }).save(EPOCH);
    expect([known.lostAt, restored(known).save(EPOCH).lostAt, restored(known, true).save(EPOCH + 5).lostAt]).toEqual([
      undefined,
      undefined,
      EPOCH + 5,
    ]);
  });
});

describe('the scopes that a ledger saves', () => {
  const TEN_MINUTES = 600_000;

  /** A ledger that has heard of so many scopes at the beginning, and of nothing else in them. */
  function heardOf(count: number): CreditLedger {
    const ledger = new CreditLedger({ isLost: false });
    for (let i = 0; i < count; i++) ledger.hold(`s${String(i)}`, 0, EPOCH);
    return ledger;
  }
  /** How many it keeps when it hears of a new one. */
  const kept = (ledger: CreditLedger, now: number, name = 'new'): number => {
    ledger.hold(name, 0, EPOCH + now);
    return ledger.save(EPOCH + now).scopes.length;
  };
  const asked = (ledger: CreditLedger, windowMs: number, guardMs: number): void => {
    ledger.ask(question({ scope: 'asked', guardMs, limits: [limit({ amount: 10, windowMs })], least: [1] }), EPOCH);
  };

  it('are forgotten after ten minutes, where there are many', () => {
    expect([kept(heardOf(63), TEN_MINUTES - 1), kept(heardOf(63), TEN_MINUTES), kept(heardOf(62), TEN_MINUTES)]).toEqual([64, 1, 63]);
  });

  it('are kept for ten minutes more when they are heard of again', () => {
    const ledger = heardOf(63);
    ledger.hold('s7', 0, EPOCH + 1);
    expect(ledger.save(EPOCH).scopes.length).toBe(63);
    expect([kept(ledger, TEN_MINUTES), kept(ledger, TEN_MINUTES + 1)]).toEqual([2, 2]);
    const names = ledger.save(EPOCH).scopes.map(([name]) => name);
    expect(names).toEqual(['s7', 'new']);
  });

  it('are looked through again when there are twice as many as were kept', () => {
    const ledger = heardOf(63);
    expect(kept(ledger, 1, 'last')).toBe(64);
    const counts = Array.from({ length: 64 }, (_, i) => kept(ledger, TEN_MINUTES, `t${String(i)}`));
    // 64 and 63 are fewer than 128; then those of the beginning go, but for the last.
    expect(counts).toEqual([...Array.from({ length: 63 }, (_, i) => 65 + i), 65]);
    // And of 65 twice as many.
    const more = Array.from({ length: 65 }, (_, i) => kept(ledger, 2 * TEN_MINUTES, `u${String(i)}`));
    expect(more).toEqual([...Array.from({ length: 64 }, (_, i) => 66 + i), 65]);
  });

  it('are kept as long as two of their windows, and what may still be spent of them', () => {
    for (const [now, count] of [
      [TEN_MINUTES, 2],
      [800_399, 2],
      [800_400, 1],
    ] as const) {
      const ledger = heardOf(62);
      asked(ledger, 400_000, 200);
      expect(kept(ledger, now)).toBe(count);
    }
    const short = heardOf(62);
    asked(short, 1000, 200);
    expect(kept(short, TEN_MINUTES)).toBe(1);
  });

  it('are kept as long as a hold', () => {
    for (const [now, count] of [
      [699_999, 2],
      [700_000, 1],
    ] as const) {
      const ledger = heardOf(62);
      ledger.hold('held', 700_000, EPOCH);
      ledger.hold('held', 1000, EPOCH);
      ledger.hold('held', 0, EPOCH);
      expect(kept(ledger, now)).toBe(count);
    }
  });
});
