import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { LaneFairness } from '../../operators/kernel/index.js';
import { LaneQueue } from '../../operators/kernel/index.js';

const LANES = 4;
const fairnesses: readonly LaneFairness[] = [
  { kind: 'strict', floors: [0, 0.1, 0.2, 0.1] },
  { kind: 'strict', floors: [0, 0, 0, 0] },
  { kind: 'wdrr', weights: [1, 2, 3, 4] },
  { kind: 'roundRobin', lanes: LANES },
  { kind: 'fifo', lanes: LANES },
];

interface Item {
  readonly lane: number;
  readonly n: number;
  isLive: boolean;
}

const newQueue = (fairness: LaneFairness): LaneQueue<Item> => new LaneQueue<Item>(fairness, 1, ({ isLive }) => isLive);

function grant(queue: LaneQueue<Item>): Item | undefined {
  const lane = queue.lead();
  if (lane === -1) return undefined;
  const item = queue.shift(lane);
  queue.turn(lane);
  return item;
}

describe('a paused lane', () => {
  it.each(fairnesses)('has no turn, and all of it is there afterwards ($kind)', (fairness) => {
    const queue = newQueue(fairness);
    const items = Array.from({ length: 12 }, (_, n): Item => ({ lane: n % LANES, n, isLive: true }));
    for (const item of items) queue.push(item.lane, item);
    queue.pause(0);
    queue.pause(0);
    queue.pause(2);
    queue.push(0, { lane: 0, n: 12, isLive: true });
    const first: Item[] = [];
    for (let item = grant(queue); item; item = grant(queue)) first.push(item);
    expect(first.map(({ lane }) => lane).sort()).toEqual([1, 1, 1, 3, 3, 3]);
    expect([queue.size, queue.count(0), queue.isPaused(0), queue.first(), queue.goesFirst(1)]).toEqual([7, 4, true, -1, true]);
    queue.resume(0);
    queue.resume(0);
    queue.resume(1);
    queue.resume(2);
    const rest: Item[] = [];
    for (let item = grant(queue); item; item = grant(queue)) rest.push(item);
    expect(rest.length).toBe(7);
    for (const lane of [0, 2]) {
      const order = rest.filter((item) => item.lane === lane).map(({ n }) => n);
      expect(order).toEqual([...order].sort((a, b) => a - b));
    }
    expect([queue.size, queue.lead()]).toEqual([0, -1]);
  });

  const step = fc.oneof(
    { weight: 5, arbitrary: fc.record({ do: fc.constantFrom('push' as const, 'back' as const), lane: fc.nat({ max: LANES - 1 }) }) },
    { weight: 4, arbitrary: fc.record({ do: fc.constant('grant' as const) }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constantFrom('pause' as const, 'resume' as const), lane: fc.nat({ max: LANES - 1 }) }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('leave' as const), which: fc.nat() }) },
  );

  it('is never the lead, loses nobody, and keeps nobody else from a turn', () => {
    fc.assert(
      fc.property(fc.constantFrom(...fairnesses), fc.array(step, { maxLength: 120 }), (fairness, steps) => {
        const queue = newQueue(fairness);
        const waiting = new Set<Item>();
        const paused = new Set<number>();
        let n = 0;
        const took = (): Item | undefined => {
          const lead = queue.lead();
          const candidates = [...waiting].filter(({ lane }) => !paused.has(lane));
          expect(lead === -1).toBe(candidates.length === 0);
          const item = grant(queue);
          if (item) {
            expect(paused.has(item.lane)).toBe(false);
            expect(waiting.delete(item)).toBe(true);
          }
          return item;
        };
        for (const each of steps) {
          if (each.do === 'push' || each.do === 'back') {
            const item = { lane: each.lane, n: n++, isLive: true };
            waiting.add(item);
            if (each.do === 'push') queue.push(each.lane, item);
            else queue.pushReturned(each.lane, item);
          } else if (each.do === 'grant') took();
          else if (each.do === 'pause') {
            queue.pause(each.lane);
            paused.add(each.lane);
          } else if (each.do === 'resume') {
            queue.resume(each.lane);
            paused.delete(each.lane);
          } else if ('which' in each && waiting.size > 0) {
            const item = [...waiting][each.which % waiting.size] as Item;
            waiting.delete(item);
            item.isLive = false;
            queue.left(item.lane);
          }
          expect(queue.size).toBe(waiting.size);
        }
        for (const lane of paused) queue.resume(lane);
        paused.clear();
        while (took());
        expect([waiting.size, queue.size, queue.lead()]).toEqual([0, 0, -1]);
      }),
      { numRuns: 1000 },
    );
  });
});
