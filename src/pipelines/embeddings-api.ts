import { check } from '../../operators/build.js';
import type { CallContext } from '../../operators/index.js';
import { BatchShapeError, classifyError } from '../../operators/index.js';
import { providerAt } from '../account/providers.js';
import { encodingOf } from '../tokenizers/encoding-of.js';
import { estimatorOf } from '../tokenizers/estimate.js';
import { boundedJson } from './bounded-text.js';
import type { EmbedClient } from './embedder-options.js';
import type { Endpoint, EndpointOptions } from './endpoint.js';
import { endpointOf, post } from './endpoint.js';
import { answerIn } from './provider-error.js';

/** @beta */
export interface EmbeddingsOptions extends EndpointOptions {
  /** Length of the vectors, for models that can shorten them. @defaultValue the model's own */
  readonly dimensions?: number;
}

const NAME = 'embeddings';
const OPTIONS: readonly string[] = ['baseUrl', 'model', 'apiKey', 'headers', 'fetch', 'dimensions'];

/**
 * A client for `createEmbedder`: sends texts to an OpenAI-compatible `/embeddings`, without an SDK. It estimates the tokens of a text, reads the usage from
 * answers, tells the errors of providers apart, and knows the rules of a provider by its address.
 *
 * @beta
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range; no error shows a key.
 * @example
 * ```ts
 * import { createEmbedder, embeddings } from 'sluice';
 *
 * const answer = { data: [{ index: 0, embedding: [0.6, 0.8] }], usage: { total_tokens: 2 } };
 * const call = embeddings({ baseUrl: 'http://127.0.0.1:9/v1', model: 'm', fetch: async () => Response.json(answer) });
 * (await createEmbedder({ call }).embedAsync('hello')).length; // => 2
 * ```
 */
export function embeddings(options: EmbeddingsOptions): EmbedClient {
  check.onlyKnown(NAME, options, OPTIONS);
  const endpoint = endpointOf(NAME, '/embeddings', options);
  const dimensions = check.optional(check.count)(NAME, 'dimensions', options.dimensions);
  return {
    embed: (texts, context) => requestEmbeddings(endpoint, dimensions, texts, context),
    ...apiOf(endpoint.model, providerAt(endpoint.url)),
  };
}

/** What is known of the API of a provider. */
export function apiOf(model: string, provider?: EmbedClient['provider']): Omit<EmbedClient, 'embed'> {
  return { model, provider, classify: classifyError, estimateTokens: estimatorOf(encodingOf(model), 1) };
}

/** One POST to an OpenAI-compatible `/embeddings`: its answers in the order of the texts. */
async function requestEmbeddings(
  endpoint: Endpoint,
  dimensions: number | undefined,
  texts: readonly string[],
  context: CallContext,
): Promise<ArrayLike<number>[]> {
  const body = { model: endpoint.model, input: texts, encoding_format: 'base64', ...(dimensions !== undefined && { dimensions }) };
  const response = await post(endpoint, body, context);
  const json = await boundedJson(response);
  try {
    return embeddingsIn(answerIn(json, response), context);
  } catch (error) {
    throw noVectors(texts.length, error);
  }
}

/** What is no answer at all fails all texts together: sending fewer would not help. */
export function noVectors(texts: number, error: unknown): unknown {
  return error instanceof SyntaxError ? new BatchShapeError(NAME, texts, 0, error.message) : error;
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

/**
 * By their `index`. Servers that leave it out answer in the order of the texts; some leave out a 0 alone. A list that cannot be put in order is
 * handed on as an empty one, for the batch to fail on its length.
 */
function inOrder(data: unknown): ArrayLike<number>[] {
  const entries = (Array.isArray(data) ? (data as unknown[]) : []).map((entry) => Object(entry) as Entry);
  const isUnplaced = ({ index }: Entry): boolean => index === undefined || index === null;
  const unplaced = entries.filter(isUnplaced);
  const byIndex = new Map<unknown, Entry>();
  if (unplaced.length === entries.length) for (const [i, entry] of entries.entries()) byIndex.set(i, entry);
  else if (unplaced.length <= 1) for (const entry of entries) byIndex.set(entry.index ?? 0, entry);
  const placed = entries.map((_, i) => byIndex.get(i));
  return placed.every((entry) => entry !== undefined) ? placed.map(({ embedding }) => vectorIn(embedding)) : [];
}

interface Entry {
  readonly index?: unknown;
  readonly embedding?: unknown;
}

/** What is no vector is handed on as it is: the embedder looks at it. */
function vectorIn(embedding: unknown): ArrayLike<number> {
  return (typeof embedding === 'string' ? floatsIn(embedding) : embedding) as ArrayLike<number>;
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
