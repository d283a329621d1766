import { of } from 'rxjs';
import { createBatcher, loadFrom } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, unknown } from '../support/misuse.js';

const batcher = createBatcher((items: readonly string[]) => of(items));
const KNOWN = 'concurrency, maxWeight, weigh, operator, lane, key, signal, deadlineMs';

export const rows: MisuseTable = {
  operator: 'loadFrom',
  create: (options: never) => loadFrom(batcher, ['a'], options),
  calls: {
    batcher: (given) => loadFrom(given, ['a']),
    input: (input) => loadFrom(batcher, input),
  },
  rows: [
    ...badly('batcher', 'a batcher made by createBatcher', undefined, null, 5, {}, () => undefined),
    ...badly('input', 'an Iterable, an AsyncIterable or a ReadableStream', undefined, null, 5, {}, () => undefined),
    ...badly('concurrency', 'a whole number >= 1 or Infinity', NaN, 0, -1, 1.5, '100', null, {}),
    ...badly('maxWeight', 'a number > 0 or Infinity', NaN, 0, -1, '100', null, {}),
    ...badly('weigh', 'a function', NaN, 0, 'tokens', null, {}),
    ...badly('operator', 'a non-empty string', '', 0, null, {}),
    ...unknown('maxQueued', KNOWN, 5),
  ],
};
