import OpenAI from 'openai';
import { limitOpenAI } from '../../src/adapters/openai.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, wrong } from '../support/misuse.js';
import { connectionRuleRows, nested } from './call-rules.js';

const client = new OpenAI({ apiKey: 'none' });

export const rows: MisuseTable = {
  operator: 'limitOpenAI',
  create: (options) => limitOpenAI(client, nested(options) as never),
  calls: { client: (value) => limitOpenAI(value) },
  rows: [
    ...connectionRuleRows,
    ...badly('client', 'a client of `openai`', undefined, null, 5, 'openai', {}, OpenAI),
    ...wrong('client', '`{option}` has a limiter already', 'Pass the original client.', limitOpenAI(client)),
    ...badly('fetch', 'a function', null, 5, {}, 'https://host'),
  ],
};
