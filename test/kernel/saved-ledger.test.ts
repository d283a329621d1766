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
