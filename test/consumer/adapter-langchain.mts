import { FakeEmbeddings } from '@langchain/core/utils/testing';
import type { Settled } from 'sluice';
import { type LimitEmbeddingsOptions, type LimitedEmbeddings, type LimitedEmbeddingsSnapshot, limitEmbeddings } from 'sluice/langchain';

const inner = () => new FakeEmbeddings();
const options: LimitEmbeddingsOptions = { fetch: globalThis.fetch, maxTokens: 1000, queries: 'together' };
const embeddings: LimitedEmbeddings = limitEmbeddings(inner, options);
same<LimitedEmbeddingsSnapshot>()(embeddings.snapshot());
export const settled: Promise<Settled<string, number[]>[]> = embeddings.embedSettled(['a'], { lane: 'user' });
