import { describe, expect, it } from 'vitest';
import type { KeyLane } from '../../operators/kernel/index.js';
import { countAlive } from './garbage.js';
import { NamedLanes } from './named-lanes.js';

describe('KeyedLanes', () => {
  it('serves a hundred keys that always have work in turn, each once a round', () => {
    const lanes = new NamedLanes<number>('roundRobin');
    const keys = Array.from({ length: 100 }, (_, key) => key);
    for (const key of keys) {
      const lane = lanes.open(key, Infinity);
      for (let i = 0; i < 3; i++) lanes.push(lane, key, i);
    }
    const out = Array.from({ length: 300 }, () => lanes.take(lanes.next() as KeyLane<number>));
    expect(out).toEqual([...keys, ...keys, ...keys]);
  });

  it('numbers what goes next in a key, whatever the gaps between the numbers', () => {
    const lanes = new NamedLanes<number>('fifo');
    const lane = lanes.open('a', Infinity);
    const numbers = [3, 4, 5, 9, 10, 12];
    for (const number of numbers) lanes.push(lane, number, number);
    const out = numbers.map(() => [lane.headIndex, lanes.dropFirst(lane)]);
    expect(out).toEqual(numbers.map((number) => [number, number]));
    expect(lane.length).toBe(0);
  });

  it('serves the oldest item first under fifo, whatever its key, and names the first of equally long keys', () => {
    const lanes = new NamedLanes<string>('fifo');
    const [a, b] = [lanes.open('a', Infinity), lanes.open('b', Infinity)];
    for (const [index, lane] of [a, a, b, b].entries()) lanes.push(lane, `${String(lane.key)}${index}`, index);
    expect(lanes.longest()).toBe(a);
    expect([0, 1, 2, 3].map(() => lanes.take(lanes.next() as KeyLane<string>))).toEqual(['a0', 'a1', 'b2', 'b3']);
  });

  it('drops nobody for being the least urgent unless it was asked to', () => {
    const lanes = new NamedLanes<string>('priority');
    lanes.push(lanes.open('a', 1), 'item', 0, 9);
    expect([lanes.takeLowest(0), lanes.queued]).toEqual([undefined, 1]);
  });

  it.each(['roundRobin', 'fifo', 'priority'] as const)('is empty after clear, and forgets whose turn it was: %s', (fairness) => {
    const lanes = new NamedLanes<string>(fairness);
    lanes.push(lanes.open('a', 1), 'old', 0);
    lanes.clear();
    expect([lanes.queued, lanes.size, lanes.next(), lanes.find('a'), lanes.longest()]).toEqual([0, 0, undefined, undefined, undefined]);
    const lane = lanes.open('a', 1);
    lanes.push(lane, 'new', 1);
    expect(lanes.next()).toBe(lane);
    expect([lanes.take(lane), lanes.next()]).toEqual(['new', undefined]);
  });

  it.each(['roundRobin', 'fifo', 'priority'] as const)(
    'holds on to few keys it has forgotten, while nobody asks for the next: %s',
    async (fairness) => {
      const lanes = new NamedLanes<string>(fairness);
      const visit = (): WeakRef<object> => {
        const key = {};
        const lane = lanes.open(key, 1);
        lanes.push(lane, 'item', 0);
        lanes.dropFirst(lane);
        lanes.forget(lane);
        return new WeakRef(key);
      };
      const visits = Array.from({ length: 1000 }, visit);
      expect(await countAlive(visits)).toBeLessThan(40);
      expect([lanes.size, lanes.next()]).toEqual([0, undefined]);
    },
  );

  it('holds on to few of the items it has handed out, and to those that wait, until the least urgent is dropped', async () => {
    const lanes = new NamedLanes<object>('priority', true);
    const lane = lanes.open('a', 1);
    const waiting = {};
    lanes.push(lane, waiting, 0, 9);
    const serve = (_: unknown, index: number): WeakRef<object> => {
      const item = {};
      lanes.push(lane, item, index);
      lanes.take(lanes.next() as KeyLane<object>);
      lanes.end(lane);
      return new WeakRef(item);
    };
    const served = Array.from({ length: 1000 }, serve);
    expect(await countAlive(served)).toBeLessThan(40);
    expect(lanes.takeLowest(8)?.item).toBe(waiting);
    lanes.forget(lane);
    expect([lanes.queued, lanes.size]).toEqual([0, 0]);
  });

  it('drops the least urgent on a flat stack, however many have been taken meanwhile', () => {
    const lanes = new NamedLanes<number>('priority', true);
    const [free, full] = [lanes.open('free', Infinity), lanes.open('full', 1)];
    lanes.push(full, -1, 0, 1);
    lanes.take(full);
    lanes.push(full, -2, 1, 1);
    const taken = 100_000;
    for (let i = 0; i < taken; i++) lanes.push(free, i, i + 2, 2);
    for (let i = 0; i < taken; i++) lanes.take(lanes.next() as KeyLane<number>);
    expect(lanes.takeLowest(0)?.item).toBe(-2);
    expect([lanes.queued, lanes.next()]).toEqual([0, undefined]);
  });

  it('drops nothing that was there before it was cleared', () => {
    const lanes = new NamedLanes<string>('priority', true);
    lanes.push(lanes.open('a', 1), 'old', 0, 9);
    lanes.clear();
    expect([lanes.takeLowest(0), lanes.queued]).toEqual([undefined, 0]);
    lanes.push(lanes.open('a', 1), 'new', 1, 3);
    expect([lanes.takeLowest(0)?.item, lanes.queued]).toEqual(['new', 0]);
  });

  it('serves keys of one level in turn, however often more urgent items of one of them went between', () => {
    const lanes = new NamedLanes<string>('priority');
    const [a, b] = [lanes.open('A', Infinity), lanes.open('B', Infinity)];
    let index = 0;
    const push = (lane: KeyLane<string>, level: number): void => {
      lanes.push(lane, String(lane.key), index++, level);
    };
    const take = (): string => lanes.take(lanes.next() as KeyLane<string>);
    for (let i = 0; i < 6; i++) {
      push(a, 5);
      push(b, 5);
    }
    for (let i = 0; i < 50; i++) {
      push(a, 0);
      expect(take()).toBe('A');
    }
    expect(Array.from({ length: 12 }, take).join('')).toBe('BABABABABABA');
  });

  it('keeps the turns of keys of one level while it clears away those nobody waits for', () => {
    const lanes = new NamedLanes<string>('priority');
    const idle = lanes.open('idle', Infinity);
    const keys = ['C', 'A', 'B'];
    for (const key of ['A', 'B', 'C']) lanes.open(key, Infinity);
    for (const [index, key] of keys.entries()) lanes.push(lanes.find(key) as KeyLane<string>, key, index, 5);
    for (let i = 0; i < 1000; i++) {
      lanes.push(idle, 'idle', i + 3, 2000 - i);
      lanes.dropFirst(idle);
    }
    expect(keys.map(() => lanes.take(lanes.next() as KeyLane<string>))).toEqual(keys);
  });

  it('does not hand out what was dropped from a key that has something under way', () => {
    const lanes = new NamedLanes<string>('priority', true);
    const lane = lanes.open('a', 2);
    lanes.push(lane, 'running', 0, 0);
    lanes.take(lane);
    lanes.push(lane, 'dropped', 1, 3);
    expect(lanes.takeLowest(0)?.item).toBe('dropped');
    expect([lane.length, lanes.next(), lanes.size]).toEqual([0, undefined, 1]);
    lanes.push(lane, 'later', 2, 5);
    expect([lane.headIndex, lanes.take(lanes.next() as KeyLane<string>)]).toEqual([2, 'later']);
  });

  it('does not give a key a second turn when something of it ends while it waits for its turn', () => {
    const lanes = new NamedLanes<string>('roundRobin');
    const [a, b] = [lanes.open('a', 1), lanes.open('b', 3)];
    for (let i = 0; i < 3; i++) lanes.push(b, `b${i}`, i);
    lanes.take(b);
    lanes.push(a, 'a', 3);
    lanes.take(b);
    lanes.end(b);
    const rest: string[] = [];
    for (let lane = lanes.next(); lane; lane = lanes.next()) rest.push(lanes.take(lane));
    expect(rest).toEqual(['a', 'b2']);
    expect([lanes.queued, lanes.next()]).toEqual([0, undefined]);
  });

  it('hands out what waited longer than a thousand others in its order, again and again', () => {
    const lanes = new NamedLanes<number>('fifo');
    const lane = lanes.open('a', Infinity);
    let [pushed, taken] = [0, 0];
    for (const [more, less] of [
      [2, 2],
      [1, 1],
      [3, 2],
      [5000, 4999],
      [40, 30],
      [2000, 2012],
      [2, 2],
    ] as const) {
      for (let i = 0; i < more; i++) lanes.push(lane, pushed, 3 * pushed++);
      for (let i = 0; i < less; i++) {
        expect(lane.headIndex).toBe(3 * taken);
        expect(lanes.take(lane)).toBe(taken++);
      }
    }
    expect([lanes.queued, lane.length, taken]).toEqual([0, 0, pushed]);
  });

  it('lets a key keep its turn when more of the same level comes', () => {
    const lanes = new NamedLanes<string>('priority');
    const [a, b] = [lanes.open('a', Infinity), lanes.open('b', Infinity)];
    for (const [index, lane] of [a, b, a].entries()) lanes.push(lane, String(lane.key), index, 5);
    expect([0, 1, 2].map(() => lanes.take(lanes.next() as KeyLane<string>))).toEqual(['a', 'b', 'a']);
  });
});
