import { createLimiter } from '../../operators/create-limiter.js';
import { createLanguageModelMiddleware } from '../../src/adapters/ai-sdk.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';
import { CALL_RULES, callRuleRows } from './call-rules.js';
import { nested } from './gated-options.js';

const withLimiter = { besides: { limiter: createLimiter({ lanes: [{ name: 'a' }, { name: 'b' }] }) } };

export const rows: MisuseTable = {
  operator: 'createLanguageModelMiddleware',
  create: (options) => createLanguageModelMiddleware(nested(options) as never),
  rows: [
    ...callRuleRows,
    ...badly('lane', 'a non-empty string', NaN, 0, '', null, {}).map((row) => ({ ...row, ...withLimiter })),
    ...badly('lane', 'a lane the limiter has (a,b)', 'other').map((row) => ({ ...row, ...withLimiter })),
    ...badly('lane', 'absent without a `limiter`', 'a'),
    ...badly('cost', 'a function', NaN, 0, 'tokens', null, {}).map((row) => ({ ...row, ...withLimiter })),
    ...badly('cost', 'absent without a `limiter`', () => ({ tokens: 1 })),
    ...badly('maxRetries', `absent (known options: ${CALL_RULES}, lane, cost)`, 2),
  ],
};
