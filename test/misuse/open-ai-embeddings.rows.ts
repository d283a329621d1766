import OpenAI from 'openai';
import { limitOpenAI, openAIEmbeddings } from '../../src/adapters/openai.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, unknown, wrong } from '../support/misuse.js';

const client = new OpenAI({ apiKey: 'none' });

export const rows: MisuseTable = {
  operator: 'openAIEmbeddings',
  create: (options: unknown) =>
    openAIEmbeddings(client, (typeof options === 'object' && options !== null ? { model: 'm', ...options } : options) as never),
  calls: { client: (value) => openAIEmbeddings(value, { model: 'm' }) },
  rows: [
    ...badly('client', 'a client of `openai`', undefined, null, 5, 'openai', {}, OpenAI),
    ...wrong('client', '`{option}` has a limiter already', 'Pass the original client.', limitOpenAI(client)),
    ...badly('model', 'a non-empty string', undefined, null, '', 5, {}),
    ...badly('dimensions', 'a whole number >= 1 or Infinity', null, 0, -1, 1.5, NaN, '3'),
    ...badly('user', 'a non-empty string', null, '', 5),
    ...unknown('input', 'model, dimensions, user', ['a']),
  ],
};
