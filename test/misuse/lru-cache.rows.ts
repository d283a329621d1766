import { lruCache } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, unknown } from '../support/misuse.js';

export const rows: MisuseTable = {
  operator: 'lruCache',
  create: (options: never) => lruCache(1, options),
  calls: { maxEntries: (maxEntries) => lruCache(maxEntries) },
  rows: [
    ...badly('maxEntries', 'a whole number >= 1 or Infinity', NaN, 0, -1, 1.5, -Infinity, 2 ** 60, '100', null, true, {}, undefined),
    ...badly('ttlMs', 'a number > 0 or Infinity', NaN, 0, -1, -Infinity, '1000', null, true, {}),
    ...unknown('get', 'ttlMs', () => undefined),
  ],
};
