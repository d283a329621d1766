import { createLimiter, lanes } from '../../operators/index.js';
import { createToolMiddleware } from '../../src/adapters/langchain-agents.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, unknown, wrong } from '../support/misuse.js';
import { jobRows, nested } from './call-rules.js';

const COUNT = 'a whole number >= 1 or Infinity';
const POSITIVE = 'a number > 0 or Infinity';
const limiter = createLimiter({ queue: lanes([{ name: 'user' }, { name: 'normal' }]) });
const withLimiter = { besides: { limiter } };

export const rows: MisuseTable = {
  operator: 'createToolMiddleware',
  create: (options) => createToolMiddleware(nested(options) as never),
  rows: [
    ...badly('limiter', 'a limiter made by createLimiter or createAccount', {}, 4, null, 'shared'),
    ...badly('concurrency', COUNT, 0, -1, 1.5, NaN, '4', null, {}),
    ...wrong('concurrency', '`{option}` cannot be combined with `limiter`', 'Set it on the limiter.', 4).map((row) => ({
      ...row,
      ...withLimiter,
    })),
    ...badly('toolConcurrency', COUNT, 0, -1, 1.5, NaN, '4', null),
    ...badly('toolConcurrency.search', COUNT, 0, -1, 1.5, NaN, '4', null, undefined, {}),
    ...badly('timeoutMs', POSITIVE, 0, -1, NaN, '4', null),
    ...badly('timeoutMs.search', POSITIVE, 0, -1, NaN, '4', null, undefined, {}),
    ...jobRows,
    ...badly('errors', "one of 'tell', 'throw'", 'settle', '', 0, null, true, {}),
    ...badly('onEvent', 'a function', console, 'log', null),
    ...badly('scheduler', 'an rxjs scheduler', 5, null, {}, { now: () => 0 }),
    ...unknown('retry', 'limiter, onEvent, scheduler, concurrency, toolConcurrency, job, timeoutMs, errors', {}),
  ],
};
