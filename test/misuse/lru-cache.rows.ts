import { lruCache } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';

export const rows: MisuseTable = {
  operator: 'lruCache',
  create: (options: Readonly<Record<string, unknown>> | null) =>
    lruCache((typeof options === 'object' && options !== null ? { maxEntries: 1, ...options } : options) as never),
  rows: [
    ...badly('maxEntries', 'a whole number >= 1 or Infinity', NaN, 0, -1, 1.5, -Infinity, 2 ** 60, '100', null, true, {}, undefined),
    ...badly('ttlMs', 'a number > 0 or Infinity', NaN, 0, -1, -Infinity, '1000', null, true, {}),
    ...badly('get', 'absent (known options: maxEntries, ttlMs)', () => undefined),
  ],
};
