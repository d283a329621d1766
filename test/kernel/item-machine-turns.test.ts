import { describe, expect, it } from 'vitest';
import type { KeyLane } from '../../operators/kernel/index.js';
import { ItemMachine } from '../../operators/kernel/index.js';
import { countAlive } from './garbage.js';

const RULES = {
  concurrency: Infinity,
  isKeyed: true,
  maxKeys: Infinity,
  maxQueued: Infinity,
  overflow: 'dropOldest',
  deadlineMs: Infinity,
} as const;

/** A machine whose items are numbered as they come. */
class Keys<T> extends ItemMachine<T> {
  private sent = 0;

  constructor(rules: Partial<ConstructorParameters<typeof ItemMachine>[0]> = {}) {
    super({ ...RULES, ...rules });
  }

  send(lane: KeyLane<T>, item: T): void {
    this.accept(lane, item, this.sent++, 0, undefined);
  }

  serve(): T {
    return this.start(this.next() as KeyLane<T>);
  }
}

describe('ItemMachine, by key', () => {
  it('serves a hundred keys that always have work in turn, each once a round', () => {
    const machine = new Keys<number>();
    const keys = Array.from({ length: 100 }, (_, key) => key);
    for (const key of keys) {
      const lane = machine.open(key, Infinity);
      for (let i = 0; i < 3; i++) machine.send(lane, key);
    }
    expect(Array.from({ length: 300 }, () => machine.serve())).toEqual([...keys, ...keys, ...keys]);
  });

  it('is empty after clear, and forgets whose turn it was', () => {
    const machine = new Keys<string>();
    machine.send(machine.open('a', 1), 'old');
    machine.clear();
    expect([machine.queued, machine.next(), machine.find('a')]).toEqual([0, undefined, undefined]);
    const lane = machine.open('a', 1);
    machine.send(lane, 'new');
    expect(machine.next()).toBe(lane);
    expect([machine.serve(), machine.next()]).toEqual(['new', undefined]);
  });

  it('holds on to few keys it has forgotten, while nobody asks for the next', async () => {
    const machine = new Keys<string>({ maxQueued: 1 });
    const visit = (): WeakRef<object> => {
      const key = {};
      machine.send(machine.open(key, 1), 'item');
      machine.expire(Infinity);
      machine.lost.clear();
      return new WeakRef(key);
    };
    const visits = Array.from({ length: 1000 }, visit);
    expect(await countAlive(visits)).toBeLessThan(40);
    expect([machine.queued, machine.next()]).toEqual([0, undefined]);
  });

  it('holds on to few of the items it has handed out', async () => {
    const machine = new Keys<object>();
    const lane = machine.open('a', 2);
    machine.send(lane, {});
    machine.serve();
    const served = Array.from({ length: 1000 }, () => {
      const item = {};
      machine.send(lane, item);
      machine.serve();
      machine.end(lane);
      return new WeakRef(item);
    });
    expect(await countAlive(served)).toBeLessThan(40);
  });

  it('does not give a key a second turn when something of it ends while it waits for its turn', () => {
    const machine = new Keys<string>();
    const [a, b] = [machine.open('a', 1), machine.open('b', 3)];
    for (let i = 0; i < 3; i++) machine.send(b, `b${i}`);
    machine.serve();
    machine.send(a, 'a');
    machine.serve();
    machine.end(b);
    const rest: string[] = [];
    while (machine.next()) rest.push(machine.serve());
    expect(rest).toEqual(['a', 'b2']);
    expect([machine.queued, machine.next()]).toEqual([0, undefined]);
  });

  it('hands out what waited longer than a thousand others in its order, again and again', () => {
    const machine = new Keys<number>();
    const lane = machine.open('a', Infinity);
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
      for (let i = 0; i < more; i++) machine.send(lane, pushed++);
      for (let i = 0; i < less; i++) {
        expect(lane.headIndex).toBe(taken);
        expect(machine.serve()).toBe(taken++);
      }
    }
    expect([machine.queued, lane.length, taken]).toEqual([0, 0, pushed]);
  });
});
