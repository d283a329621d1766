import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ReorderBuffer } from '../../operators/kernel/index.js';
import { countAlive } from './garbage.js';

/** An item of a line, and what becomes of it. */
const items = fc.array(fc.record({ line: fc.integer({ min: 0, max: 2 }), leaves: fc.boolean(), counts: fc.boolean() }), {
  maxLength: 40,
  size: 'max',
});

describe('ReorderBuffer', () => {
  it('hands out each line in its own order, as soon as it can, and counts what it holds', () => {
    fc.assert(
      fc.property(
        items.chain((made) => fc.tuple(fc.constant(made), fc.shuffledSubarray([...made.keys()]))),
        ([made, closing]) => {
          const out: number[] = [];
          const buffer = new ReorderBuffer<number>((item) => {
            out.push(item);
            // The receiver reads what its line waits for now: the next item of that line, if there is one, ready or not.
            const line = made[item]?.line;
            expect(buffer.head(line)).toBe([...made.keys()].find((at) => at > item && made[at]?.line === line));
          });
          const places = made.map(({ line }, i) => {
            const place = buffer.enter(line);
            place.item = i;
            return place;
          });
          const closed = new Set<number>();
          for (const i of closing) {
            closed.add(i);
            const { leaves, counts } = made[i] as (typeof made)[number];
            const place = places[i] as (typeof places)[number];
            if (leaves) buffer.leave(place);
            else buffer.ready(place, counts);
            // A second word about the same place is not heard.
            buffer.ready(place);
            const isFree = (at: number): boolean => made.every((one, j) => one.line !== made[at]?.line || j > at || closed.has(j));
            const ready = [...closed].filter((at) => made[at]?.leaves === false);
            const free = ready.filter(isFree);
            expect([...out].sort((a, b) => a - b)).toEqual(free.sort((a, b) => a - b));
            expect(buffer.held).toBe(ready.filter((at) => !isFree(at) && made[at]?.counts === true).length);
          }
          for (const line of [0, 1, 2]) {
            const seen = out.filter((at) => made[at]?.line === line);
            expect(seen).toEqual([...seen].sort((a, b) => a - b));
            expect(buffer.head(line)).toBe(
              made.findIndex((one, at) => one.line === line && !closed.has(at)) === -1
                ? undefined
                : made.findIndex((one, at) => one.line === line && !closed.has(at)),
            );
          }
        },
      ),
      { numRuns: 120, seed: 3 },
    );
  });

  it('knows lines late: what is reserved meanwhile stands behind, whatever its line', () => {
    const plans = fc.array(fc.record({ line: fc.integer({ min: 0, max: 1 }), end: fc.constantFrom('ready', 'leaves', 'has no line') }), {
      minLength: 1,
      maxLength: 8,
    });
    const shuffled = plans.chain((made) =>
      fc.tuple(fc.constant(made), fc.shuffledSubarray([...made.keys()], { minLength: made.length }), fc.infiniteStream(fc.boolean())),
    );
    fc.assert(
      fc.property(shuffled, ([made, naming, isSoon]) => {
        const out: number[] = [];
        const buffer = new ReorderBuffer<number>((item) => out.push(item));
        const places = made.map((_, i) => {
          const place = buffer.reserve();
          place.item = i;
          return place;
        });
        const close = (i: number): void => {
          if (made[i]?.end === 'ready') buffer.ready(places[i] as (typeof places)[number]);
          else buffer.leave(places[i] as (typeof places)[number]);
        };
        const isClosed = new Set<number>();
        const named = new Set<number>();
        for (const i of naming) {
          const { end, line } = made[i] as (typeof made)[number];
          // It may be settled before its line is known.
          if (end === 'ready' && isSoon.next().value) {
            close(i);
            isClosed.add(i);
          }
          if (end === 'has no line') buffer.leave(places[i] as (typeof places)[number]);
          else buffer.assign(places[i] as (typeof places)[number], line);
          named.add(i);
          const inLine = [...made.keys()].filter((at) => [...made.keys()].every((before) => before > at || named.has(before)));
          const expected = inLine.filter((at) => {
            const ahead = inLine.filter(
              (other) => other < at && made[other]?.line === made[at]?.line && made[other]?.end !== 'has no line',
            );
            return isClosed.has(at) && ahead.every((other) => isClosed.has(other));
          });
          expect([...out].sort()).toEqual(expected);
          expect(buffer.held).toBe(isClosed.size - expected.length);
        }
        for (const i of made.keys()) if (made[i]?.end !== 'has no line') close(i);
        const ready = [...made.keys()].filter((i) => made[i]?.end === 'ready');
        for (const line of [0, 1]) expect(out.filter((i) => made[i]?.line === line)).toEqual(ready.filter((i) => made[i]?.line === line));
        expect([out.length, buffer.held, buffer.head(0), buffer.head(1)]).toEqual([ready.length, 0, undefined, undefined]);
      }),
      { numRuns: 300, seed: 3 },
    );
  });

  it('hears nothing of a reserved place from before it was cleared', () => {
    const out: string[] = [];
    const buffer = new ReorderBuffer<string>((item) => out.push(item));
    const [first, second] = [buffer.reserve(), buffer.reserve()];
    buffer.assign(second, 'a');
    buffer.ready(second);
    expect(buffer.held).toBe(1);
    buffer.clear();
    buffer.assign(first, 'a');
    buffer.ready(first);
    expect([out, buffer.held, buffer.head('a')]).toEqual([[], 0, undefined]);
    const place = buffer.enter('a');
    place.item = 'new';
    buffer.ready(place);
    expect(out).toEqual(['new']);
  });

  it('forgets everything', () => {
    const out: string[] = [];
    const buffer = new ReorderBuffer<string>((item) => out.push(item));
    buffer.enter('a');
    const second = buffer.enter('a');
    second.item = 'second';
    buffer.ready(second);
    expect(buffer.held).toBe(1);
    buffer.clear();
    expect([buffer.held, buffer.head('a'), out]).toEqual([0, undefined, []]);
  });

  it('hears nothing of a place from before it was cleared, and keeps the new line of its key', () => {
    const out: string[] = [];
    const buffer = new ReorderBuffer<string>((item) => out.push(item));
    const [first, second] = [buffer.enter('a'), buffer.enter('a')];
    first.item = 'old first';
    second.item = 'old second';
    buffer.ready(second);
    buffer.clear();
    const place = buffer.enter('a');
    place.item = 'new';
    buffer.leave(second);
    buffer.ready(first);
    expect([out, buffer.held, buffer.head('a')]).toEqual([[], 0, 'new']);
    buffer.ready(place);
    expect([out, buffer.head('a')]).toEqual([['new'], undefined]);
  });

  it('forgets a line that is empty', async () => {
    const buffer = new ReorderBuffer<string>(() => undefined);
    const visit = (): WeakRef<object> => {
      const key = {};
      buffer.ready(buffer.enter(key));
      return new WeakRef(key);
    };
    const visits = Array.from({ length: 1000 }, visit);
    expect(await countAlive(visits)).toBeLessThan(40);
    expect(buffer.held).toBe(0);
  });
});
