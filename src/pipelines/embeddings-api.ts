import type { CallContext } from '../../operators/support/types.js';
import type { Endpoint } from './endpoint.js';
import { post } from './endpoint.js';
import { ProviderError } from './provider-error.js';

export interface EmbeddingsEndpoint extends Endpoint {
  readonly dimensions: number | undefined;
  /** Whether a request that is refused as invalid costs no tokens. */
  readonly refusalsAreFree: boolean;
}

/** What a provider answers to a request it does not work on. */
const REFUSALS: readonly (number | undefined)[] = [400, 413, 422];

/** One POST to an OpenAI-compatible `/embeddings`: vectors in the order of the texts. */
export async function requestEmbeddings(
  endpoint: EmbeddingsEndpoint,
  texts: readonly string[],
  context: CallContext,
): Promise<Float32Array[]> {
  const { model, dimensions } = endpoint;
  const body = { model, input: texts, encoding_format: 'base64', ...(dimensions !== undefined && { dimensions }) };
  const response = await post(endpoint, body, context).catch((error: unknown) => {
    const isFree = endpoint.refusalsAreFree && error instanceof ProviderError && REFUSALS.includes(error.status);
    if (isFree) context.reconcile({ inputTokens: 0 });
    throw error;
  });
  const { data, usage } = (await response.json()) as { data?: unknown; usage?: { total_tokens?: unknown; prompt_tokens?: unknown } };
  const tokens = usage?.total_tokens ?? usage?.prompt_tokens;
  if (typeof tokens === 'number') context.reconcile({ inputTokens: tokens });
  return inOrder(data);
}

/** The vectors by their `index`; a list that cannot be put in order is handed on as it is wrong, for the batch to fail on its length. */
function inOrder(data: unknown): Float32Array[] {
  const entries = Array.isArray(data) ? (data as { index?: unknown; embedding?: unknown }[]) : [];
  const vectors = new Map<number, Float32Array>();
  for (const { index, embedding } of entries) {
    const vector = toVector(embedding);
    if (typeof index === 'number' && vector) vectors.set(index, vector);
  }
  const ordered: Float32Array[] = [];
  for (let i = 0; i < entries.length; i++) {
    const vector = vectors.get(i);
    if (vector === undefined) return [];
    ordered.push(vector);
  }
  return ordered;
}

function toVector(embedding: unknown): Float32Array | undefined {
  if (Array.isArray(embedding)) return Float32Array.from(embedding as number[]);
  if (typeof embedding !== 'string') return undefined;
  const binary = atob(embedding);
  if (binary.length % 4 !== 0) return undefined;
  const view = new DataView(new ArrayBuffer(binary.length));
  for (let i = 0; i < binary.length; i++) view.setUint8(i, binary.charCodeAt(i));
  // The wire is little endian, whatever this machine is.
  return Float32Array.from({ length: binary.length / 4 }, (_, i) => view.getFloat32(4 * i, true));
}
