import { of } from 'rxjs';
import { createEmbedder } from '../../src/pipelines/create-embedder.js';
import type { MisuseRow, MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';
import { BATCH_RULES, embedderRows, TEXT_RULES } from './embedder-rules.js';

const KNOWN = `maxSize, ${BATCH_RULES}, ${TEXT_RULES}, budget, model, baseUrl, apiKey, headers, fetch, dimensions, call`;
const call = (texts: readonly string[]) => of(texts.map(() => [1]));
const baseUrl = 'http://127.0.0.1/v1';

/** Over a client of its own, unless it is about an endpoint. */
const create = (options: unknown): unknown => {
  if (typeof options !== 'object' || options === null) return createEmbedder(options as never);
  return createEmbedder({ ...('baseUrl' in options ? { model: 'm' } : { call }), ...options } as never);
};

/** The same over an endpoint. */
const overHttp = (...rows: readonly MisuseRow[]): MisuseRow[] => rows.map((row) => ({ ...row, besides: { baseUrl } }));
export const rows: MisuseTable = {
  operator: 'createEmbedder',
  create,
  calls: {
    'nothing.baseUrl': (value) => createEmbedder({ baseUrl: value } as never),
    'drain.drain options': (value) => createEmbedder({ call }).drain(value),
    'DrainOptions.timeoutMs': (value) => createEmbedder({ call }).drain({ timeoutMs: value }),
    'shutdownOn.signal': (value) => createEmbedder({ call }).shutdownOn(value),
  },
  rows: [
    ...badly('call', 'a function', null, 'fetch', {}, 5),
    ...badly('nothing.baseUrl', 'given, or a `call`', undefined),
    ...badly('baseUrl', 'an http(s) URL such as `https://host/v1`', 5, null, '', 'localhost:11434', 'ftp://host'),
    ...badly('model', 'a non-empty string', null, '', 5, {}),
    ...overHttp(
      ...badly('model', 'a non-empty string', undefined, null, '', 5),
      ...badly('apiKey', 'a string', 5, null, {}),
      ...badly('headers', 'an object', null, 'x'),
    ),
    ...overHttp(
      ...badly('fetch', 'a function', null, {}),
      ...badly('dimensions', 'a whole number >= 1 or Infinity', 0, 1.5, NaN, null, '10'),
    ),
    ...embedderRows,
    ...badly('budget', 'a budget made by createBudget', null, 5, {}, { usd: 5 }),
    ...badly('maxQueued', 'a whole number >= 1 or Infinity', 0, -1, 1.5, NaN, '4', null),
    ...badly('queue', 'lanes([…])', [], {}, 'user', null),
    ...badly('timeoutMs', 'a number > 0 or Infinity', 0, -1, NaN, '5', null),
    ...badly('limiter', 'a limiter made by createLimiter', null, 5, 'shared', {}),
    ...badly('scheduler', 'an rxjs scheduler', null, 5, {}),
    ...badly('onEvent', 'a function', console, 'log', null),
    ...badly('batchSize', `absent (known options: ${KNOWN})`, 2),
    ...badly('drain.drain options', 'an object', null, 5, 'now'),
    ...badly('DrainOptions.timeoutMs', 'a number of milliseconds >= 0 or Infinity', -1, NaN, '5', null),
    ...badly('shutdownOn.signal', 'an AbortSignal', undefined, NaN, 'text', null, {}),
  ],
};
