import { divideAndConquer, sequentialSearch } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, unknown } from '../support/misuse.js';

export const rows: MisuseTable = {
  operator: 'divideAndConquer',
  create: (options: never) => divideAndConquer(options),
  rows: [
    ...badly('parts', 'a whole number >= 2 or Infinity', 1, NaN, 0, -1, 1.5, '4', null, {}),
    {
      option: 'parts',
      value: 4,
      problem: '`{option}` cannot be combined with `strategy`',
      expected: 'Remove one of them.',
      besides: { strategy: sequentialSearch() },
    },
    ...badly('maxCalls', 'a whole number >= 1 or Infinity', NaN, 0, -1, 1.5, '4', null, {}),
    ...badly('strategy', 'sequentialSearch()', 'sequential', NaN, 0, true, null, {}, () => undefined),
    ...unknown('factor', 'parts, maxCalls, strategy', 3),
  ],
};
