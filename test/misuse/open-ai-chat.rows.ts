import OpenAI from 'openai';
import { limitOpenAI, openAIChat } from '../../src/adapters/openai.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, wrong } from '../support/misuse.js';

const client = new OpenAI({ apiKey: 'none' });

export const rows: MisuseTable = {
  operator: 'openAIChat',
  create: (defaults) => openAIChat(client, defaults),
  calls: { client: (value) => openAIChat(value), defaults: (value) => openAIChat(client, value) },
  optionless: true,
  rows: [
    ...badly('client', 'a client of `openai`', undefined, null, 5, 'openai', {}, OpenAI),
    ...wrong('client', '`{option}` has a limiter already', 'Pass the original client.', limitOpenAI(client)),
    ...badly('defaults', 'an object', null, 5, 'small'),
  ],
};
