import { limitFetch } from '../../src/adapters/fetch.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, unknown } from '../support/misuse.js';
import { CALL_RULES, connectionRuleRows, nested } from './call-rules.js';

export const rows: MisuseTable = {
  operator: 'limitFetch',
  create: (options) => limitFetch(nested(options) as never),
  rows: [
    ...connectionRuleRows,
    ...badly('fetch', 'a function', null, 5, {}, 'https://host'),
    ...unknown('priority', `${CALL_RULES}, job, provider, closeGraceMs, fetch`, 2),
  ],
};
