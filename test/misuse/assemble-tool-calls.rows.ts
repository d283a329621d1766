import { assembleToolCalls } from '../../src/streams/assemble-tool-calls.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';

export const rows: MisuseTable = {
  operator: 'assembleToolCalls',
  create: (options) => assembleToolCalls(options),
  rows: [
    ...badly('maxArgumentChars', 'a whole number >= 1 or Infinity', NaN, 0, -1, 1.5, '100', null, true, {}),
    ...badly('protocol', 'absent (known options: maxArgumentChars)', 'chat'),
  ],
};
