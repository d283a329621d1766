import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Ring } from '../../operators/kernel/index.js';
import { heapBytes } from './garbage.js';

type Step =
  | { readonly do: 'push'; readonly items: readonly number[] }
  | { readonly do: 'shift'; readonly times: number }
  | { readonly do: 'keep'; readonly modulus: number }
  | { readonly do: 'clear' };

const items = fc.array(fc.nat({ max: 999 }), { maxLength: 60, size: 'max' });
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ do: fc.constant('push' as const), items }),
  fc.record({ do: fc.constant('shift' as const), times: fc.nat({ max: 80 }) }),
  fc.record({ do: fc.constant('keep' as const), modulus: fc.integer({ min: 1, max: 5 }) }),
  fc.record({ do: fc.constant('clear' as const) }),
);

function apply(ring: Ring<number>, model: number[], each: Step): void {
  switch (each.do) {
    case 'push':
      for (const item of each.items) {
        ring.push(item);
        model.push(item);
      }
      break;
    case 'shift':
      for (let i = 0; i < each.times; i++) expect(ring.shift()).toBe(model.shift());
      break;
    case 'keep': {
      const accepts = (item: number) => item % each.modulus === 0;
      ring.keep(accepts);
      model.splice(0, model.length, ...model.filter(accepts));
      break;
    }
    case 'clear':
      ring.clear();
      model.length = 0;
  }
}

describe('Ring', () => {
  it('behaves as an array does, whatever is done to it', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40, size: 'max' }), (steps) => {
        const ring = new Ring<number>();
        const model: number[] = [];
        for (const each of steps) {
          apply(ring, model, each);
          expect(ring.length).toBe(model.length);
          expect(ring.peek()).toBe(model[0]);
          expect(Array.from({ length: ring.length }, (_, i) => ring.at(i))).toEqual(model);
        }
      }),
      { numRuns: 60 },
    );
  });

  it('answers undefined outside of its items', () => {
    const ring = new Ring<string>();
    expect([ring.shift(), ring.peek(), ring.at(0)]).toEqual([undefined, undefined, undefined]);
    ring.push('a');
    expect([ring.at(-1), ring.at(0), ring.at(1)]).toEqual([undefined, 'a', undefined]);
  });

  it('does not go round when asked past either end of a full ring', () => {
    const ring = new Ring<number>();
    // 16 is what a ring starts with.
    for (let i = 0; i < 16; i++) ring.push(i);
    expect([-17, -16, -1, 0, 15, 16, 17, 32].map((index) => ring.at(index))).toEqual([
      ...[undefined, undefined, undefined],
      ...[0, 15],
      ...[undefined, undefined, undefined],
    ]);
  });

  it('keeps order through growing and shrinking, wherever its head stands', () => {
    const ring = new Ring<number>();
    const out: (number | undefined)[] = [];
    for (let i = 0; i < 50_000; i++) {
      ring.push(2 * i);
      ring.push(2 * i + 1);
      out.push(ring.shift());
    }
    while (ring.length > 0) out.push(ring.shift());
    expect(out).toEqual(Array.from({ length: 100_000 }, (_, i) => i));
  });

  it('keeps order in a queue that stays as long as it is, however early its first turn', () => {
    const sizes = fc.record({ early: fc.nat({ max: 20 }), waiting: fc.nat({ max: 1500 }), turns: fc.nat({ max: 20_000 }) });
    fc.assert(
      fc.property(sizes, ({ early, waiting, turns }) => {
        const ring = new Ring<number>();
        let pushed = 0;
        let shifted = 0;
        let isInOrder = true;
        const turn = () => {
          ring.push(pushed++);
          isInOrder &&= ring.shift() === shifted++;
        };
        for (let i = 0; i < early; i++) turn();
        for (let i = 0; i < waiting; i++) ring.push(pushed++);
        for (let i = 0; i < turns; i++) turn();
        while (ring.length > 0) isInOrder &&= ring.shift() === shifted++;
        expect([isInOrder, shifted]).toEqual([true, pushed]);
      }),
      { numRuns: 40 },
    );
  });

  it('asks about each item once and about nothing else', () => {
    const ring = new Ring<number>();
    for (const item of [1, 2, 3]) ring.push(item);
    const asked: unknown[] = [];
    ring.keep((item) => asked.push(item) > 0);
    expect([asked, ring.length]).toEqual([[1, 2, 3], 3]);
  });

  it('leaves everything in place when the predicate throws', () => {
    const ring = new Ring<number>();
    for (const item of [1, 2, 3]) ring.push(item);
    const faulty = (item: number): boolean => {
      if (item === 3) throw new Error('no');
      return false;
    };
    expect(() => {
      ring.keep(faulty);
    }).toThrow('no');
    expect([ring.shift(), ring.shift(), ring.shift(), ring.shift()]).toEqual([1, 2, 3, undefined]);
  });

  it('holds no item it has handed out, and gives its memory back when drained', () => {
    const ring = new Ring<{ readonly id: number }>();
    const before = heapBytes();
    for (let id = 0; id < 1_000_000; id++) ring.push({ id });
    const full = heapBytes();
    while (ring.length > 10) ring.shift();
    const drained = heapBytes();
    expect(ring.length).toBe(10);
    expect(full - before).toBeGreaterThan(20e6);
    expect(drained - before).toBeLessThan(1e6);
  });
});
