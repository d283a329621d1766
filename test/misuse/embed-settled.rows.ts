import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { embedSettled } from '../../src/adapters/ai-sdk.js';
import type { MisuseTable } from '../support/misuse.js';
import { badly, misspelt, unknown } from '../support/misuse.js';
import { nested } from './call-rules.js';
import { EMBEDDING_RULES, embeddingRows } from './embedding-rules.js';

const OWN = 'model, values, signal, dimensions, headers, providerOptions';
const model = createOpenAICompatible({ name: 'local', baseURL: 'http://127.0.0.1:9/v1' }).embeddingModel('m');

export const rows: MisuseTable = {
  operator: 'embedSettled',
  create: (options: unknown) =>
    embedSettled((Object(options) === options ? { model, values: [], ...Object(nested(options)) } : options) as never),
  rows: [
    ...embeddingRows,
    ...badly('model', 'an embedding model of a provider', undefined, null, 'text-embedding-3-small', 5, {}, () => model),
    // A text is not quoted: test/adapters/what-is-no-text.test.ts.
    ...badly('values', 'an array of strings', undefined, null, 5, {}, new Set(['a'])),
    ...badly('signal', 'an AbortSignal', NaN, 0, 'text', null, {}, new AbortController()),
    ...unknown('priority', `${EMBEDDING_RULES}, ${OWN}`, 5),
    ...misspelt('abortSignal', 'signal', new AbortController().signal),
  ],
};
