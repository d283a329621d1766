import { chatCompletions } from '../../src/pipelines/create-model-caller.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, misspelt } from '../support/misuse.js';

const baseUrl = 'http://127.0.0.1/v1';

export const rows: MisuseTable = {
  operator: 'chatCompletions',
  create: (options) =>
    chatCompletions(
      typeof options === 'object' && (options as unknown) !== null ? { baseUrl, model: 'm', ...(options as object) } : options,
    ),
  rows: [
    ...badly('baseUrl', 'an http(s) URL such as `https://host/v1`', 5, null, '', 'localhost:11434', 'ftp://host'),
    ...badly('model', 'a non-empty string', undefined, '', 5, null, {}),
    ...badly('apiKey', 'a string', 5, null, {}),
    ...badly('headers', 'an object', null, 'x'),
    ...badly('fetch', 'a function', null, {}),
    ...misspelt('baseURL', 'baseUrl', baseUrl),
  ],
};
