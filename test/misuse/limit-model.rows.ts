import { OpenAIResponsesModel } from '@openai/agents';
import OpenAI from 'openai';
import { limitModel } from '../../src/adapters/openai-agents.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, unknown } from '../support/misuse.js';
import { CALL_RULES, connectionRuleRows, nested } from './call-rules.js';

const model = new OpenAIResponsesModel(new OpenAI({ apiKey: 'none' }), 'm');

export const rows: MisuseTable = {
  operator: 'limitModel',
  create: (options) => limitModel(model, nested(options) as never),
  calls: { model: (value) => limitModel(value) },
  rows: [
    ...connectionRuleRows,
    ...badly('model', 'a model of @openai/agents', undefined, null, 5, 'gpt-4.1', {}, OpenAIResponsesModel),
    ...unknown('priority', `${CALL_RULES}, job, provider, closeGraceMs`, 2),
  ],
};
