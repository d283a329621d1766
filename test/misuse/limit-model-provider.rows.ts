import { OpenAIProvider } from '@openai/agents';
import { limitModelProvider } from '../../src/adapters/openai-agents.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, unknown } from '../support/misuse.js';
import { CALL_RULES, connectionRuleRows, nested } from './call-rules.js';

const provider = new OpenAIProvider({ apiKey: 'none' });

export const rows: MisuseTable = {
  operator: 'limitModelProvider',
  create: (options) => limitModelProvider(provider, nested(options) as never),
  calls: { provider: (value) => limitModelProvider(value) },
  rows: [
    ...connectionRuleRows.filter(({ option }) => !option.startsWith('provider')),
    ...badly('provider', 'a model provider of @openai/agents', undefined, null, 5, 'openai', {}, OpenAIProvider),
    ...unknown('priority', `${CALL_RULES}, job, provider, closeGraceMs`, 2),
  ],
};
