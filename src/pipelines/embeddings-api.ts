import { BatchShapeError } from '../../operators/errors.js';
import type { CallContext } from '../../operators/types.js';
import { boundedJson } from './bounded-text.js';
import { NAME } from './embedder-options.js';
import type { Endpoint } from './endpoint.js';
import { post } from './endpoint.js';

export interface EmbeddingsEndpoint extends Endpoint {
  readonly dimensions: number | undefined;
}

/** One POST to an OpenAI-compatible `/embeddings`: its answers in the order of the texts. */
export async function requestEmbeddings(
  endpoint: EmbeddingsEndpoint,
  texts: readonly string[],
  context: CallContext,
): Promise<ArrayLike<number>[]> {
  const { model, dimensions } = endpoint;
  const body = { model, input: texts, encoding_format: 'base64', ...(dimensions !== undefined && { dimensions }) };
  const response = await post(endpoint, body, context);
  const answer = await boundedJson(response);
  // Sending fewer texts would not help.
  if (answer === undefined) throw new BatchShapeError(NAME, texts.length, 0, 'the answer is no JSON');
  return embeddingsIn(answer, context);
}

/**
 * What the answer of an OpenAI-compatible `/embeddings` says: in the order of the texts, and what they have cost. Whether they are vectors
 * the embedder looks at itself.
 */
export function embeddingsIn(answer: unknown, context: Pick<CallContext, 'settle'>): ArrayLike<number>[] {
  const { data, usage } = Object(answer) as { data?: unknown; usage?: { total_tokens?: unknown; prompt_tokens?: unknown } };
  const tokens = usage?.total_tokens ?? usage?.prompt_tokens;
  if (typeof tokens === 'number') context.settle({ inputTokens: tokens });
  return inOrder(data);
}

/** By their `index`; a list that cannot be put in order is handed on as it is wrong, for the batch to fail on its length. */
function inOrder(data: unknown): ArrayLike<number>[] {
  const entries: unknown[] = Array.isArray(data) ? data : [];
  const byIndex = new Map<unknown, unknown>();
  for (const entry of entries) {
    const { index, embedding } = Object(entry) as { index?: unknown; embedding?: unknown };
    byIndex.set(index, typeof embedding === 'string' ? floatsIn(embedding) : embedding);
  }
  return entries.every((_, i) => byIndex.has(i)) ? entries.map((_, i) => byIndex.get(i) as ArrayLike<number>) : [];
}

function floatsIn(base64: string): Float32Array | undefined {
  const binary = decoded(base64);
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
