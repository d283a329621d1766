import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { TurnsName } from './named-lanes.js';
import { NamedLanes } from './named-lanes.js';

type Step =
  | { readonly do: 'push'; readonly key: number; readonly level: number }
  | { readonly do: 'take' }
  | { readonly do: 'end'; readonly pick: number }
  | { readonly do: 'drop'; readonly key: number }
  | { readonly do: 'dropLowest'; readonly level: number };

const key = fc.nat({ max: 3 });
/** Now and then one that is not among the few whole numbers most people use. */
const level = fc.oneof({ weight: 9, arbitrary: fc.nat({ max: 4 }) }, fc.constantFrom(2.5, 31, 32, 1e9));
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ do: fc.constant('push' as const), key, level }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('take' as const) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('end' as const), pick: fc.nat({ max: 9 }) }) },
  fc.record({ do: fc.constant('drop' as const), key }),
  fc.record({ do: fc.constant('dropLowest' as const), level }),
);

/** Keys 0 to 3 may have 1 to 4 items under way. */
const limitOf = (of: number): number => of + 1;

interface Waiting {
  readonly key: number;
  readonly level: number;
  readonly index: number;
}

/** The same by hand: one list, searched. */
class Model {
  waiting: Waiting[] = [];
  readonly running = new Map<number, number>();

  constructor(readonly fairness: TurnsName) {}

  get size(): number {
    return new Set([...this.running.keys(), ...this.waiting.map((item) => item.key)]).size;
  }

  /** All that may go next: under 'roundRobin' and between equals of 'priority', the first of any key that has room. */
  candidates(): Waiting[] {
    const rank = (item: Waiting): number => (this.fairness === 'priority' ? item.level : 0);
    const first = new Map<number, Waiting>();
    for (const item of this.waiting) {
      const found = first.get(item.key);
      if (found === undefined || rank(item) < rank(found)) first.set(item.key, item);
    }
    const able = [...first.values()].filter((item) => (this.running.get(item.key) ?? 0) < limitOf(item.key));
    if (this.fairness === 'fifo') return able.sort((a, b) => a.index - b.index).slice(0, 1);
    const best = Math.min(...able.map(rank));
    return able.filter((item) => rank(item) === best);
  }

  remove(index: number): void {
    this.waiting = this.waiting.filter((item) => item.index !== index);
  }

  count(of: number, change: number): void {
    const now = (this.running.get(of) ?? 0) + change;
    if (now === 0) this.running.delete(of);
    else this.running.set(of, now);
  }
}

function run(fairness: TurnsName, steps: readonly Step[]): void {
  const lanes = new NamedLanes<number>(fairness, fairness === 'priority');
  const model = new Model(fairness);
  let pushed = 0;
  for (const each of steps) {
    switch (each.do) {
      case 'push': {
        const lane = lanes.find(each.key) ?? lanes.open(each.key, limitOf(each.key));
        // Numbers with gaps, as when items are refused.
        const index = (pushed += each.level % 2 === 1 ? 2 : 1);
        lanes.push(lane, index, index, each.level);
        model.waiting.push({ key: each.key, level: each.level, index });
        break;
      }
      case 'take': {
        const lane = lanes.next();
        const candidates = model.candidates();
        expect(lane === undefined).toBe(candidates.length === 0);
        if (lane === undefined) break;
        const index = lane.headIndex;
        expect(candidates.map((item) => item.index)).toContain(index);
        expect(lanes.take(lane)).toBe(index);
        model.remove(index);
        model.count(lane.key as number, 1);
        break;
      }
      case 'end': {
        const keys = [...model.running.keys()];
        if (keys.length === 0) break;
        const ended = keys[each.pick % keys.length]!;
        lanes.end(lanes.find(ended)!);
        model.count(ended, -1);
        break;
      }
      case 'drop': {
        const lane = lanes.find(each.key);
        if (lane === undefined || lane.length === 0) break;
        const index = lane.headIndex;
        expect(lanes.dropFirst(lane)).toBe(index);
        lanes.forget(lane);
        model.remove(index);
        break;
      }
      case 'dropLowest': {
        const dropped = lanes.takeLowest(each.level);
        const lowest = Math.max(...model.waiting.map((item) => item.level));
        if (fairness !== 'priority' || lowest <= each.level || model.waiting.length === 0) {
          expect(dropped).toBeUndefined();
          break;
        }
        expect(dropped?.index).toBe(model.waiting.findLast((item) => item.level === lowest)?.index);
        lanes.forget(dropped!.lane);
        model.remove(dropped!.index);
      }
    }
    expect(lanes.queued).toBe(model.waiting.length);
    expect(lanes.size).toBe(model.size);
    const longest = Math.max(0, ...[0, 1, 2, 3].map((of) => model.waiting.filter((item) => item.key === of).length));
    expect(lanes.longest()?.length ?? 0).toBe(longest);
  }
}

describe('KeyedLanes', () => {
  it.each(['roundRobin', 'fifo', 'priority'] as const)('does what a searched list does: %s', (fairness) => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
        run(fairness, steps);
      }),
      { numRuns: 400 },
    );
  });

  it('gives turns to keys one after the other', () => {
    const lanes = new NamedLanes<string>('roundRobin');
    for (const [index, item] of ['a1', 'a2', 'a3', 'b1', 'b2', 'c1'].entries()) {
      const of = item.charAt(0);
      lanes.push(lanes.find(of) ?? lanes.open(of, Infinity), item, index);
    }
    const order: string[] = [];
    for (let lane = lanes.next(); lane; lane = lanes.next()) order.push(lanes.take(lane));
    expect(order).toEqual(['a1', 'b1', 'c1', 'a2', 'b2', 'a3']);
  });

  it('lets urgent items of a key pass one that waits, again and again', () => {
    const lanes = new NamedLanes<number>('priority');
    const lane = lanes.open('key', 1);
    lanes.push(lane, -1, 0, 9);
    for (let i = 1; i <= 10_000; i++) {
      lanes.push(lane, i, i, 0);
      if (lanes.next() !== lane || lanes.take(lane) !== i) throw new Error(`item ${i} did not pass`);
      lanes.end(lane);
    }
    expect(lanes.take(lanes.next()!)).toBe(-1);
    expect(lanes.next()).toBeUndefined();
  });

  it('keeps an idle lane that is to stay', () => {
    const lanes = new NamedLanes<number>('roundRobin');
    const lane = lanes.open(undefined, 1);
    lane.stays = true;
    lanes.push(lane, 1, 0);
    lanes.take(lane);
    lanes.end(lane);
    expect(lanes.size).toBe(1);
    lanes.clear();
    expect([lanes.size, lanes.next()]).toEqual([0, undefined]);
  });
});
