import { memoryStore } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, unknown } from '../support/misuse.js';

export const rows: MisuseTable = {
  operator: 'memoryStore',
  create: (options) => memoryStore(options),
  rows: [...badly('scheduler', 'an rxjs scheduler', NaN, 0, 'async', null, {}, { now: () => 0 }), ...unknown('name', 'scheduler', 'nightly')],
};
