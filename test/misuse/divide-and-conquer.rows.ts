import { divideAndConquer, sequentialSearch } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';

const FROM_ZERO = 'a whole number >= 0 or Infinity';

export const rows: MisuseTable = {
  operator: 'divideAndConquer',
  create: (options: never) => divideAndConquer(options),
  rows: [
    ...badly('factor', 'a whole number >= 2 or Infinity', 1, NaN, 0, -1, 1.5, '4', null, {}),
    { option: 'factor', value: 4, expected: 'absent beside `strategy`', besides: { strategy: sequentialSearch() } },
    ...badly('maxCalls', 'a whole number >= 1 or Infinity', NaN, 0, -1, 1.5, '4', null, {}),
    ...badly('maxDepth', FROM_ZERO, NaN, -1, 1.5, '4', null, {}),
    ...badly('maxBlameRounds', FROM_ZERO, NaN, -1, 1.5, '4', null, {}),
    ...badly('strategy', 'sequentialSearch()', 'sequential', NaN, 0, true, null, {}, () => undefined),
    ...badly('parts', 'absent (known options: factor, maxCalls, maxDepth, maxBlameRounds, strategy)', 3),
  ],
};
