import fc from 'fast-check';
import type { CreditCorrections, CreditLimit, CreditQuestion, CreditStore } from '../../../operators/index.js';

/** What is said to a store, and how much later than what was said before. */
export type Said = { readonly afterMs: number } & (
  | { readonly ask: CreditQuestion }
  | { readonly correct: CreditCorrections }
  | { readonly hold: { readonly scope: string; readonly ms: number } }
);

const GUARD_MS = 100;

const LIMITS: readonly CreditLimit[] = [
  { key: 'requests/1000/bucket/0', column: 0, amount: 50, windowMs: 1000, burst: 5, fromLane: 0 },
  { key: 'tokens/1000/window/0', column: 1, amount: 1000, windowMs: 1000, fromLane: 0 },
  { key: 'tokens/1000/window/1', column: 1, amount: 800, windowMs: 1000, fromLane: 1 },
  { key: 'tokens/86400000/calendar/0', column: 1, amount: 20_000, windowMs: 86_400_000, endsInMs: 4000, fromLane: 0 },
];

const scope = fc.constantFrom('account', 'model', '__proto__');
const owner = fc.constantFrom('one', 'other', 'third');
const amounts = fc.tuple(fc.integer({ min: 0, max: 3 }), fc.integer({ min: 0, max: 120 }));

/** A series of messages, as several processes send them: numbers grow, and sometimes one comes twice. */
export const conversation: fc.Arbitrary<readonly Said[]> = fc
  .array(
    fc.tuple(
      fc.constantFrom(0, 1, 7, 30, 30, 60, 200, 1500),
      fc.oneof(
        {
          weight: 12,
          arbitrary: fc.record({
            kind: fc.constant('ask' as const),
            scope,
            owner,
            lane: fc.integer({ min: 0, max: 2 }),
            least: amounts,
            more: amounts,
            isAgain: fc.boolean(),
            lesson: fc.option(fc.integer({ min: 100, max: 900 }), { nil: undefined, freq: 20 }),
          }),
        },
        {
          weight: 3,
          arbitrary: fc.record({
            kind: fc.constant('correct' as const),
            scope,
            owner,
            lane: fc.integer({ min: 0, max: 2 }),
            back: fc.integer({ min: 0, max: 20 }),
            delta: fc.tuple(fc.integer({ min: -2, max: 2 }), fc.integer({ min: -80, max: 80 })),
          }),
        },
        { weight: 1, arbitrary: fc.record({ kind: fc.constant('hold' as const), scope, ms: fc.constantFrom(0, 10, 100, Infinity) }) },
      ),
    ),
    { minLength: 1, maxLength: 80 },
  )
  .map((all) => {
    let number = 0;
    return all.map(([afterMs, said]): Said => {
      if (said.kind === 'hold') return { afterMs, hold: { scope: said.scope, ms: said.ms } };
      const who = { scope: said.scope, owner: said.owner, limits: LIMITS, guardMs: GUARD_MS };
      if (said.kind === 'correct') {
        // A credit is named by its time, which the store of a test begins with 0.
        const corrections = [{ credit: 100 * said.back, lane: said.lane, amounts: said.delta }];
        return { afterMs, correct: { ...who, number: ++number, corrections } };
      }
      const { lane, least, lesson, more } = said;
      const ask: CreditQuestion = {
        ...who,
        number: said.isAgain ? number : ++number,
        lane,
        floors: [0, 0.1, 0.1],
        least,
        most: least.map((cost, column) => cost + (more[column] as number)),
        epoch: 0,
        ...(lesson !== undefined && { lessons: { 'tokens/1000/window/0': lesson } }),
      };
      return { afterMs, ask };
    });
  });

/** Says it, and returns the answer. */
export function sayTo(store: CreditStore, said: Said): unknown {
  if ('ask' in said) return store.ask(said.ask);
  return 'correct' in said ? store.correct(said.correct) : store.hold(said.hold.scope, said.hold.ms);
}
