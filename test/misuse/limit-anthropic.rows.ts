import Anthropic from '@anthropic-ai/sdk';
import { limitAnthropic } from '../../src/adapters/anthropic.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';
import { CALL_RULES, connectionRuleRows, nested } from './call-rules.js';

const client = new Anthropic({ apiKey: 'none' });

export const rows: MisuseTable = {
  operator: 'limitAnthropic',
  create: (options) => limitAnthropic(client, nested(options) as never),
  calls: { client: (value) => limitAnthropic(value) },
  rows: [
    ...connectionRuleRows,
    ...badly('client', 'a client of @anthropic-ai/sdk', undefined, null, 5, 'anthropic', {}, Anthropic),
    ...badly('client', 'one that is not behind a limiter already', limitAnthropic(client)),
    ...badly('fetch', `absent (known options: ${CALL_RULES}, job, provider, closeGraceMs)`, fetch),
  ],
};
