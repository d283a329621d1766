import { redisStore } from '../../src/shared/redis-store.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, misspelt, unknown } from '../support/misuse.js';

const known = 'concurrency, name';

/** It is never called. */
const connection = { eval: () => Promise.resolve(null), evalsha: () => Promise.resolve(null) };

export const rows: MisuseTable = {
  operator: 'redisStore',
  create: (options) => redisStore(connection, options),
  rows: [
    ...badly('name', 'a non-empty string', undefined, '', NaN, 0, null, true, {}, [], () => undefined),
    ...badly('concurrency', 'a whole number >= 1 or Infinity', 0, -1, 1.5, NaN, '4', null).map((row) => ({
      ...row,
      besides: { name: 'any' },
    })),
    ...unknown('scope', known, 'account'),
    ...unknown('url', known, 'redis://127.0.0.1'),
    ...misspelt('names', 'name', 'openai:prod'),
  ],
};
