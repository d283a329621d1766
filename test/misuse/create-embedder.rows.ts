import { of } from 'rxjs';
import { createLimiter } from '../../operators/create-limiter.js';
import { createEmbedder } from '../../src/pipelines/create-embedder.js';
import type { MisuseRow, MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';

const rules =
  'maxSize, limiter, window, maxQueued, overflow, lanes, classify, retry, split, attemptTimeoutMs, itemDeadlineMs, onEvent, scheduler, random, maxTokens, maxTokensPerText, countTokens, concurrency, requestsPerMinute, tokensPerMinute, burstSeconds, refusalsAreFree';
const call = (texts: readonly string[]) => of(texts.map(() => [1]));
const baseUrl = 'http://127.0.0.1/v1';

/** Over a client of its own, unless it is about an endpoint. */
const create = (options: unknown): unknown => {
  if (typeof options !== 'object' || options === null) return createEmbedder(options as never);
  return createEmbedder({ ...('baseUrl' in options ? { model: 'm' } : { call }), ...options } as never);
};

/** The same over an endpoint. */
const overHttp = (...rows: readonly MisuseRow[]): MisuseRow[] => rows.map((row) => ({ ...row, besides: { baseUrl } }));
/** The same beside a shared limiter. */
const shared = (...rows: readonly MisuseRow[]): MisuseRow[] => rows.map((row) => ({ ...row, besides: { limiter: createLimiter() } }));

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
    ...overHttp(
      ...badly('model', 'a non-empty string', undefined, null, '', 5),
      ...badly('apiKey', 'a string', 5, null, {}),
      ...badly('headers', 'an object', null, 'x'),
    ),
    ...overHttp(
      ...badly('fetch', 'a function', null, {}),
      ...badly('dimensions', 'a whole number >= 1 or Infinity', 0, 1.5, NaN, null, '10'),
    ),
    ...badly('maxSize', 'a whole number >= 1 or Infinity', 0, -1, 1.5, NaN, '4', null),
    ...badly('maxQueued', 'a whole number >= 1 or Infinity', 0, -1, 1.5, NaN, '4', null),
    ...badly('maxTokens', 'a number > 0 or Infinity', 0, -1, NaN, '4', null),
    ...badly('maxTokensPerText', 'a number > 0 or Infinity', 0, -1, NaN, '4', null),
    ...badly('countTokens', 'a function', 5, null, {}),
    ...badly('concurrency', 'a whole number >= 1 or Infinity', 0, -1, 1.5, NaN, '4', null),
    ...shared(
      ...badly('concurrency', 'absent when a `limiter` is given', 4),
      ...badly('requestsPerMinute', 'absent when a `limiter` is given', 4),
    ),
    ...shared(
      ...badly('tokensPerMinute', 'absent when a `limiter` is given', 4),
      ...badly('burstSeconds', 'absent when a `limiter` is given', 4),
    ),
    ...badly('refusalsAreFree', 'true or false', 0, null, 'yes'),
    ...badly('lanes', 'a list of at least one lane', [], {}, 'P0', null),
    ...badly('attemptTimeoutMs', 'a number > 0 or Infinity', 0, -1, NaN, '5', null),
    ...badly('onEvent', 'a function', console, 'log', null),
    ...badly('batchSize', `absent (known options: ${rules}, baseUrl, model, apiKey, headers, fetch, dimensions, call)`, 2),
    ...badly('drain.drain options', 'an object', null, 5, 'now'),
    ...badly('DrainOptions.timeoutMs', 'a number of milliseconds >= 0 or Infinity', -1, NaN, '5', null),
    ...badly('shutdownOn.signal', 'an AbortSignal', undefined, NaN, 'text', null, {}),
  ],
};
