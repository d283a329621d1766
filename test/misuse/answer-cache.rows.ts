import { answerCache } from '../../src/pipelines/create-model-caller.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, unknown } from '../support/misuse.js';

export const rows: MisuseTable = {
  operator: 'answerCache',
  create: (options) =>
    answerCache(typeof options === 'object' && (options as unknown) !== null ? { key: String, ...(options as object) } : options),
  rows: [
    ...unknown('maxEntries', 'key, ttlMs, timeoutMs, storage', 5),
    ...badly('key', 'a function', null, 'key'),
    ...badly('ttlMs', 'a number > 0 or Infinity', 0, -1, NaN, '5', null),
    ...badly('timeoutMs', 'a number > 0 or Infinity', 0, -1, NaN, '5', null),
    ...badly('storage', 'an object with `get`, `set` and `delete`', null, 5, {}, { get: String, set: String }),
  ],
};
