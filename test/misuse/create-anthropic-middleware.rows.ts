import { createLimiter } from '../../operators/create-limiter.js';
import { createAnthropicMiddleware } from '../../src/adapters/anthropic.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';
import { CALL_RULES, callRuleRows } from './call-rules.js';
import { nested } from './gated-options.js';

const withLimiter = { besides: { limiter: createLimiter({ lanes: [{ name: 'P0' }, { name: 'P1' }] }) } };

export const rows: MisuseTable = {
  operator: 'createAnthropicMiddleware',
  create: (options) => createAnthropicMiddleware(nested(options) as never),
  rows: [
    ...callRuleRows,
    ...badly('lane', 'a non-empty string', '', 5, null, {}).map((row) => ({ ...row, ...withLimiter })),
    ...badly('lane', 'a lane the limiter has (P0,P1)', 'P7').map((row) => ({ ...row, ...withLimiter })),
    ...badly('cost', 'a function', 5, null, { tokens: 5 }).map((row) => ({ ...row, ...withLimiter })),
    ...badly('lane', 'absent without a `limiter`', 'P0'),
    ...badly('cost', 'absent without a `limiter`', () => ({ tokens: 1 })),
    ...badly('maxRetries', `absent (known options: ${CALL_RULES}, lane, cost)`, 2),
  ],
};
