import Anthropic from '@anthropic-ai/sdk';
import { limitAnthropic } from '../../src/adapters/anthropic.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, unknown, wrong } from '../support/misuse.js';
import { CALL_RULES, connectionRuleRows, nested } from './call-rules.js';

const client = new Anthropic({ apiKey: 'none' });

export const rows: MisuseTable = {
  operator: 'limitAnthropic',
  create: (options) => limitAnthropic(client, nested(options) as never),
  calls: { client: (value) => limitAnthropic(value) },
  rows: [
    ...connectionRuleRows,
    ...badly('client', 'a client of @anthropic-ai/sdk', undefined, null, 5, 'anthropic', {}, Anthropic),
    ...wrong('client', '`{option}` has a limiter already', 'Pass the original client.', limitAnthropic(client)),
    ...unknown('fetch', `${CALL_RULES}, job, provider, closeGraceMs`, fetch),
  ],
};
