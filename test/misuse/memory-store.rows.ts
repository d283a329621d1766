import { memoryStore } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, misspelt, unknown } from '../support/misuse.js';

const known = 'scheduler, startsEmpty, restore';
const saved = memoryStore().save();

export const rows: MisuseTable = {
  operator: 'memoryStore',
  create: memoryStore,
  rows: [
    ...badly('scheduler', 'an rxjs scheduler', NaN, 0, -1, 1.5, Infinity, 'async', null, {}, { now: () => 0 }),
    ...badly('startsEmpty', 'true or false', NaN, 0, 1, 'yes', null, {}, []),
    ...badly(
      'restore',
      'the result of `save()`',
      NaN,
      0,
      -1,
      1.5,
      Infinity,
      'text',
      '4',
      null,
      true,
      {},
      [],
      () => undefined,
      { ...saved, at: NaN },
      { ...saved, at: '1' },
      { ...saved, lostAt: null },
      { ...saved, scopes: {} },
      { ...saved, scopes: ['account'] },
      { ...saved, scopes: [['account']] },
      { ...saved, scopes: [['account', {}]] },
      { ...saved, scopes: [[1, {}]] },
    ),
    ...unknown('name', known, 'openai'),
    ...misspelt('schedule', 'scheduler', 1),
  ],
};
