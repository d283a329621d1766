import { FakeEmbeddings } from '@langchain/core/utils/testing';
import type { Settled } from 'sluice';
import {
  FLOW_EMBEDDINGS_DEFAULTS,
  FlowEmbeddings,
  type FlowEmbeddingsOptions,
  type FlowEmbeddingsSnapshot,
  type InnerOptions,
} from 'sluice/langchain';

const inner: InnerOptions = { embeddings: () => new FakeEmbeddings(), fetch: globalThis.fetch };
const options: FlowEmbeddingsOptions = { ...inner, maxTokens: FLOW_EMBEDDINGS_DEFAULTS.maxTokens, queries: 'together' };
const embeddings = new FlowEmbeddings(options);
same<FlowEmbeddingsSnapshot>()(embeddings.snapshot());
export const settled: Promise<Settled<string, number[]>[]> = embeddings.embedSettled(['a'], { lane: 'P0' });
