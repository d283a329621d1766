import { coalesceEvents } from '../../src/adapters/ag-ui.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, unknown } from '../support/misuse.js';

export const rows: MisuseTable = {
  operator: 'coalesceEvents',
  create: (options) => coalesceEvents(options),
  rows: [
    ...badly('pace', "one of 'time', 'frame'", null, 16, 'raf'),
    ...badly('maxWaitMs', 'a number of milliseconds >= 0 or Infinity', NaN, -1, -Infinity, '16', null, true, {}),
    ...badly('maxChars', 'a number > 0 or Infinity', NaN, 0, -1, '4096', null, true, {}),
    ...badly('scheduler', 'an rxjs scheduler', NaN, 0, 'async', null, {}, { now: () => 0 }),
    ...unknown('flush', 'pace, maxWaitMs, maxChars, scheduler', true),
  ],
};
