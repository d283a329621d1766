import { flowStream } from '../../src/adapters/tanstack-ai.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, unknown } from '../support/misuse.js';

const known = 'pace, maxWaitMs, maxChars, scheduler';

export const rows: MisuseTable = {
  operator: 'flowStream',
  create: (options) => flowStream(() => [] as never, options),
  calls: { source: (given: never) => flowStream(given) },
  rows: [
    ...badly('source', 'a function, or a connection with `connect`', undefined, null, 5, '/api/chat', {}),
    ...badly('pace', "one of 'time', 'frame'", 'idle', 60, null, {}),
    ...badly('maxWaitMs', 'a number of milliseconds >= 0 or Infinity', NaN, -1, -Infinity, '16', null, true, {}),
    ...badly('maxChars', 'a number > 0 or Infinity', NaN, 0, -1, '4096', null, true, {}),
    ...badly('scheduler', 'an rxjs scheduler', NaN, 0, 'async', null, {}, { now: () => 0 }),
    ...unknown('throttle', known, 50),
  ],
};
