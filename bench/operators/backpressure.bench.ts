import { buffer, filter, from, mergeMap, Subject } from 'rxjs';
import type { BackpressureOptions } from '../../operators/backpressure.js';
import { backpressure } from '../../operators/backpressure.js';
import type { Case } from '../harness.js';
import { assertCount, numbers } from '../harness.js';

const BURST = 100;
const ROOM = 1000;

/** A consumer that is always ready: what the operator costs when it is not needed. */
function ready(n: number): Case {
  const items = numbers(n);
  return {
    name: `backpressure, consumer always ready, ${n.toLocaleString('en')} items`,
    n,
    contestants: {
      'by hand': () => {
        let count = 0;
        let isReady = false;
        const queue: number[] = [];
        from([true]).subscribe((level) => (isReady = level));
        from(items).subscribe((item) => {
          if (isReady && queue.length === 0) count++;
          else queue.push(item);
        });
        assertCount('by hand', count, n);
      },
      'sluice backpressure': () => {
        let count = 0;
        from(items)
          .pipe(backpressure({ ready: [true] }))
          .subscribe(() => count++);
        assertCount('backpressure', count, n);
      },
      'rxjs filter': () => {
        let count = 0;
        from(items)
          .pipe(filter(() => true))
          .subscribe(() => count++);
        assertCount('filter', count, n);
      },
    },
  };
}

/** Sends bursts while the consumer is busy, and lets it look up after each. */
function sendBursts(items: readonly number[], source: Subject<number>, level: Subject<boolean>): void {
  for (const [i, item] of items.entries()) {
    source.next(item);
    if ((i + 1) % BURST === 0) {
      level.next(true);
      level.next(false);
    }
  }
}

function bursts(n: number): Case {
  const items = numbers(n);
  return {
    name: `backpressure, bursts of ${BURST} while the consumer is busy, ${n.toLocaleString('en')} items`,
    n,
    contestants: {
      'by hand': () => {
        let count = 0;
        let queue: number[] = [];
        const source = new Subject<number>();
        const level = new Subject<boolean>();
        source.subscribe((item) => {
          if (queue.length >= ROOM) throw new Error('full');
          queue.push(item);
        });
        level.subscribe((isReady) => {
          if (!isReady) return;
          const waiting = queue;
          queue = [];
          count += waiting.length;
        });
        sendBursts(items, source, level);
        assertCount('by hand', count, n);
      },
      'sluice backpressure': () => {
        let count = 0;
        const source = new Subject<number>();
        const level = new Subject<boolean>();
        source.pipe(backpressure({ ready: level, maxQueued: ROOM })).subscribe(() => count++);
        sendBursts(items, source, level);
        assertCount('backpressure', count, n);
      },
      'rxjs buffer, mergeMap': () => {
        let count = 0;
        const source = new Subject<number>();
        const level = new Subject<boolean>();
        source
          .pipe(
            buffer(level.pipe(filter(Boolean))),
            mergeMap((waiting) => waiting),
          )
          .subscribe(() => count++);
        sendBursts(items, source, level);
        assertCount('buffer', count, n);
      },
    },
  };
}

/** A consumer that gets ready at the end: all but the newest are dropped on the way. */
function dropping(n: number): Case {
  const items = numbers(n);
  const runs = (overflow: NonNullable<BackpressureOptions<number>['overflow']>, want: number) => () => {
    let count = 0;
    const source = new Subject<number>();
    const level = new Subject<boolean>();
    source.pipe(backpressure({ ready: level, maxQueued: ROOM, overflow })).subscribe(() => count++);
    for (const item of items) source.next(item);
    level.next(true);
    assertCount(overflow, count, want);
  };
  return {
    name: `backpressure, the newest ${ROOM.toLocaleString('en')} of ${n.toLocaleString('en')} items`,
    n,
    contestants: {
      'by hand': () => {
        const kept = new Array<number>(ROOM).fill(0);
        let sent = 0;
        const source = new Subject<number>();
        source.subscribe((item) => (kept[sent++ % ROOM] = item));
        for (const item of items) source.next(item);
        assertCount('by hand', Math.min(sent, kept.length), ROOM);
      },
      "sluice backpressure 'dropOldest'": runs('dropOldest', ROOM),
      "sluice backpressure 'dropNewest'": runs('dropNewest', ROOM),
    },
  };
}

export const cases: readonly (() => Case)[] = [() => ready(1e6), () => bursts(1e6), () => dropping(1e6)];
