import { embeddings } from '../../src/pipelines/embeddings-api.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, unknown } from '../support/misuse.js';

const at = { baseUrl: 'http://127.0.0.1/v1', model: 'm' };

export const rows: MisuseTable = {
  operator: 'embeddings',
  create: (options: never) => embeddings(Object(options) === options ? { ...at, ...(options as object) } : options),
  rows: [
    ...badly('baseUrl', 'an http(s) URL such as `https://host/v1`', 5, null, '', 'localhost:11434', 'ftp://host'),
    ...badly('model', 'a non-empty string', undefined, null, '', 5),
    ...badly('apiKey', 'a string', 5, null, {}),
    ...badly('headers', 'an object', null, 'x'),
    ...badly('fetch', 'a function', null, {}),
    ...badly('dimensions', 'a whole number >= 1 or Infinity', 0, 1.5, NaN, null, '10'),
    ...unknown('timeout', 'baseUrl, model, apiKey, headers, fetch, dimensions', 2),
  ],
};
