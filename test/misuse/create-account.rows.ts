import { createAccount } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';

export const rows: MisuseTable = {
  operator: 'createAccount',
  create: (options) => createAccount(options),
  rows: [
    ...['requestsPerMinute', 'tokensPerMinute', 'inputTokensPerMinute', 'outputTokensPerMinute', 'requestsPerDay', 'tokensPerDay'].flatMap(
      (rate) => badly(rate, 'a number > 0 or Infinity (`pause()` or `setLimits` lets nothing pass)', 0, -1, NaN, '60', null),
    ),
    ...badly('dayStartsAt', 'an object', 5, 'UTC', null),
    ...badly('models', 'a list of limits of models', 5, {}, 'large', null),
    ...badly('burst', 'a finite number > 0', 0, -1, NaN, Infinity, '2', null),
    ...badly('burstSeconds', 'a number from 0.001 to 86400', 0, -1, NaN, Infinity, '2', null),
    ...badly('lanes', 'a list of names or lanes, not empty', 'P0', 5, null, {}),
  ],
};
