import { describe, expect, it } from 'vitest';
import { boundsOf, ItemMachine, KeyLane } from '../../operators/kernel/index.js';
import { countAlive, heapBytes } from './garbage.js';

const RULES = {
  concurrency: Infinity,
  isKeyed: true,
  bounds: boundsOf({ overflow: 'dropOldest' }),
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

  it('is empty after clear, and forgets which key was next', () => {
    const machine = new Keys<string>();
    machine.send(machine.open('a', 1), 'old');
    machine.clear();
    expect([machine.queued, machine.next(), machine.find('a')]).toEqual([0, undefined, undefined]);
    const lane = machine.open('a', 1);
    machine.send(lane, 'new');
    expect(machine.next()).toBe(lane);
    expect([machine.serve(), machine.next()]).toEqual(['new', undefined]);
  });

  it('retains few forgotten keys while `next` is not called', async () => {
    const machine = new Keys<string>({ bounds: boundsOf({ maxQueued: 1, overflow: 'dropOldest' }) });
    const visit = (): WeakRef<object> => {
      const key = {};
      const lane = machine.open(key, 1);
      machine.send(lane, 'item');
      machine.drop(lane);
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

describe('a key lane', () => {
  const filled = (items: number): KeyLane<number> => {
    const lane = new KeyLane<number>('a', 1);
    for (let index = 0; index < items; index++) lane.push(index, index, 0, undefined);
    return lane;
  };

  it('makes no object for an item that waits', () => {
    const before = heapBytes();
    const lane = filled(100_000);
    expect((heapBytes() - before) / lane.length).toBeLessThan(60);
  });

  it('is small while little waits', () => {
    const before = heapBytes();
    const lanes = Array.from({ length: 1000 }, () => filled(3));
    expect((heapBytes() - before) / lanes.length).toBeLessThan(2000);
  });

  it('gives back what it has handed out, also when it is never empty', () => {
    const lane = filled(1);
    const before = heapBytes();
    for (let index = 1; index < 200_000; index++) {
      lane.push(index, index, 0, undefined);
      lane.shift();
    }
    expect(lane.length).toBe(1);
    expect(heapBytes() - before).toBeLessThan(1e6);
  });

  it('holds no input and no note of what it has handed out', async () => {
    const lane = new KeyLane<object>('a', 1);
    const handedOut = Array.from({ length: 1000 }, (_, index) => {
      const [input, note] = [{}, {}];
      lane.push(input, index, 0, note);
      if (index > 0) lane.shift();
      return [new WeakRef(input), new WeakRef(note)];
    });
    expect(await countAlive(handedOut.map(([input]) => input!))).toBeLessThan(10);
    expect(await countAlive(handedOut.map(([, note]) => note!))).toBeLessThan(10);
    expect(lane.length).toBe(1);
  });
});
