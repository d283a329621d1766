import { filter, from, map } from 'rxjs';
import type { Fulfilled, Settled } from '../../operators/options/types.js';
import { unwrap } from '../../operators/unwrap.js';
import type { Case } from '../harness.js';
import { assertCount } from '../harness.js';

function values(n: number): Case {
  const results = Array.from({ length: n }, (_, index): Settled<number, number> => {
    const origin = { input: index, index, id: String(index), attempts: 1 };
    return index % 10 === 0 ? { status: 'rejected', reason: 'bad', ...origin } : { status: 'fulfilled', value: index, ...origin };
  });
  const good = n - n / 10;
  return {
    name: `the values of ${n.toLocaleString('en')} results, one in ten failed`,
    n,
    contestants: {
      'by hand': () => {
        let count = 0;
        from(results).subscribe((settled) => {
          if (settled.status === 'fulfilled') count++;
        });
        assertCount('by hand', count, good);
      },
      'sluice unwrap': () => {
        let count = 0;
        from(results)
          .pipe(unwrap('values'))
          .subscribe(() => count++);
        assertCount('unwrap', count, good);
      },
      'rxjs filter + map': () => {
        let count = 0;
        from(results)
          .pipe(
            filter((settled): settled is Fulfilled<number, number> => settled.status === 'fulfilled'),
            map(({ value }) => value),
          )
          .subscribe(() => count++);
        assertCount('filter + map', count, good);
      },
    },
  };
}

export const cases: readonly (() => Case)[] = [() => values(1e6)];
