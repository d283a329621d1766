import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { ItemRules, KeyLane, Overflow } from '../../operators/kernel/index.js';
import { boundsOf, ItemMachine } from '../../operators/kernel/index.js';
import { draws } from '../support/deep.js';

interface Item {
  readonly index: number;
  readonly key: number | undefined;
}

type Step =
  | { readonly do: 'send'; readonly key: number; readonly held: number }
  | { readonly do: 'start' | 'refuseAll' | 'clear' }
  | { readonly do: 'end' | 'stop'; readonly pick: number }
  | { readonly do: 'concurrency'; readonly by: number };

interface Plan {
  readonly isKeyed: boolean;
  readonly perKey: number;
  readonly concurrency: number;
  readonly maxKeys: number;
  readonly maxQueued: number;
  readonly overflow: Overflow;
}

const plan: fc.Arbitrary<Plan> = fc.record({
  isKeyed: fc.boolean(),
  perKey: fc.constantFrom(1, 2, Infinity),
  concurrency: fc.constantFrom(1, 2, 3, Infinity),
  maxKeys: fc.constantFrom(1, 2, Infinity),
  maxQueued: fc.constantFrom(0, 1, 3, Infinity),
  overflow: fc.constantFrom('error', 'dropOldest', 'dropNewest', 'latest'),
});

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('send' as const),
      key: fc.nat({ max: 3 }),
      held: fc.constantFrom(0, 0, 1, 4),
    }),
  },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('start' as const) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('end' as const), pick: fc.nat({ max: 9 }) }) },
  fc.record({ do: fc.constant('stop' as const), pick: fc.nat({ max: 9 }) }),
  fc.record({ do: fc.constant('concurrency' as const), by: fc.integer({ min: 1, max: 3 }) }),
  fc.record({ do: fc.constantFrom('refuseAll' as const, 'clear' as const) }),
);

/** The same by hand: lists, searched. */
class Model {
  waiting: Item[] = [];
  running: Item[] = [];
  readonly stopped = new Set<unknown>();
  concurrency: number;

  constructor(readonly plan: Plan) {
    this.concurrency = plan.concurrency;
  }

  ofKey(items: readonly Item[], key: unknown): Item[] {
    return items.filter((item) => item.key === key);
  }

  get keys(): Set<unknown> {
    return new Set([...this.waiting, ...this.running].map(({ key }) => key));
  }

  /** All that may go next. */
  candidates(): Item[] {
    if (this.running.length >= this.concurrency) return [];
    const { perKey, isKeyed } = this.plan;
    return [...new Set(this.waiting.map(({ key }) => key))]
      .filter((key) => !isKeyed || this.ofKey(this.running, key).length < perKey)
      .map((key) => this.ofKey(this.waiting, key)[0] as Item);
  }

  isNext(key: unknown, held: number): boolean {
    const { isKeyed, perKey, maxQueued } = this.plan;
    if (held > 0 && held >= maxQueued) return false;
    if (isKeyed && this.ofKey(this.running, key).length + this.ofKey(this.waiting, key).length >= perKey) return false;
    const ahead = this.candidates().length > 0 ? this.waiting.length : 0;
    return ahead < this.concurrency - this.running.length;
  }

  /** Who goes for one more of this key; undefined when it is the newcomer. Of equally long keys any may give way. */
  losers(key: unknown): Item[][] {
    const { overflow } = this.plan;
    if (overflow !== 'dropOldest' && overflow !== 'latest') return [];
    const own = this.ofKey(this.waiting, key);
    if (own.length > 0) return [overflow === 'latest' ? own : own.slice(0, 1)];
    const lines = [...new Set(this.waiting.map((item) => item.key))].map((each) => this.ofKey(this.waiting, each));
    const longest = Math.max(0, ...lines.map((line) => line.length));
    return lines.filter((line) => line.length === longest).map((line) => line.slice(0, 1));
  }

  leave(indexes: readonly number[]): void {
    this.waiting = this.waiting.filter(({ index }) => !indexes.includes(index));
  }
}

function play(given: Plan, steps: readonly Step[]): void {
  const rules: ItemRules = { ...given, bounds: boundsOf(given) };
  const machine = new ItemMachine<Item>(rules);
  const model = new Model(given);
  const lanes = new Map<Item, KeyLane<Item>>();
  let index = 0;
  /** Drops so many of those that wait in a lane. */
  const drop = (lane: KeyLane<Item>, most = lane.length): number[] =>
    Array.from({ length: most }, () => {
      const dropped = machine.drop(lane);
      expect([dropped.index, dropped.at]).toEqual([dropped.input.index, dropped.input.index + 1000]);
      return dropped.index;
    });
  for (const each of steps) {
    switch (each.do) {
      case 'send': {
        const key = given.isKeyed ? each.key : undefined;
        const lane = machine.find(key);
        expect(lane?.stopped !== undefined).toBe(model.stopped.has(key));
        if (lane?.stopped) break;
        const isKnown = !given.isKeyed || model.keys.has(key);
        const refused = machine.refusal(lane, each.held);
        const isNext = machine.isNext(lane, each.held);
        expect(isNext).toBe(model.isNext(key, each.held));
        const isFull = model.waiting.length + each.held >= given.maxQueued;
        if (!isKnown && new Set([...model.keys, ...model.stopped]).size >= given.maxKeys) {
          expect(refused).toMatchObject({ bound: 'maxKeys', limit: given.maxKeys });
          expect(machine.evictable(lane, refused!)).toBeUndefined();
          break;
        }
        expect(refused?.bound).toBe(isFull ? 'maxQueued' : undefined);
        const evicted = refused && !isNext ? machine.evictable(lane, refused) : undefined;
        const losers = model.losers(key).map((items) => items.map((item) => item.index));
        expect(evicted !== undefined).toBe(isFull && !isNext && losers.length > 0);
        if (isFull && !isNext && !evicted) break;
        const item = { index: index++, key };
        const own = lane ?? machine.open(key, given.perKey);
        machine.accept(own, item, item.index, item.index + 1000, `note ${item.index}`);
        lanes.set(item, own);
        model.waiting.push(item);
        if (evicted) {
          const dropped = drop(evicted.line, evicted.count);
          expect(losers).toContainEqual(dropped);
          model.leave(dropped);
        }
        break;
      }
      case 'start': {
        const lane = machine.next();
        const candidates = model.candidates();
        expect(lane === undefined).toBe(candidates.length === 0);
        if (lane === undefined) break;
        const { headIndex, headAt, headNote } = lane;
        const item = machine.start(lane);
        expect([headIndex, headAt, headNote]).toEqual([item.index, item.index + 1000, `note ${item.index}`]);
        expect(candidates).toContain(item);
        model.leave([item.index]);
        model.running.push(item);
        break;
      }
      case 'end':
      case 'stop': {
        const item = model.running[each.pick % Math.max(1, model.running.length)];
        if (item === undefined) break;
        model.running = model.running.filter((other) => other !== item);
        const lane = lanes.get(item)!;
        if (each.do === 'end' || !given.isKeyed) {
          machine.end(lane);
          break;
        }
        const why = lane.stopped ?? { error: `stopped by ${item.index}` };
        machine.end(lane, { error: `stopped by ${item.index}` });
        const own = model.ofKey(model.waiting, item.key).map((other) => other.index);
        expect(drop(lane)).toEqual(own);
        model.leave(own);
        model.stopped.add(item.key);
        expect(machine.find(item.key)?.stopped).toEqual(why);
        break;
      }
      case 'concurrency':
        model.concurrency = machine.concurrency = each.by;
        break;
      case 'refuseAll':
        expect([...machine.lanes.values()].flatMap((lane) => drop(lane)).sort((a, b) => a - b)).toEqual(
          model.waiting.map((item) => item.index),
        );
        model.waiting = [];
        break;
      case 'clear':
        machine.clear();
        expect([machine.next(), machine.queued]).toEqual([undefined, 0]);
        return;
    }
    expect([machine.queued, machine.running]).toEqual([model.waiting.length, model.running.length]);
    expect(machine.isEmpty).toBe(model.waiting.length + model.running.length === 0);
    if (given.isKeyed)
      for (let key = 0; key < 4; key++) expect(machine.find(key) !== undefined).toBe(model.keys.has(key) || model.stopped.has(key));
  }
}

describe('ItemMachine', () => {
  it('does what searched lists do', () => {
    fc.assert(fc.property(plan, fc.array(step, { maxLength: 60, size: 'max' }), play), { numRuns: draws(80, 200) });
  });
});
