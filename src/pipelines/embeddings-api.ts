import { BatchShapeError } from '../../operators/support/errors.js';
import type { CallContext } from '../../operators/support/types.js';
import { NAME } from './embedder-options.js';
import type { Endpoint } from './endpoint.js';
import { post } from './endpoint.js';

export interface EmbeddingsEndpoint extends Endpoint {
  readonly dimensions: number | undefined;
}

/** One POST to an OpenAI-compatible `/embeddings`: vectors in the order of the texts. */
export async function requestEmbeddings(
  endpoint: EmbeddingsEndpoint,
  texts: readonly string[],
  context: CallContext,
): Promise<Float32Array[]> {
  const { model, dimensions } = endpoint;
  const body = { model, input: texts, encoding_format: 'base64', ...(dimensions !== undefined && { dimensions }) };
  const response = await post(endpoint, body, context);
  const answer: unknown = await response.json().catch((error: unknown) => {
    // A proxy in between, most likely: sending fewer texts would not help.
    throw error instanceof SyntaxError ? new BatchShapeError(NAME, texts.length, 0, 'the answer is no JSON') : error;
  });
  return embeddingsIn(answer, context);
}

/** What the answer of an OpenAI-compatible `/embeddings` says: vectors in the order of the texts, and what they have cost. */
export function embeddingsIn(answer: unknown, context: Pick<CallContext, 'reconcile'>): Float32Array[] {
  const { data, usage } = Object(answer) as { data?: unknown; usage?: { total_tokens?: unknown; prompt_tokens?: unknown } };
  const tokens = usage?.total_tokens ?? usage?.prompt_tokens;
  if (typeof tokens === 'number') context.reconcile({ inputTokens: tokens });
  return inOrder(data);
}

/** The vectors by their `index`; a list that cannot be put in order is handed on as it is wrong, for the batch to fail on its length. */
function inOrder(data: unknown): Float32Array[] {
  const entries: unknown[] = Array.isArray(data) ? data : [];
  const vectors = new Map<number, Float32Array>();
  for (const entry of entries) {
    const { index, embedding } = Object(entry) as { index?: unknown; embedding?: unknown };
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
  const binary = decoded(embedding);
  if (binary === undefined || binary.length % 4 !== 0) return undefined;
  const view = new DataView(new ArrayBuffer(binary.length));
  for (let i = 0; i < binary.length; i++) view.setUint8(i, binary.charCodeAt(i));
  // The wire is little endian, whatever this machine is.
  return Float32Array.from({ length: binary.length / 4 }, (_, i) => view.getFloat32(4 * i, true));
}

/** Undefined for what is no base64. */
function decoded(text: string): string | undefined {
  try {
    return atob(text);
  } catch {
    return undefined;
  }
}
