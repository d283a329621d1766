import DataLoader from 'dataloader';
import { createBatcher } from '../../operators/create-batcher.js';
import { loader } from '../by-hand.js';
import type { Case } from '../harness.js';
import { assertCount } from '../harness.js';

const WAVE = 100;
const unbounded = { maxSize: WAVE, maxWeight: Infinity, concurrency: Infinity } as const;
const doubleAll = (keys: readonly number[]): Promise<number[]> => Promise.resolve(keys.map((key) => 2 * key));

type Load = (key: number) => Promise<number>;

/** Loads in waves: all of one, then all of the next. */
async function run(what: string, load: Load, keyOf: (i: number) => number, n: number): Promise<void> {
  let loaded = 0;
  for (let wave = 0; wave < n; wave += WAVE) {
    loaded += (await Promise.all(Array.from({ length: WAVE }, (_, i) => load(keyOf(wave + i))))).length;
  }
  assertCount(what, loaded, n);
}

function inWaves(n: number): Case {
  const every = (i: number): number => i;
  return {
    name: `loads in waves of ${WAVE}, ${n.toLocaleString('en')} loads`,
    n,
    contestants: {
      'by hand': () => run('by hand', loader(WAVE, doubleAll), every, n),
      'sluice createBatcher': () => {
        const batcher = createBatcher<number, number>(doubleAll, unbounded);
        return run('createBatcher', (key) => batcher.loadAsync(key), every, n);
      },
      dataloader: () => {
        const peer = new DataLoader<number, number>(doubleAll, { cache: false, maxBatchSize: WAVE });
        return run('dataloader', (key) => peer.load(key), every, n);
      },
    },
  };
}

/** A loader that keeps the promise of each key, as many do in front of a loader that does not. */
function remembering(load: Load): Load {
  const promises = new Map<number, Promise<number>>();
  return (key) => {
    let promise = promises.get(key);
    if (promise === undefined) promises.set(key, (promise = load(key)));
    return promise;
  };
}

function cached(name: string, keyOf: (i: number) => number, n: number): Case {
  return {
    name: `${name}, with cache, in waves of ${WAVE}, ${n.toLocaleString('en')} loads`,
    n,
    contestants: {
      'by hand': () => run('by hand', remembering(loader(WAVE, doubleAll)), keyOf, n),
      'sluice createBatcher': () => {
        const batcher = createBatcher<number, number>(doubleAll, { ...unbounded, cache: { maxEntries: Infinity } });
        return run('createBatcher', (key) => batcher.loadAsync(key), keyOf, n);
      },
      'sluice createBatcher, 1,000 kept': () => {
        const batcher = createBatcher<number, number>(doubleAll, { ...unbounded, cache: { maxEntries: 1000 } });
        return run('createBatcher', (key) => batcher.loadAsync(key), keyOf, n);
      },
      dataloader: () => {
        const peer = new DataLoader<number, number>(doubleAll, { maxBatchSize: WAVE });
        return run('dataloader', (key) => peer.load(key), keyOf, n);
      },
    },
  };
}

/** One in ten is new; the others were loaded in one of the last five waves. */
const mostlyKnown = (i: number): number => {
  const fresh = Math.floor(i / 10);
  return i % 10 === 0 ? fresh : Math.max(0, fresh - 1 - ((i * 7) % 50));
};

export const cases: readonly (() => Case)[] = [
  () => inWaves(1e5),
  () => cached('9 of 10 known', mostlyKnown, 1e5),
  () => cached('all keys new', (i) => i, 1e5),
];
