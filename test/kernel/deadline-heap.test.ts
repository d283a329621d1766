import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { DeadlineHeap } from '../../operators/kernel/index.js';

interface Entry {
  readonly at: number;
  readonly id: number;
}

/** A list that is searched from the start for the earliest entry; of equals the one further ahead wins. */
class Model {
  entries: Entry[] = [];

  earliest(): Entry | undefined {
    return this.entries.reduce<Entry | undefined>((best, entry) => (best === undefined || entry.at < best.at ? entry : best), undefined);
  }

  pop(): Entry | undefined {
    const earliest = this.earliest();
    this.entries = this.entries.filter((entry) => entry !== earliest);
    return earliest;
  }
}

// Few different times, so that most of them are equal.
const at = fc.oneof(fc.nat({ max: 5 }), fc.double({ min: -1e9, max: 1e9, noNaN: true }), fc.constant(Infinity));
const step = fc.oneof(
  { weight: 6, arbitrary: fc.record({ push: at }) },
  { weight: 4, arbitrary: fc.constant('pop' as const) },
  { weight: 1, arbitrary: fc.record({ keepModulus: fc.integer({ min: 1, max: 4 }) }) },
);

describe('DeadlineHeap', () => {
  it('behaves as a searched list does, whatever is done to it', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 150, size: 'max' }), (steps) => {
        const heap = new DeadlineHeap<Entry>();
        const model = new Model();
        let id = 0;
        for (const each of steps) {
          if (each === 'pop') {
            expect(heap.pop()).toBe(model.pop());
          } else if ('push' in each) {
            const entry = { at: each.push, id: id++ };
            heap.push(entry.at, entry);
            model.entries.push(entry);
          } else {
            const accepts = (entry: Entry) => entry.id % each.keepModulus === 0;
            heap.keep(accepts);
            model.entries = model.entries.filter(accepts);
          }
          expect(heap.length).toBe(model.entries.length);
          expect(heap.peekAt()).toBe(model.earliest()?.at ?? Infinity);
          expect(heap.peek()).toBe(model.earliest());
        }
        while (model.entries.length > 0) expect(heap.pop()).toBe(model.pop());
        expect(heap.pop()).toBeUndefined();
      }),
      { numRuns: 40 },
    );
  });

  it('sorts, and keeps equals in the order they went in', () => {
    fc.assert(
      fc.property(fc.array(fc.nat({ max: 20 }), { maxLength: 500, size: 'max' }), (times) => {
        const heap = new DeadlineHeap<Entry>();
        const entries = times.map((time, id) => ({ at: time, id }));
        for (const entry of entries) heap.push(entry.at, entry);
        const out = entries.map(() => heap.pop());
        expect(out).toEqual(entries.toSorted((a, b) => a.at - b.at || a.id - b.id));
      }),
    );
  });

  it('answers Infinity and undefined when empty', () => {
    const heap = new DeadlineHeap<string>();
    expect([heap.length, heap.peekAt(), heap.peek(), heap.pop()]).toEqual([0, Infinity, undefined, undefined]);
    heap.push(5, 'a');
    expect([heap.length, heap.peekAt(), heap.pop(), heap.peekAt()]).toEqual([1, 5, 'a', Infinity]);
  });

  it('leaves everything in place when the predicate throws', () => {
    const heap = new DeadlineHeap<number>();
    for (const time of [3, 1, 2]) heap.push(time, time);
    const faulty = (item: number): boolean => {
      if (item === 3) throw new Error('no');
      return false;
    };
    expect(() => {
      heap.keep(faulty);
    }).toThrow('no');
    expect([heap.pop(), heap.pop(), heap.pop(), heap.pop()]).toEqual([1, 2, 3, undefined]);
  });

  it('takes 200,000 entries in falling order, which is the worst for a heap, and drops most of them at once', () => {
    const heap = new DeadlineHeap<number>();
    for (let time = 200_000; time > 0; time--) heap.push(time, time);
    heap.keep((item) => item % 10 === 0);
    const out: (number | undefined)[] = [];
    while (heap.length > 0) out.push(heap.pop());
    expect(out).toEqual(Array.from({ length: 20_000 }, (_, i) => 10 * (i + 1)));
  });
});
