import { coalesceText } from '../../src/adapters/ai-sdk.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, unknown } from '../support/misuse.js';

export const rows: MisuseTable = {
  operator: 'coalesceText',
  create: (options) => coalesceText(options),
  rows: [
    ...badly('maxWaitMs', 'a number of milliseconds >= 0 or Infinity', NaN, -1, -Infinity, '16', null, true, {}),
    ...badly('maxChars', 'a whole number >= 1 or Infinity', NaN, 0, -1, 1.5, '4096', null, true, {}),
    ...badly('scheduler', 'an rxjs scheduler', NaN, 0, 'async', null, {}, { now: () => 0 }),
    ...unknown('chunking', 'maxWaitMs, maxChars, scheduler', 'word'),
  ],
};
