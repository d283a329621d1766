import { from } from 'rxjs';
import { fromStream } from '../../operators/from-stream.js';
import type { Case } from '../harness.js';
import { assertCount, countValues } from '../harness.js';

function chunks(n: number): Case {
  // eslint-disable-next-line @typescript-eslint/require-await -- a stream whose chunks are all there
  async function* stream(): AsyncGenerator<number> {
    for (let i = 0; i < n; i++) yield i;
  }
  return {
    name: `an async iterable, ${n.toLocaleString('en')} chunks`,
    n,
    contestants: {
      'by hand': async () => {
        let count = 0;
        for await (const _ of stream()) count++;
        assertCount('by hand', count, n);
      },
      'sluice fromStream': () => countValues('fromStream', fromStream(stream), n),
      'rxjs from': () => countValues('from', from(stream()), n),
    },
  };
}

export const cases: readonly (() => Case)[] = [() => chunks(1e5)];
