import { createAccount } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';

export const rows: MisuseTable = {
  operator: 'createAccount',
  create: (options) => createAccount(options),
  rows: [
    ...badly('requestsPerMinute', 'a number >= 0 or Infinity', -1, NaN, '60', null),
    ...badly('tokensPerMinute', 'a number >= 0 or Infinity', -1, NaN, '60', null),
    ...badly('inputTokensPerMinute', 'a number >= 0 or Infinity', -1, NaN, '60', null),
    ...badly('outputTokensPerMinute', 'a number >= 0 or Infinity', -1, NaN, '60', null),
    ...badly('requestsPerDay', 'a number >= 0 or Infinity', -1, NaN, '60', null),
    ...badly('tokensPerDay', 'a number >= 0 or Infinity', -1, NaN, '60', null),
    ...badly('dayStartsAt', 'an object', 5, 'UTC', null),
    ...badly('models', 'a list of limits of models', 5, {}, 'large', null),
    ...badly('burst', 'a finite number > 0', 0, -1, NaN, Infinity, '2', null),
    ...badly('burstSeconds', 'a number from 0.001 to 86400', 0, -1, NaN, Infinity, '2', null),
    ...badly('lanes', 'a list of names or lanes, not empty', 'P0', 5, null, {}),
  ],
};
