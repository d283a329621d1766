import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { LaneSet } from '../../operators/kernel/index.js';

describe('LaneSet', () => {
  it.each([1, 31, 32, 33, 1024, 1025, 40_000])('is a sorted set of numbers below %d', (lanes) => {
    const lane = fc.nat({ max: lanes - 1 });
    const step = fc.record({ lane, add: fc.boolean(), look: fc.integer({ min: -1, max: lanes - 1 }) });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 100 }), (steps) => {
        const set = new LaneSet(lanes);
        const model = new Set<number>();
        for (const { lane: each, add, look } of steps) {
          if (add) {
            set.add(each);
            model.add(each);
          } else {
            set.delete(each);
            model.delete(each);
          }
          const sorted = [...model].sort((a, b) => a - b);
          expect([set.size, set.has(each), set.has(Math.max(0, look))]).toEqual([model.size, add, model.has(Math.max(0, look))]);
          expect([set.first(), set.last()]).toEqual([sorted[0] ?? -1, sorted.at(-1) ?? -1]);
          expect(set.after(look)).toBe(sorted.find((other) => other > look) ?? -1);
        }
      }),
    );
  });
});
