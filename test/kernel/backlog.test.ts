import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Backlog } from '../../operators/kernel/index.js';
import { heapBytes } from './garbage.js';

type Step =
  | { readonly do: 'push'; readonly items: readonly number[] }
  | { readonly do: 'shift'; readonly times: number }
  | { readonly do: 'clear' };

const items = fc.array(fc.nat({ max: 999 }), { maxLength: 60, size: 'max' });
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ do: fc.constant('push' as const), items }),
  fc.record({ do: fc.constant('shift' as const), times: fc.nat({ max: 80 }) }),
  fc.record({ do: fc.constant('clear' as const) }),
);

function apply(backlog: Backlog<number>, model: number[], each: Step): void {
  switch (each.do) {
    case 'push':
      for (const item of each.items) {
        backlog.push(item);
        model.push(item);
      }
      break;
    case 'shift':
      for (let i = 0; i < each.times; i++) expect(backlog.shift()).toBe(model.shift());
      break;
    case 'clear':
      backlog.clear();
      model.length = 0;
  }
}

describe('Backlog', () => {
  it('behaves as an array does, whatever is done to it', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40, size: 'max' }), (steps) => {
        const backlog = new Backlog<number>();
        const model: number[] = [];
        for (const each of steps) {
          apply(backlog, model, each);
          expect(backlog.length).toBe(model.length);
          expect(backlog.peek()).toBe(model[0]);
        }
      }),
      { numRuns: 60 },
    );
  });

  it('answers undefined outside of its items', () => {
    const backlog = new Backlog<string>();
    expect([backlog.shift(), backlog.peek(), backlog.length]).toEqual([undefined, undefined, 0]);
    backlog.push('a');
    expect([backlog.peek(), backlog.shift(), backlog.shift(), backlog.length]).toEqual(['a', 'a', undefined, 0]);
  });

  it('stays in order when it ends where a piece ends', () => {
    const backlog = new Backlog<number>();
    const list: number[] = [];
    let next = 0;
    for (const [pushed, taken] of [
      [5000, 3000],
      [3000, 2600],
      [1, 2401],
      [1024, 1024],
      [1025, 1024],
      [1024, 1025],
      [3, 3],
    ] as const) {
      for (let n = 0; n < pushed; n++) {
        backlog.push(next);
        list.push(next++);
      }
      expect(Array.from({ length: taken }, () => backlog.shift())).toEqual(list.splice(0, taken));
      expect([backlog.length, backlog.peek()]).toEqual([list.length, list[0]]);
    }
    expect(backlog.shift()).toBeUndefined();
  });

  it('keeps order through growing and shrinking, wherever its first item stands', () => {
    const backlog = new Backlog<number>();
    const out: (number | undefined)[] = [];
    for (let i = 0; i < 50_000; i++) {
      backlog.push(2 * i);
      backlog.push(2 * i + 1);
      out.push(backlog.shift());
    }
    while (backlog.length > 0) out.push(backlog.shift());
    expect(out).toEqual(Array.from({ length: 100_000 }, (_, i) => i));
  });

  it('keeps order in a queue that stays as long as it is, however early its first turn', () => {
    const sizes = fc.record({ early: fc.nat({ max: 20 }), waiting: fc.nat({ max: 1500 }), turns: fc.nat({ max: 20_000 }) });
    fc.assert(
      fc.property(sizes, ({ early, waiting, turns }) => {
        const backlog = new Backlog<number>();
        let pushed = 0;
        let shifted = 0;
        let isInOrder = true;
        const turn = () => {
          backlog.push(pushed++);
          isInOrder &&= backlog.shift() === shifted++;
        };
        for (let i = 0; i < early; i++) turn();
        for (let i = 0; i < waiting; i++) backlog.push(pushed++);
        for (let i = 0; i < turns; i++) turn();
        while (backlog.length > 0) isInOrder &&= backlog.shift() === shifted++;
        expect([isInOrder, shifted]).toEqual([true, pushed]);
      }),
      { numRuns: 40 },
    );
  });

  it('holds no item it has handed out, and gives its memory back when drained', () => {
    const backlog = new Backlog<{ readonly id: number }>();
    const before = heapBytes();
    for (let id = 0; id < 1_000_000; id++) backlog.push({ id });
    const full = heapBytes();
    while (backlog.length > 10) backlog.shift();
    const drained = heapBytes();
    expect(backlog.length).toBe(10);
    expect(full - before).toBeGreaterThan(20e6);
    expect(drained - before).toBeLessThan(1e6);
  });
});
