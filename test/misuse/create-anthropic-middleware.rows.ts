import { createAnthropicMiddleware } from '../../src/adapters/anthropic.js';
import type { MisuseTable } from '../support/misuse.js';
import { unknown } from '../support/misuse.js';
import { CALL_RULES, connectionRuleRows, nested } from './call-rules.js';

export const rows: MisuseTable = {
  operator: 'createAnthropicMiddleware',
  create: (options) => createAnthropicMiddleware(nested(options) as never),
  rows: [...connectionRuleRows, ...unknown('priority', `${CALL_RULES}, job, provider, closeGraceMs`, 2)],
};
