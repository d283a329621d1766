import { limitSpeechModel } from '../../src/adapters/ai-sdk.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, unknown } from '../support/misuse.js';
import { CALL_RULES, connectionRuleRows, nested } from './call-rules.js';

const model = { doGenerate: () => Promise.reject(new Error('never')) };

export const rows: MisuseTable = {
  operator: 'limitSpeechModel',
  create: (options) => limitSpeechModel(model as never, nested(options) as never),
  calls: { model: (value) => limitSpeechModel(value) },
  rows: [
    ...connectionRuleRows,
    ...badly('model', 'a model of a provider with `doGenerate`', undefined, null, 5, 'm', {}),
    ...unknown('priority', `${CALL_RULES}, job, provider, closeGraceMs`, 2),
  ],
};
