import { describe, expect, it } from 'vitest';
import { perMinute } from '../../operators/index.js';
import type { Charge } from '../../operators/kernel/index.js';
import { clamped, leastOf, leftOf, ONE_LINE, payable, Rates, unitsOf } from '../../operators/kernel/index.js';
import type { TreeGate } from '../../operators/kernel/limiter/tree.js';

const ONE: Charge = { slots: 1, requests: 1, tokens: 0 };
const tokens = (count: number): Charge => ({ ...ONE, tokens: count });

/** A limiter, as far as a tree of them is concerned. */
function gateOf(above?: TreeGate, of: Partial<TreeGate> & { readonly burst?: number; readonly unit?: string } = {}): TreeGate {
  const { burst, unit = 'tokens', ...more } = of;
  const rates = burst === undefined ? undefined : new Rates({ headroom: 1, refunds: true, queue: ONE_LINE });
  // One each second.
  rates?.set(perMinute(unit, 60, { burst: burst ?? 0 }) as never, 0);
  return { above, rules: { enforce: true }, rates, slots: Infinity, time: 0, ...more };
}

describe('a tree of limiters', () => {
  it('has the least of a limiter and of all above it', () => {
    const top = gateOf(undefined, { slots: 4 });
    const middle = gateOf(top, { slots: 2 });
    const low = gateOf(middle, { slots: 3 });
    expect([low, middle, top].map((gate) => leastOf(gate, ({ slots }) => slots))).toEqual([2, 2, 4]);
    expect(leastOf(gateOf(), () => Infinity)).toBe(Infinity);
  });

  it('leaves what each of them has at its own time', () => {
    const top = gateOf(undefined, { burst: 10, time: 5000 });
    top.rates?.take({ charge: tokens(8) }, 0);
    const middle = gateOf(top);
    const low = gateOf(middle, { burst: 9 });
    expect([leftOf(low, 'tokens'), leftOf(middle, 'tokens'), leftOf(low, 'requests'), leftOf(gateOf(), 'tokens')]).toEqual([
      7,
      7,
      Infinity,
      Infinity,
    ]);
    low.rates?.take({ charge: tokens(4) }, 0);
    expect([leftOf(low, 'tokens'), leftOf(top, 'tokens')]).toEqual([5, 7]);
  });

  it('leaves a bidder what limiters have that enforce their limits', () => {
    const top = gateOf(undefined, { burst: 10 });
    const low = gateOf(top, { burst: 3, rules: { enforce: false } });
    expect([leftOf(low, 'tokens'), leftOf(low, 'tokens', 0), leftOf(low, 'tokens', 0, true), leftOf(top, 'tokens', 0, true)]).toEqual([
      3, 3, 10, 10,
    ]);
  });

  it('has the units of all its rates, from below', () => {
    const top = gateOf(undefined, { burst: 1, unit: 'requests' });
    const low = gateOf(gateOf(top), { burst: 1 });
    expect([unitsOf(low), unitsOf(top), unitsOf(gateOf()), unitsOf(gateOf(gateOf())), unitsOf(undefined)]).toEqual([
      ['tokens', 'requests'],
      ['requests'],
      [],
      [],
      [],
    ]);
  });
});

describe('a job that wants more slots than there are', () => {
  const gate = gateOf(gateOf(undefined, { slots: 3 }), { slots: 5 });

  it('takes all there are, here and above', () => {
    const charge = { ...tokens(7), slots: 4 };
    expect([clamped(gate, charge), charge.slots]).toEqual([{ ...tokens(7), slots: 3 }, 4]);
  });

  it('is the only one whose charge is changed', () => {
    for (const slots of [0, 1, 2, 3]) {
      const charge = { ...ONE, slots };
      expect(clamped(gate, charge)).toBe(charge);
    }
  });

  it('still needs one slot in a limiter without slots', () => {
    const none = gateOf(undefined, { slots: 0 });
    expect([0, 1].map((slots) => clamped(none, { ...ONE, slots }).slots)).toEqual([0, 1]);
  });
});

describe('jobs that wait for a slot only', () => {
  const jobs = [4, 5, 1].map((cost) => ({ charge: tokens(cost), lane: 0 }));

  it('are all where there are no rates', () => {
    expect([payable(gateOf(), jobs), payable(gateOf(gateOf()), jobs), payable(gateOf(), [])]).toEqual([3, 3, 0]);
  });

  it('are those that the rates here and above could pay for one after the other', () => {
    const top = gateOf(undefined, { burst: 9 });
    expect([payable(top, jobs), payable(gateOf(top), jobs), payable(gateOf(top, { burst: 20 }), jobs)]).toEqual([2, 2, 2]);
    expect([payable(gateOf(top, { burst: 8 }), jobs), payable(gateOf(gateOf(), { burst: 8 }), jobs)]).toEqual([1, 1]);
    expect(payable(gateOf(gateOf(undefined, { burst: 1, unit: 'requests' }), { burst: 20 }), jobs)).toBe(1);
  });
});
