import OpenAI from 'openai';
import { limitOpenAI } from '../../src/adapters/openai.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';

const client = new OpenAI({ apiKey: 'none' });

/** What the options have in common with those of `createFetch` is checked there, and under its name. */
export const rows: MisuseTable = {
  operator: 'limitOpenAI',
  create: (options) => limitOpenAI(client, options),
  calls: { client: (value) => limitOpenAI(value) },
  optionless: true,
  rows: [
    ...badly('client', 'a client of `openai`', undefined, null, 5, 'openai', {}, OpenAI),
    ...badly('client', 'one that is not behind a limiter already', limitOpenAI(client)),
    ...badly('fetch', 'a function', null, 5, {}, 'https://host'),
  ],
};
