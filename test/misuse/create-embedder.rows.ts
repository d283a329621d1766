import { of } from 'rxjs';
import { createEmbedder } from '../../src/pipelines/create-embedder.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, unknown, wrong } from '../support/misuse.js';
import { embedderRows, TEXT_RULES } from './embedder-rules.js';

const KNOWN = `call, model, ${TEXT_RULES}`;
const call = (texts: readonly string[]) => of(texts.map(() => [1]));
const ADDRESS = 'Use `call: embeddings({ baseUrl, model, … })`.';

const create = (options: unknown): unknown => {
  if (typeof options !== 'object' || options === null) return createEmbedder(options as never);
  return createEmbedder({ call, ...options });
};

export const rows: MisuseTable = {
  operator: 'createEmbedder',
  create,
  calls: {
    'EmbedClient.call.embed': (value) => createEmbedder({ call: { embed: value } }),
    'EmbedClient.call.model': (value) => createEmbedder({ call: { embed: call, model: value } }),
    'EmbedClient.call.classify': (value) => createEmbedder({ call: { embed: call, classify: value } }),
    'EmbedClient.call.estimateTokens': (value) => createEmbedder({ call: { embed: call, estimateTokens: value } }),
    'EmbedClient.call.provider': (value) => createEmbedder({ call: { embed: call, provider: value } }),
    'drain.drain options': (value) => createEmbedder({ call }).drain(value),
    'DrainOptions.timeoutMs': (value) => createEmbedder({ call }).drain({ timeoutMs: value }),
    'shutdownOn.signal': (value) => createEmbedder({ call }).shutdownOn(value),
  },
  rows: [
    ...badly('call', 'a function, or a client such as `embeddings({ … })`', null, 'fetch', 5),
    ...badly('EmbedClient.call.embed', 'a function', undefined, null, 'fetch', {}),
    ...badly('EmbedClient.call.model', 'a non-empty string', null, '', 5),
    ...badly('EmbedClient.call.classify', 'a function', null, 'status'),
    ...badly('EmbedClient.call.estimateTokens', 'a function', null, 4),
    ...badly('EmbedClient.call.provider', 'an object', null, 'openai'),
    ...badly('model', 'a non-empty string', null, '', 5, {}),
    ...['baseUrl', 'apiKey', 'headers', 'fetch', 'dimensions'].flatMap((option) =>
      wrong(option, 'unknown option `{option}`', ADDRESS, 'http://127.0.0.1/v1'),
    ),
    ...wrong('budget', 'unknown option `{option}`', 'Use `limiter: createAccount({ budget })`.', {}),
    ...embedderRows,
    ...badly('maxQueued', 'a whole number >= 1 or Infinity', 0, -1, 1.5, NaN, '4', null),
    ...badly('lanes', 'a list of at least one lane or name', [], {}, 'user', null),
    ...badly('timeoutMs', 'a number > 0 or Infinity', 0, -1, NaN, '5', null),
    ...badly('limiter', 'a limiter made by createLimiter or createAccount', null, 5, 'shared', {}),
    ...badly('scheduler', 'an rxjs scheduler', null, 5, {}),
    ...badly('onEvent', 'a function', console, 'log', null),
    ...unknown('priority', KNOWN, 2),
    ...wrong('batchSize', 'unknown option `{option}`', 'Use `maxSize`.', 2),
    ...badly('drain.drain options', 'an object', null, 5, 'now'),
    ...badly('DrainOptions.timeoutMs', 'a number of milliseconds >= 0 or Infinity', -1, NaN, '5', null),
    ...badly('shutdownOn.signal', 'an AbortSignal', undefined, NaN, 'text', null, {}),
  ],
};
