import { limitImageModel } from '../../src/adapters/ai-sdk.js';
import type { MisuseTable } from '../support/misuse.js';
import { unknown } from '../support/misuse.js';
import { CALL_RULES, connectionRuleRows, nested } from './call-rules.js';

export const rows: MisuseTable = {
  operator: 'limitImageModel',
  create: (options) => limitImageModel({ doGenerate: () => undefined } as never, nested(options) as never),
  rows: [...connectionRuleRows, ...unknown('priority', `${CALL_RULES}, job, provider, closeGraceMs`, 2)],
};
