import { coalesceEvents } from '../../src/adapters/ag-ui.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';

export const rows: MisuseTable = {
  operator: 'coalesceEvents',
  create: (options) => coalesceEvents(options),
  rows: [
    ...badly('pace', "one of 'time', 'frame'", null, 16, 'raf'),
    ...badly('maxWaitMs', 'a number of milliseconds >= 0 or Infinity', NaN, -1, -Infinity, '16', null, true, {}),
    ...badly('maxChars', 'a whole number >= 1 or Infinity', NaN, 0, -1, 1.5, '4096', null, true, {}),
    ...badly('scheduler', 'an rxjs scheduler', NaN, 0, 'async', null, {}, { now: () => 0 }),
    ...badly('onEvent', 'a function', null, 5, {}),
    ...badly('name', 'a non-empty string', null, 5, ''),
    ...badly('flush', 'absent (known options: pace, maxWaitMs, maxChars, scheduler, onEvent, name)', true),
  ],
};
