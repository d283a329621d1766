import DataLoader from 'dataloader';
import { createBatcher } from '../../operators/create-batcher.js';
import { loader } from '../by-hand.js';
import type { Case } from '../harness.js';
import { assertCount } from '../harness.js';

const WAVE = 100;
const doubleAll = (keys: readonly number[]): Promise<number[]> => Promise.resolve(keys.map((key) => 2 * key));

function inWaves(n: number): Case {
  const run = async (what: string, load: (key: number) => Promise<number>): Promise<void> => {
    let loaded = 0;
    for (let wave = 0; wave < n; wave += WAVE) {
      loaded += (await Promise.all(Array.from({ length: WAVE }, (_, i) => load(wave + i)))).length;
    }
    assertCount(what, loaded, n);
  };
  return {
    name: `loads in waves of ${WAVE}, ${n.toLocaleString('en')} loads`,
    n,
    contestants: {
      'by hand': () => run('by hand', loader(WAVE, doubleAll)),
      'sluice createBatcher': () => {
        const batcher = createBatcher<number, number>(doubleAll, { maxSize: WAVE, maxWeight: Infinity, concurrency: Infinity });
        return run('createBatcher', (key) => batcher.loadAsync(key));
      },
      dataloader: () => {
        const peer = new DataLoader<number, number>(doubleAll, { cache: false, maxBatchSize: WAVE });
        return run('dataloader', (key) => peer.load(key));
      },
    },
  };
}

export const cases: readonly (() => Case)[] = [() => inWaves(1e5)];
