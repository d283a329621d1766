import type { LaneFairness } from '../../operators/kernel/index.js';
import { DeadlineHeap, LaneQueue, Ring, SlidingWindow } from '../../operators/kernel/index.js';
import type { Scenario } from '../support/steps.js';

const FEW = 1000;
const MANY = 100_000;
export const ITEMS = { few: FEW, many: MANY } as const;

const FAIRNESS: Readonly<Record<LaneFairness['kind'], (lanes: number) => LaneFairness>> = {
  strict: (lanes) => ({ kind: 'strict', floors: Array.from({ length: lanes }, (_, lane) => (lane === 0 ? 0 : 0.8 / lanes)) }),
  wdrr: (lanes) => ({ kind: 'wdrr', weights: new Array<number>(lanes).fill(1) }),
  roundRobin: (lanes) => ({ kind: 'roundRobin', lanes }),
  fifo: (lanes) => ({ kind: 'fifo', lanes }),
};
export const KINDS = Object.keys(FAIRNESS) as LaneFairness['kind'][];

const always = (): boolean => true;

/** One in, one out, while `waiting` wait in so many lanes. */
function grants(fairness: LaneFairness, lanes: number, waiting: number, turns: number): Scenario {
  return () => {
    const queue = new LaneQueue<number>(fairness, 1, always);
    for (let n = 0; n < waiting; n++) queue.push(n % lanes, n);
    return () => {
      for (let n = 0; n < turns; n++) {
        const lane = queue.lead();
        queue.shift(lane);
        queue.turn(lane);
        queue.push(n % lanes, n);
      }
    };
  };
}

/** Fills lanes of mixed priority, then empties them. */
function drained(items: number): Scenario {
  return () => {
    const queue = new LaneQueue<number>({ kind: 'strict', floors: new Array<number>(100).fill(0) }, 1, always);
    return () => {
      for (let n = 0; n < items; n++) queue.push((n * 7919) % 100, n);
      for (let lane = queue.lead(); lane !== -1; lane = queue.lead()) {
        queue.shift(lane);
        queue.turn(lane);
      }
    };
  };
}

const shifted =
  (items: number): Scenario =>
  () => {
    const ring = new Ring<number>();
    for (let n = 0; n < items; n++) ring.push(n);
    return () => {
      for (let n = 0; n < items; n++) ring.shift();
    };
  };

/** A full window that one entry leaves at a time, while somebody waits for half of them to have left. */
const slid =
  (entries: number): Scenario =>
  () => {
    const window = new SlidingWindow(entries, entries, 0);
    const stepMs = 60_000 / entries;
    for (let n = 0; n < entries; n++) window.pay(1, n * stepMs);
    return () => {
      for (let n = entries; n < 2 * entries; n++) {
        window.pay(1, n * stepMs);
        window.payableAt(entries / 2, n * stepMs);
      }
    };
  };

/** Falling order is the worst for a heap. */
const fallen =
  (items: number): Scenario =>
  () => {
    const heap = new DeadlineHeap<number>();
    return () => {
      for (let time = items; time > 0; time--) heap.push(time, time);
      heap.keep((item) => item % 10 === 0);
      while (heap.length > 0) heap.pop();
    };
  };

export const scenarios: Readonly<Record<string, Scenario>> = {
  'ring, few': shifted(FEW),
  'ring, many': shifted(MANY),
  'heap, few': fallen(FEW),
  'heap, many': fallen(MANY),
  'window, few': slid(FEW),
  'window, many': slid(MANY),
  'drained, few': drained(FEW),
  'drained, many': drained(MANY),
  ...Object.fromEntries(
    KINDS.flatMap((kind) => [
      [`${kind}, few lanes`, grants(FAIRNESS[kind](10), 10, MANY, MANY)],
      [`${kind}, many lanes`, grants(FAIRNESS[kind](MANY), MANY, MANY, MANY)],
    ]),
  ),
};
