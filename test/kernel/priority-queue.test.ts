import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { PriorityQueue } from '../../operators/kernel/index.js';

interface Entry {
  readonly level: number;
  readonly id: number;
}

/** A list that is searched for the first entry of the lowest level. */
class Model {
  entries: Entry[] = [];

  peek(): Entry | undefined {
    return this.entries.reduce<Entry | undefined>(
      (best, entry) => (best === undefined || entry.level < best.level ? entry : best),
      undefined,
    );
  }

  shift(): Entry | undefined {
    const first = this.peek();
    this.entries = this.entries.filter((entry) => entry !== first);
    return first;
  }
}

/** Level counts on both sides of every border: a word, two words, all words, and the heap beyond. */
const levelCounts = [1, 2, 31, 32, 33, 64, 65, 1000, 1024, 1025, 5000, Infinity];

const step = fc.oneof(
  { weight: 10, arbitrary: fc.record({ push: fc.nat(99), times: fc.integer({ min: 1, max: 20 }) }) },
  { weight: 4, arbitrary: fc.record({ pushFront: fc.nat(99) }) },
  { weight: 8, arbitrary: fc.record({ shift: fc.integer({ min: 1, max: 25 }) }) },
  { weight: 2, arbitrary: fc.constant('putBack' as const) },
  { weight: 1, arbitrary: fc.constant('clear' as const) },
);

/** Picks from the first, the last and the middle levels, so that equal levels are common. */
function levelOf(pick: number, levels: number): number {
  const highest = Math.min(levels, 1e6) - 1;
  const candidates = [0, highest, highest >> 1, Math.min(31, highest), Math.min(32, highest), Math.floor((highest * pick) / 99)];
  return candidates[pick % candidates.length] as number;
}

describe('PriorityQueue', () => {
  it.each(levelCounts)('behaves as a searched list does, whatever is done to it: %d levels', (levels) => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const queue = new PriorityQueue<Entry>(levels);
        const model = new Model();
        let id = 0;
        for (const each of steps) {
          if (each === 'clear') {
            queue.clear();
            model.entries = [];
          } else if (each === 'putBack') {
            const first = queue.shift();
            expect(first).toBe(model.peek());
            if (first !== undefined) queue.pushFront(first.level, first);
          } else if ('push' in each) {
            for (let i = 0; i < each.times; i++) {
              const entry = { level: levelOf((each.push + 7 * i) % 100, levels), id: id++ };
              queue.push(entry.level, entry);
              model.entries.push(entry);
            }
          } else if ('pushFront' in each) {
            const entry = { level: levelOf(each.pushFront, levels), id: id++ };
            queue.pushFront(entry.level, entry);
            model.entries.unshift(entry);
          } else {
            for (let i = 0; i < each.shift; i++) expect(queue.shift()).toBe(model.shift());
          }
          expect(queue.size).toBe(model.entries.length);
          expect(queue.peek()).toBe(model.peek());
        }
        while (model.entries.length > 0) expect(queue.shift()).toBe(model.shift());
        expect([queue.size, queue.peek(), queue.shift(), queue.size]).toEqual([0, undefined, undefined, 0]);
      }),
      { numRuns: 50 },
    );
  });

  it('takes any finite number as a level when there is no bound to them', () => {
    const level = fc.oneof(fc.double({ noDefaultInfinity: true, noNaN: true }), fc.integer({ min: -3, max: 3 }));
    fc.assert(
      fc.property(fc.array(level, { maxLength: 200 }), (levels) => {
        const queue = new PriorityQueue<Entry>(Infinity);
        const entries = levels.map((each, id) => ({ level: each, id }));
        for (const entry of entries) queue.push(entry.level, entry);
        const out = entries.map(() => queue.shift());
        expect(out).toEqual(entries.toSorted((a, b) => (a.level < b.level ? -1 : a.level > b.level ? 1 : a.id - b.id)));
      }),
    );
  });

  it.each([1024, Infinity])('comes out in order over all of 1,024 levels, however many are used: of %d', (levels) => {
    const queue = new PriorityQueue<number>(levels);
    for (let i = 0; i < 1024; i++) {
      const level = (i * 389) % 1024;
      queue.push(level, level);
    }
    const out = Array.from({ length: 1024 }, () => queue.shift());
    expect(out).toEqual(Array.from({ length: 1024 }, (_, level) => level));
  });

  it('looks at a level no oftener for each item when more are waiting, up to 1,024 levels', () => {
    const looks = (items: number): number => {
      let count = 0;
      const levels = Array.from({ length: 1024 }, (_, level) => ({
        [Symbol.toPrimitive]: () => {
          count++;
          return level;
        },
      }));
      const queue = new PriorityQueue<number>(1024);
      for (let i = 0; i < items; i++) queue.push(levels[(i * 389) % 1024] as unknown as number, i);
      while (queue.size > 0) queue.shift();
      return count / items;
    };
    expect(looks(50_000)).toBeLessThanOrEqual(looks(10));
  });

  it.each([4, Infinity])('puts several items back in the order they came, the last one first: %d levels', (levels) => {
    const queue = new PriorityQueue<string>(levels);
    for (const item of ['a', 'b', 'c']) queue.push(1, item);
    const [a, b] = [queue.shift() as string, queue.shift() as string];
    queue.push(0, 'urgent');
    queue.pushFront(1, b);
    queue.pushFront(1, a);
    expect(Array.from({ length: 4 }, () => queue.shift())).toEqual(['urgent', 'a', 'b', 'c']);
  });

  it.each([2, Infinity])('tells an item that is undefined from an empty queue by its size: %d levels', (levels) => {
    const queue = new PriorityQueue<string | undefined>(levels);
    queue.push(1, undefined);
    queue.push(0, undefined);
    expect([queue.size, queue.shift(), queue.size, queue.shift(), queue.size]).toEqual([2, undefined, 1, undefined, 0]);
  });
});
