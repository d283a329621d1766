import fc from 'fast-check';
import { expect, it } from 'vitest';
import { Bag } from '../../operators/kernel/index.js';

interface Thing {
  readonly name: number;
  slot: number;
}

/** Things named 0, 1, 2 …; a fresh one is in no bag. */
function things(count: number): Thing[] {
  return Array.from({ length: count }, (_, name) => ({ name, slot: -1 }));
}

it('holds what a Set holds, whatever is added and deleted', () => {
  fc.assert(
    fc.property(fc.array(fc.record({ name: fc.nat(12), add: fc.boolean() })), (steps) => {
      const all = things(13);
      const bag = new Bag<Thing>();
      const set = new Set<Thing>();
      for (const { name, add } of steps) {
        const thing = all[name] as Thing;
        if (!add) {
          bag.delete(thing);
          set.delete(thing);
        } else if (!set.has(thing)) {
          bag.add(thing);
          set.add(thing);
        }
        expect(bag.size).toBe(set.size);
        expect(new Set(bag.items)).toEqual(set);
        // Each thing of the bag knows where it is.
        expect(bag.items.map(({ slot }) => slot)).toEqual(bag.items.map((_, slot) => slot));
      }
    }),
  );
});

it('moves the last one into the gap and nothing else', () => {
  const [a, b, c, d] = things(4) as [Thing, Thing, Thing, Thing];
  const bag = new Bag<Thing>();
  for (const thing of [a, b, c, d]) bag.add(thing);
  bag.delete(b);
  expect(bag.items).toEqual([a, d, c]);
  bag.delete(c);
  expect(bag.items).toEqual([a, d]);
});

it('leaves alone a thing that is in another bag, or in none', () => {
  const [mine, theirs, nobodys] = things(3) as [Thing, Thing, Thing];
  const bag = new Bag<Thing>();
  const other = new Bag<Thing>();
  bag.add(mine);
  other.add(theirs);
  bag.delete(theirs);
  bag.delete(nobodys);
  expect([bag.items, other.items]).toEqual([[mine], [theirs]]);
});
