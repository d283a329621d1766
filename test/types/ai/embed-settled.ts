// Compiled with each major of the AI SDK that is supported, as it stands: no cast.
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { embedMany } from 'ai';
import type { Settled } from '../../../operators/index.js';
import { embedSettled } from '../../../src/adapters/ai-sdk.js';

const model = createOpenAICompatible({ name: 'p', baseURL: 'https://host/v1' }).embeddingModel('m');

export const settled: Settled<string, number[]>[] = await embedSettled({ model, values: ['a'] });
export const more = await embedSettled({ model, values: ['a'], headers: { a: 'b' }, retry: false, signal: AbortSignal.timeout(1000) });
export const { embeddings } = await embedMany({ model, values: ['a'] });
