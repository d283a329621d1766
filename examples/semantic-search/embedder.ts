import type { Classify, FlowSink } from '../../operators/index.js';
import { classifyError } from '../../operators/index.js';
import type { Embedder } from '../../src/index.js';
import { createAccount, createEmbedder, embeddings, isFlowError, robust } from '../../src/index.js';

/** What the provider allows. */
export interface ProviderOptions {
  /** Up to and with its version: `https://api.openai.com/v1`. */
  readonly baseUrl: string;
  readonly model: string;
  readonly maxBatch: number;
  readonly concurrency: number;
  readonly requestsPerMinute: number;
  readonly tokensPerMinute: number;
}

/** The lanes of the embedder that are used here: a question goes before all passages that wait. */
export const QUESTIONS = 'user';
export const PASSAGES = 'background';

/** Sluice retries calls that fail, and finds the one text that fails its batch. The key comes from `OPENAI_API_KEY`. */
export function openEmbedder({ baseUrl, model, maxBatch, ...limits }: ProviderOptions, onEvent: FlowSink = () => undefined): Embedder {
  const apiKey = process.env['OPENAI_API_KEY'];
  return createEmbedder({
    call: embeddings({ baseUrl, model, ...(apiKey !== undefined && { apiKey }) }),
    limiter: createAccount(limits),
    maxSize: maxBatch,
    // A long run outlives a provider that is overloaded for half a minute.
    repair: robust({ retry: { maxAttempts: 8 } }),
    classify,
    onEvent,
  });
}

/** Whether all other texts would fail for the same reason: a refused key, an unknown model, no server. */
export function endsRun(error: unknown): boolean {
  return !isFlowError(error) && classify(error, { size: 1, attempt: 1, aborted: false }).class === 'fatal';
}

const NO_SERVER = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN']);

/** A server that is not there is no reason to wait: it has to be started first. */
const classify: Classify = (error, context) => {
  const { code } = ((error as Error | undefined)?.cause ?? {}) as { code?: string };
  return code !== undefined && NO_SERVER.has(code) ? { class: 'fatal' } : classifyError(error, context);
};

/** What an error says, with what lies behind it. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? `${error.message}: ${error.cause.message || String(error.cause)}` : error.message;
}
