import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BatchKernel } from '../../operators/kernel/index.js';

interface Item {
  readonly id: number;
  readonly weight: number;
}

const limit = fc.oneof(fc.integer({ min: 1, max: 12 }), fc.constant(Infinity));
const weights = fc.array(fc.oneof(fc.integer({ min: 0, max: 12 }), fc.double({ min: 0, max: 12, noNaN: true })), { maxLength: 80 });

/** Drives the kernel the way an operator does: close what does not fit, add, close what is full. */
function batches(maxSize: number, maxWeight: number, given: readonly number[]) {
  const kernel = new BatchKernel<Item>({ maxSize, maxWeight });
  const closed: { items: Item[]; weight: number; by: 'full' | 'overflow' | 'end' }[] = [];
  const close = (by: 'full' | 'overflow' | 'end'): void => {
    const { weight } = kernel;
    closed.push({ items: kernel.take(), weight, by });
  };
  given.forEach((weight, id) => {
    if (!kernel.fits(weight)) close('overflow');
    if (kernel.add({ id, weight }, weight) !== undefined) close('full');
  });
  if (kernel.size > 0) close('end');
  return closed;
}

const sum = (items: readonly Item[]): number => items.reduce((total, { weight }) => total + weight, 0);

describe('BatchKernel', () => {
  it('loses, doubles and reorders nothing, and never makes an empty batch', () => {
    fc.assert(
      fc.property(limit, limit, weights, (maxSize, maxWeight, given) => {
        const closed = batches(maxSize, maxWeight, given);
        expect(closed.flatMap(({ items }) => items.map(({ id }) => id))).toEqual(given.map((_weight, id) => id));
        expect(closed.every(({ items }) => items.length > 0)).toBe(true);
      }),
    );
  });

  it('keeps to both limits; only an item that is too heavy by itself stands above', () => {
    fc.assert(
      fc.property(limit, limit, weights, (maxSize, maxWeight, given) => {
        for (const { items, weight } of batches(maxSize, maxWeight, given)) {
          expect(items.length).toBeLessThanOrEqual(maxSize);
          expect(weight).toBe(sum(items));
          const heavy = items.filter((item) => item.weight > maxWeight);
          if (heavy.length === 0) expect(weight).toBeLessThanOrEqual(maxWeight);
          else expect(items).toHaveLength(1);
        }
      }),
    );
  });

  it('closes no sooner than it must and no later', () => {
    fc.assert(
      fc.property(limit, limit, weights, (maxSize, maxWeight, given) => {
        const closed = batches(maxSize, maxWeight, given);
        closed.forEach(({ items, weight, by }, index) => {
          const isFull = items.length === maxSize || weight >= maxWeight;
          expect(isFull).toBe(by === 'full');
          const next = closed[index + 1]?.items[0];
          if (by === 'overflow') expect(weight + (next?.weight ?? 0)).toBeGreaterThan(maxWeight);
        });
      }),
    );
  });

  it('says by which limit a batch is full; the count comes first', () => {
    const kernel = new BatchKernel<string>({ maxSize: 2, maxWeight: 5 });
    expect(kernel.add('a', 5)).toBe('weight');
    kernel.take();
    expect(kernel.add('a', 2)).toBeUndefined();
    expect(kernel.add('b', 3)).toBe('size');
    expect(kernel.items).toEqual(['a', 'b']);
    expect(kernel.take()).toEqual(['a', 'b']);
    expect(kernel.size).toBe(0);
    expect(kernel.weight).toBe(0);
  });

  it('hands a batch out once and for all: what comes later is in another array', () => {
    const kernel = new BatchKernel<string>({ maxSize: 8, maxWeight: Infinity });
    kernel.add('a', 1);
    const first = kernel.take();
    kernel.add('b', 1);
    expect(first).toEqual(['a']);
    expect(kernel.take()).toEqual(['b']);
  });
});
