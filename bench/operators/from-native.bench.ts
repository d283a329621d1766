import { Observable } from 'rxjs';
import { fromNative } from '../../operators/from-native.js';
import type { NativeObservable } from '../../operators/to-native.js';
import type { Case } from '../harness.js';
import { countValues } from '../harness.js';

function handingOn(n: number): Case {
  const native: NativeObservable<number> = {
    subscribe: (observer) => {
      for (let i = 0; i < n; i++) observer?.next?.(i);
      observer?.complete?.();
    },
  };
  return {
    name: `${n.toLocaleString('en')} values`,
    n,
    contestants: {
      'by hand': () =>
        countValues(
          'by hand',
          new Observable<number>((subscriber) => {
            native.subscribe(subscriber);
          }),
          n,
        ),
      'sluice fromNative': () => countValues('fromNative', fromNative(native), n),
    },
  };
}

export const cases: readonly (() => Case)[] = [() => handingOn(1e6)];
