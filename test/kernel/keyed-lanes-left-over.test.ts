import { describe, expect, it } from 'vitest';
import { KeyedLanes, type KeyLane } from '../../operators/kernel/keyed-lanes.js';
import { countAlive } from './garbage.js';

describe('KeyedLanes', () => {
  it('serves a hundred keys that always have work in turn, each once a round', () => {
    const lanes = new KeyedLanes<number>('roundRobin');
    const keys = Array.from({ length: 100 }, (_, key) => key);
    for (const key of keys) {
      const lane = lanes.open(key, Infinity);
      for (let i = 0; i < 3; i++) lanes.push(lane, key, i);
    }
    const out = Array.from({ length: 300 }, () => lanes.take(lanes.next() as KeyLane<number>));
    expect(out).toEqual([...keys, ...keys, ...keys]);
  });

  it('numbers what goes next in a key, whatever the gaps between the numbers', () => {
    const lanes = new KeyedLanes<number>('fifo');
    const lane = lanes.open('a', Infinity);
    const numbers = [3, 4, 5, 9, 10, 12];
    for (const number of numbers) lanes.push(lane, number, number);
    const out = numbers.map(() => [lane.headIndex, lanes.drop(lane)]);
    expect(out).toEqual(numbers.map((number) => [number, number]));
    expect([lane.headIndex, lane.length]).toEqual([undefined, 0]);
  });

  it('serves the oldest item first under fifo, whatever its key, and names the first of equally long keys', () => {
    const lanes = new KeyedLanes<string>('fifo');
    const [a, b] = [lanes.open('a', Infinity), lanes.open('b', Infinity)];
    for (const [index, lane] of [a, a, b, b].entries()) lanes.push(lane, `${String(lane.key)}${index}`, index);
    expect(lanes.longest()).toBe(a);
    expect([0, 1, 2, 3].map(() => lanes.take(lanes.next() as KeyLane<string>))).toEqual(['a0', 'a1', 'b2', 'b3']);
  });

  it('drops nobody for being the least urgent unless it was asked to', () => {
    const lanes = new KeyedLanes<string>('priority');
    lanes.push(lanes.open('a', 1), 'item', 0, 9);
    expect([lanes.dropLowest(0), lanes.queued]).toEqual([undefined, 1]);
  });

  it.each(['roundRobin', 'fifo', 'priority'] as const)('is empty after clear, and forgets whose turn it was: %s', (fairness) => {
    const lanes = new KeyedLanes<string>(fairness);
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
      const lanes = new KeyedLanes<string>(fairness);
      const visit = (): WeakRef<object> => {
        const key = {};
        const lane = lanes.open(key, 1);
        lanes.push(lane, 'item', 0);
        lanes.drop(lane);
        lanes.forget(lane);
        return new WeakRef(key);
      };
      const visits = Array.from({ length: 1000 }, visit);
      expect(await countAlive(visits)).toBeLessThan(40);
      expect([lanes.size, lanes.next()]).toEqual([0, undefined]);
    },
  );

  it('holds on to few of the items it has handed out, and to those that wait, until the least urgent is dropped', async () => {
    const lanes = new KeyedLanes<object>('priority', true);
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
    expect(lanes.dropLowest(8)?.item).toBe(waiting);
    expect([lanes.queued, lanes.size]).toEqual([0, 0]);
  });
});
