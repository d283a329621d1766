import Anthropic from '@anthropic-ai/sdk';
import { anthropicChat, limitAnthropic } from '../../src/adapters/anthropic.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, wrong } from '../support/misuse.js';

const client = new Anthropic({ apiKey: 'none' });

export const rows: MisuseTable = {
  operator: 'anthropicChat',
  create: anthropicChat,
  calls: { client: (value) => anthropicChat(value) },
  optionless: true,
  rows: [
    ...badly('client', 'a client of @anthropic-ai/sdk', undefined, null, 5, 'anthropic', {}, Anthropic),
    ...wrong('client', '`{option}` has a limiter already', 'Pass the original client.', limitAnthropic(client)),
  ],
};
