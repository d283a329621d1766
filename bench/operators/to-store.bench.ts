import { range } from 'rxjs';
import { toStore } from '../../operators/to-store.js';
import type { Case } from '../harness.js';
import { assertCount } from '../harness.js';

function showing(n: number): Case {
  return {
    name: `${n.toLocaleString('en')} values shown to one listener`,
    n,
    contestants: {
      'by hand': () => {
        let count = 0;
        let snapshot = 0;
        const listeners = new Set<() => void>([() => count++]);
        range(1, n).subscribe((value) => {
          snapshot = value;
          for (const listener of listeners) listener();
        });
        assertCount('by hand', Math.min(count, snapshot), n);
      },
      'sluice toStore': () => {
        let count = 0;
        const store = toStore(range(1, n), 0);
        store.subscribe(() => count++)();
        assertCount('toStore', Math.min(count, store.getSnapshot()), n);
      },
    },
  };
}

export const cases: readonly (() => Case)[] = [() => showing(1e6)];
