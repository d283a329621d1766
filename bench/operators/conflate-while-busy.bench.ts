import { buffer, filter, map, Subject, sample, scan } from 'rxjs';
import { conflateWhileBusy } from '../../operators/conflate-while-busy.js';
import type { Case } from '../harness.js';
import { assertCount, numbers } from '../harness.js';

const BURST = 100;

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

/** Counts how many items came out, as the sum of ones that are merged by adding. */
function sums(n: number): Case {
  const items = numbers(n).map(() => 1);
  const streams = () => ({ source: new Subject<number>(), level: new Subject<boolean>() });
  return {
    name: `conflateWhileBusy, sums of ${BURST}, ${n.toLocaleString('en')} items`,
    n,
    contestants: {
      'by hand': () => {
        const { source, level } = streams();
        let total = 0;
        let sum: number | undefined;
        source.subscribe((item) => (sum = sum === undefined ? item : sum + item));
        level.subscribe((isReady) => {
          if (!isReady || sum === undefined) return;
          const pending = sum;
          sum = undefined;
          total += pending;
        });
        sendBursts(items, source, level);
        assertCount('by hand', total, n);
      },
      'sluice conflateWhileBusy': () => {
        const { source, level } = streams();
        let total = 0;
        source
          .pipe(conflateWhileBusy({ ready: level, seed: (item) => item, merge: (sum, item) => sum + item }))
          .subscribe((sum) => (total += sum));
        sendBursts(items, source, level);
        assertCount('conflateWhileBusy', total, n);
      },
      'rxjs buffer, map': () => {
        const { source, level } = streams();
        let total = 0;
        source
          .pipe(
            buffer(level.pipe(filter(Boolean))),
            map((waiting) => waiting.reduce((sum, item) => sum + item, 0)),
          )
          .subscribe((sum) => (total += sum));
        sendBursts(items, source, level);
        assertCount('buffer', total, n);
      },
      'rxjs scan, sample': () => {
        const { source, level } = streams();
        let total = 0;
        source
          .pipe(
            scan((sum, item) => sum + item, 0),
            sample(level.pipe(filter(Boolean))),
          )
          .subscribe((sum) => (total = sum));
        sendBursts(items, source, level);
        assertCount('sample', total, n);
      },
    },
  };
}

export const cases: readonly (() => Case)[] = [() => sums(1e6)];
