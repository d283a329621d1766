import { FakeEmbeddings } from '@langchain/core/utils/testing';
import { limitEmbeddings } from '../../src/adapters/langchain.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, unknown } from '../support/misuse.js';
import { batchRows, overflowRows } from './batch-options.js';
import { embedderRows, TEXT_RULES } from './embedder-rules.js';

const BATCHES = TEXT_RULES.split(', ').filter((option) => !embedderRows.some((row) => row.option === option));
const KNOWN = `fetch, queries, ${TEXT_RULES}`;
const EMBEDDINGS = 'LangChain embeddings, or a function that makes some';

const make = (options: object = {}) => limitEmbeddings(new FakeEmbeddings(), options);

export const rows: MisuseTable = {
  operator: 'limitEmbeddings',
  create: (options) => make(options),
  calls: {
    embeddings: (embeddings) => limitEmbeddings(embeddings),
    // Only around a `fetch`.
    fetch: (fetch) => limitEmbeddings(() => new FakeEmbeddings(), { fetch }),
    'drain.drain options': (value) => make().drain(value),
    'DrainOptions.timeoutMs': (value) => make().drain({ timeoutMs: value }),
    'shutdownOn.signal': (value) => make().shutdownOn(value),
  },
  rows: [
    ...badly('embeddings', EMBEDDINGS, undefined, null, 5, 'openai', {}, []),
    ...badly('fetch', 'a function', null, 5, {}, 'https://host'),
    ...badly('queries', "one of 'together', 'alone'", 'apart', '', 0, null, true, {}),
    ...embedderRows,
    ...badly('maxSize', 'at most 512, the `batchSize` of the embeddings', 513, Infinity),
    ...batchRows.filter(({ option }) => BATCHES.includes(option)),
    ...overflowRows,
    ...unknown('maxRetries', KNOWN, 2),
    ...badly('drain.drain options', 'an object', null, 5, 'now'),
    ...badly('DrainOptions.timeoutMs', 'a number of milliseconds >= 0 or Infinity', -1, NaN, '5', null),
    ...badly('shutdownOn.signal', 'an AbortSignal', undefined, NaN, 'text', null, {}),
  ],
};
