import { localStore } from '../../src/shared/local-store.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, misspelt, unknown } from '../support/misuse.js';

const known = 'concurrency, name, folder';

export const rows: MisuseTable = {
  operator: 'localStore',
  create: localStore,
  rows: [
    ...badly('name', 'a non-empty string', undefined, '', NaN, 0, null, true, {}, [], () => undefined),
    ...badly('folder', 'a non-empty string', '', NaN, 0, null, true, {}, [], () => undefined).map((row) => ({
      ...row,
      besides: { name: 'any' },
    })),
    ...badly('concurrency', 'a whole number >= 1 or Infinity', 0, -1, 1.5, NaN, '4', null).map((row) => ({
      ...row,
      besides: { name: 'any' },
    })),
    ...unknown('scope', known, 'account'),
    ...unknown('port', known, 6379),
    ...misspelt('folders', 'folder', ['/tmp']),
  ],
};
