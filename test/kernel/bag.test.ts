import fc from 'fast-check';
import { expect, it } from 'vitest';
import { Bag } from '../../operators/kernel/bag.js';

interface Thing {
  readonly name: number;
  slot: number;
}

it('holds what a Set holds, whatever is added and deleted', () => {
  fc.assert(
    fc.property(fc.array(fc.record({ name: fc.nat(12), add: fc.boolean() })), (steps) => {
      const things = Array.from({ length: 13 }, (_, name): Thing => ({ name, slot: -1 }));
      const bag = new Bag<Thing>();
      const set = new Set<Thing>();
      for (const { name, add } of steps) {
        const thing = things[name] as Thing;
        if (!add) {
          bag.delete(thing);
          set.delete(thing);
        } else if (!set.has(thing)) {
          bag.add(thing);
          set.add(thing);
        }
        expect(bag.size).toBe(set.size);
        expect(new Set(bag.items)).toEqual(set);
      }
    }),
  );
});
