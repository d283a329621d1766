import { range } from 'rxjs';
import { toNative } from '../../operators/to-native.js';
import { PlatformObservable } from '../../test/support/platform-observable.js';
import type { Case } from '../harness.js';
import { assertCount } from '../harness.js';

function handingOn(n: number): Case {
  return {
    name: `${n.toLocaleString('en')} values`,
    n,
    contestants: {
      'by hand': () => {
        let count = 0;
        new PlatformObservable<number>((subscriber) => {
          range(0, n).subscribe(subscriber);
        }).subscribe({ next: () => count++ });
        assertCount('by hand', count, n);
      },
      'sluice toNative': () => {
        let count = 0;
        toNative(range(0, n), { observableClass: PlatformObservable }).subscribe({ next: () => count++ });
        assertCount('toNative', count, n);
      },
    },
  };
}

export const cases: readonly (() => Case)[] = [() => handingOn(1e6)];
