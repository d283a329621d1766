import { createLimiter, lanes, rateLimit } from '../../operators/index.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, misspelt, notLimiter, unknown } from '../support/misuse.js';

const known = 'lane, maxQueued, overflow, onDrop, onSourceError, onEvent';
const limiter = createLimiter({ queue: lanes([{ name: 'p0' }, { name: 'p1' }]) });

export const rows: MisuseTable = {
  operator: 'rateLimit',
  create: (options) => rateLimit(limiter, {}, options),
  calls: {
    limiter: (value) => rateLimit(value),
    cost: (value) => rateLimit(limiter, value),
    slots: (value) => rateLimit(limiter, { slots: value }),
    requests: (value) => rateLimit(limiter, { requests: value }),
    tokens: (value) => rateLimit(limiter, { tokens: value }),
    inputTokens: (value) => rateLimit(limiter, { inputTokens: value }),
    outputTokens: (value) => rateLimit(limiter, { outputTokens: value }),
    token: (value) => rateLimit(limiter, { token: value }),
  },
  rows: [
    ...notLimiter(undefined, [], () => limiter),
    ...badly('cost', 'an object', NaN, 0, -1, 1.5, Infinity, 'text', null, true),
    ...badly('slots', 'a finite number >= 0', NaN, -1, Infinity, '1', null, {}, true),
    ...badly('requests', 'a finite number >= 0', NaN, -1, Infinity, '1', null, {}, true),
    ...badly('tokens', 'a finite number >= 0', NaN, -1, Infinity, '1', null, {}, true),
    ...badly('inputTokens', 'a finite number >= 0', NaN, -1, Infinity, '1', null, {}, true),
    ...badly('outputTokens', 'a finite number >= 0', NaN, -1, Infinity, '1', null, {}, true),
    ...misspelt('token', 'tokens', 5),
    ...badly('lane', 'a non-empty string', '', 5, null, {}),
    ...badly('lane', 'a lane of the limiter (p0, p1)', 'p2'),
    ...badly('maxQueued', 'a whole number >= 0 or Infinity', -1, 0.5, NaN, -Infinity, '5', null),
    ...badly('overflow', "one of 'error', 'dropOldest', 'dropNewest', 'latest'", 'dropLowest', 'block', 5, null),
    ...badly('onDrop', 'a function', console, 'log', null),
    ...badly('onSourceError', "one of 'flush', 'abort'", 'drain', true, null),
    ...badly('onEvent', 'a function', console, 'log', null),
    ...unknown('scheduler', known, 5),
  ],
};
