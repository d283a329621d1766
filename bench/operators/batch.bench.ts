import { bufferCount, bufferTime, from, Observable } from 'rxjs';
import { batch as chunk } from 'streaming-iterables';
import { batch } from '../../operators/batch.js';
import { batchBySize, batchByWeight, SizeOrTime } from '../by-hand.js';
import type { Case } from '../harness.js';
import { assertCount, numbers } from '../harness.js';

function countItems(what: string, source: Observable<readonly unknown[]>, want: number): void {
  let items = 0;
  source.subscribe((taken) => (items += taken.length));
  assertCount(what, items, want);
}

function bySize(n: number): Case {
  const items = numbers(n);
  return {
    name: `batch by size 100, ${n.toLocaleString('en')} items`,
    n,
    contestants: {
      'by hand': () => {
        let count = 0;
        batchBySize(items, 100, (taken) => (count += taken.length));
        assertCount('by hand', count, n);
      },
      'sluice batch': () => {
        countItems('batch', from(items).pipe(batch({ maxSize: 100, maxWaitMs: Infinity })), n);
      },
      'rxjs bufferCount': () => {
        countItems('bufferCount', from(items).pipe(bufferCount(100)), n);
      },
      'streaming-iterables batch': () => {
        let count = 0;
        for (const taken of chunk<number, number[]>(100, items)) count += taken.length;
        assertCount('streaming-iterables', count, n);
      },
    },
  };
}

function bySizeOrTime(n: number): Case {
  const items = numbers(n);
  return {
    name: `batch by size 100 or 1 s, ${n.toLocaleString('en')} items`,
    n,
    contestants: {
      'by hand': () => {
        let count = 0;
        const batches = new SizeOrTime<number>(100, 1000, (taken) => (count += taken.length));
        for (const item of items) batches.push(item);
        batches.end();
        assertCount('by hand', count, n);
      },
      'sluice batch': () => {
        countItems('batch', from(items).pipe(batch({ maxSize: 100, maxWaitMs: 1000 })), n);
      },
      'rxjs bufferTime': () => {
        countItems('bufferTime', from(items).pipe(bufferTime(1000, null, 100)), n);
      },
    },
  };
}

function byWeight(n: number): Case {
  const texts = numbers(n).map((i) => ({ tokens: 1 + ((i * 7919) % 400) }));
  const weigh = ({ tokens }: { readonly tokens: number }): number => tokens;
  return {
    name: `batch by 8,000 tokens or 100 items, ${n.toLocaleString('en')} items`,
    n,
    contestants: {
      'by hand': () => {
        let count = 0;
        batchByWeight(texts, 8000, 100, weigh, (taken) => (count += taken.length));
        assertCount('by hand', count, n);
      },
      'sluice batch': () => {
        countItems('batch', from(texts).pipe(batch({ maxSize: 100, maxWeight: 8000, weigh, maxWaitMs: Infinity })), n);
      },
    },
  };
}

export const cases: readonly (() => Case)[] = [() => bySize(1e6), () => bySizeOrTime(1e6), () => byWeight(1e6)];
