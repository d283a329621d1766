import PQueue from 'p-queue';
import { bufferCount, from, map, merge } from 'rxjs';
import { LaneQueue } from '../../operators/kernel/queues/lane-queue.js';
import { mergeLanes } from '../../operators/merge-lanes.js';
import type { Case } from '../harness.js';
import { assertCount, numbers } from '../harness.js';

const LANES = 3;
const SIZE = 100;

/** Three lists, each a third of the items, merged into batches of 100. */
function merging(n: number): Case {
  const lanes = Array.from({ length: LANES }, () => numbers(n / LANES));
  const ours = (fairness: 'strict' | 'wdrr' | 'fifo') => (): void => {
    let count = 0;
    mergeLanes(
      lanes.map((source, i) => ({ name: `l${String(i)}`, source, maxWaitMs: 1000 })),
      { maxSize: SIZE, fairness },
    ).subscribe(({ items }) => (count += items.length));
    assertCount(fairness, count, n);
  };
  return {
    name: `three lanes merged into batches of ${String(SIZE)}, ${n.toLocaleString('en')} items`,
    n,
    contestants: {
      'by hand': () => {
        const waiting: number[][] = Array.from({ length: LANES }, () => []);
        let waits = 0;
        let count = 0;
        const emit = (): void => {
          const batch: { lane: number; item: number }[] = [];
          for (const [lane, items] of waiting.entries())
            for (const item of items.splice(0, SIZE - batch.length)) batch.push({ lane, item });
          waits -= batch.length;
          count += batch.length;
        };
        for (const [lane, items] of lanes.entries()) {
          for (const item of items) {
            waiting[lane]!.push(item);
            if (++waits === SIZE) emit();
          }
        }
        emit();
        assertCount('by hand', count, n);
      },
      'sluice mergeLanes': ours('strict'),
      'sluice mergeLanes, wdrr': ours('wdrr'),
      'sluice mergeLanes, fifo': ours('fifo'),
      'rxjs merge and bufferCount, no priority': () => {
        let count = 0;
        merge(...lanes.map((source, lane) => from(source).pipe(map((item) => ({ lane, item })))))
          .pipe(bufferCount(SIZE))
          .subscribe((items) => (count += items.length));
        assertCount('rxjs', count, n);
      },
    },
  };
}

/** A queue with ten items to a lane, out of which one is taken for each that comes. */
function kernel(lanes: number, n: number): Case {
  const backlog = 10 * lanes;
  const ours = (make: () => LaneQueue<number>) => (): void => {
    const queue = make();
    for (let i = 0; i < backlog; i++) queue.push(i % lanes, i);
    for (let i = 0; i < n; i++) {
      queue.push((i * 7919) % lanes, i);
      const lane = queue.lead();
      queue.shift(lane);
      queue.turn(lane);
    }
    assertCount('lane queue', queue.size, backlog);
  };
  const isLive = (): boolean => true;
  const none = new Array<number>(lanes).fill(0);
  const floors = none.map((_, lane) => (lane === 0 ? 0 : 0.5 / (lanes - 1)));
  return {
    name: `one in, one out of ${lanes.toLocaleString('en')} lanes, ${n.toLocaleString('en')} items`,
    n,
    contestants: {
      'by hand': () => {
        // Strict order only: an array and a read position for each lane, and a bit for each that is not empty.
        const queues = Array.from({ length: lanes }, () => ({ items: [] as number[], head: 0 }));
        const words = new Int32Array((lanes + 31) >> 5);
        let size = 0;
        const push = (lane: number, item: number): void => {
          queues[lane]!.items.push(item);
          words[lane >> 5]! |= 1 << (lane & 31);
          size++;
        };
        for (let i = 0; i < backlog; i++) push(i % lanes, i);
        for (let i = 0; i < n; i++) {
          push((i * 7919) % lanes, i);
          let word = 0;
          while (words[word] === 0) word++;
          const bits = words[word]!;
          const lane = (word << 5) + 31 - Math.clz32(bits & -bits);
          const queue = queues[lane]!;
          queue.head++;
          if (queue.head === queue.items.length) {
            queue.items = [];
            queue.head = 0;
            words[word]! &= ~(1 << (lane & 31));
          }
          size--;
        }
        assertCount('by hand', size, backlog);
      },
      'sluice LaneQueue, strict without floors': ours(() => new LaneQueue({ kind: 'strict', floors: none }, 1, isLive)),
      'sluice LaneQueue, strict with floors': ours(() => new LaneQueue({ kind: 'strict', floors }, 1, isLive)),
      'sluice LaneQueue, wdrr': ours(() => new LaneQueue({ kind: 'wdrr', weights: none.map((_, lane) => 1 + (lane % 3)) }, 1, isLive)),
      'sluice LaneQueue, roundRobin': ours(() => new LaneQueue({ kind: 'roundRobin', lanes }, 1, isLive)),
      'sluice LaneQueue, fifo': ours(() => new LaneQueue({ kind: 'fifo', lanes }, 1, isLive)),
    },
  };
}

/** Adds tasks of mixed priority to a queue that is stopped, then takes them all. */
function mixedPriorities(n: number, lanes: number): Case {
  return {
    name: `${n.toLocaleString('en')} items of ${String(lanes)} priorities queued, then served`,
    n,
    contestants: {
      'by hand': () => {
        const queues: number[][] = Array.from({ length: lanes }, () => []);
        for (let i = 0; i < n; i++) queues[(i * 7919) % lanes]!.push(i);
        let count = 0;
        for (const queue of queues) for (const _item of queue) count++;
        assertCount('by hand', count, n);
      },
      'sluice LaneQueue': () => {
        const queue = new LaneQueue<number>({ kind: 'strict', floors: new Array<number>(lanes).fill(0) }, 1, () => true);
        for (let i = 0; i < n; i++) queue.push((i * 7919) % lanes, i);
        let count = 0;
        for (let lane = queue.lead(); lane !== -1; lane = queue.lead()) {
          queue.shift(lane);
          queue.turn(lane);
          count++;
        }
        assertCount('lane queue', count, n);
      },
      'p-queue': async () => {
        const queue = new PQueue({ concurrency: 1, autoStart: false });
        let count = 0;
        for (let i = 0; i < n; i++)
          void queue.add(
            () => {
              count++;
            },
            { priority: (i * 7919) % lanes },
          );
        queue.start();
        await queue.onIdle();
        assertCount('p-queue', count, n);
      },
    },
  };
}

export const cases: readonly (() => Case)[] = [
  () => merging(300_000),
  () => kernel(10, 300_000),
  () => kernel(1000, 300_000),
  () => kernel(10_000, 300_000),
  () => mixedPriorities(10_000, 100),
];
