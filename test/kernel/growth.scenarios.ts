import type { Fairness } from '../../operators/kernel/index.js';
import { Backlog, DeadlineHeap, LanesQueue, SlidingWindow, sharedRounds, strictWithFloor } from '../../operators/kernel/index.js';
import type { Scenario } from '../support/steps.js';

const FEW = 1000;
const MANY = 100_000;
export const ITEMS = { few: FEW, many: MANY } as const;

const FAIRNESS: Readonly<Record<'strict' | 'weighted' | 'roundRobin', Fairness>> = {
  strict: strictWithFloor(),
  weighted: sharedRounds(true),
  roundRobin: sharedRounds(false),
};
export const KINDS = Object.keys(FAIRNESS) as (keyof typeof FAIRNESS)[];

class Entry {
  previous: Entry | undefined = undefined;
  next: Entry | undefined = undefined;
  readonly weight = 1;

  constructor(
    readonly lane: number,
    readonly key: number,
  ) {}
}

const claims = (lanes: number) => Array.from({ length: lanes }, () => ({ share: 1, floor: undefined }));

/** One in, one out, while `waiting` wait in ten lanes, each shared by so many keys. */
function grants(fairness: Fairness, keys: number, waiting: number, turns: number): Scenario {
  return () => {
    const queue = new LanesQueue<Entry>(claims(10), fairness, 1, true);
    for (let n = 0; n < waiting; n++) queue.push(new Entry(n % 10, n % keys));
    return () => {
      for (let n = 0; n < turns; n++) {
        const entry = queue.takeHead(queue.lead());
        queue.push(entry);
      }
    };
  };
}

/** Fills lanes of mixed priority, then empties them. */
function drained(items: number): Scenario {
  return () => {
    const queue = new LanesQueue<Entry>(claims(10), strictWithFloor(0), 1, false);
    return () => {
      for (let n = 0; n < items; n++) queue.push(new Entry((n * 7919) % 10, 0));
      for (let lane = queue.lead(); lane !== -1; lane = queue.lead()) queue.takeHead(lane);
    };
  };
}

const shifted =
  (items: number): Scenario =>
  () => {
    const ring = new Backlog<number>();
    for (let n = 0; n < items; n++) ring.push(n);
    return () => {
      for (let n = 0; n < items; n++) ring.shift();
    };
  };

/** A full window that one entry leaves at a time, while a payment waits for half of the entries to leave. */
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
      [`${kind}, few keys`, grants(FAIRNESS[kind], 10, MANY, MANY)],
      [`${kind}, many keys`, grants(FAIRNESS[kind], MANY, MANY, MANY)],
    ]),
  ),
};
