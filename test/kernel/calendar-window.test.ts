import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CalendarWindow } from '../../operators/kernel/index.js';
import { canPay } from '../support/can-pay.js';
import { draws } from '../support/deep.js';

/** Windows that end at these times, and every 100 after the last. */
const endsOf =
  (ends: readonly number[]) =>
  (at: number): number => {
    const last = ends.at(-1) ?? 0;
    return ends.find((end) => end > at) ?? last + (Math.floor((at - last) / 100) + 1) * 100;
  };

describe('a calendar window', () => {
  it('has spent what was paid in it, corrected and given back, and nothing of those before', () => {
    const steps = fc.array(
      fc.record({
        do: fc.constantFrom('pay', 'pay', 'correct', 'resize', 'save'),
        waitMs: fc.nat({ max: 60 }),
        amount: fc.nat({ max: 9 }),
        which: fc.nat({ max: 4 }),
      }),
      { maxLength: 40, size: 'max' },
    );
    fc.assert(
      fc.property(steps, fc.array(fc.integer({ min: 1, max: 80 }), { minLength: 1, maxLength: 6 }), (script, lengths) => {
        let sum = 0;
        const endOf = endsOf(lengths.map((length) => (sum += length)));
        let most = 20;
        let window = new CalendarWindow(most, 0, endOf);
        const paid: { at: number; cost: number }[] = [];
        let now = 0;
        let lost = 0;
        for (const step of script) {
          now += step.waitMs;
          if (step.do === 'pay') {
            window.pay(step.amount, now);
            paid.push({ at: now, cost: step.amount });
          } else if (step.do === 'correct') {
            // Leases do not outlive the process that saved.
            const one = paid.slice(lost)[step.which];
            if (one) {
              window.correct(step.amount - one.cost, one.at, now);
              one.cost = step.amount;
            }
          } else if (step.do === 'resize') window.resize(0, (most = 10 + step.amount));
          else {
            const saved = window.save(now);
            now += step.waitMs;
            lost = paid.length;
            window = new CalendarWindow(most, now, endOf);
            window.load(saved, step.waitMs, now);
          }
          const used = paid.filter(({ at }) => endOf(at) === endOf(now)).reduce((total, { cost }) => total + cost, 0);
          expect([window.level(now), window.capacity]).toEqual([most - used, most]);
          const cost = step.amount;
          const isPayable = Math.min(cost, most) <= most - used;
          expect([canPay(window, cost, now), window.payableAt(cost, now)]).toEqual([isPayable, isPayable ? now : endOf(now)]);
          expect(window.fullAt(now)).toBe(used > 0 ? endOf(now) : now);
        }
      }),
      { numRuns: draws(200, 2000) },
    );
  });
});
