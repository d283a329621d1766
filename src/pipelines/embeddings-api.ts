import type { CallContext } from '../../operators/support/types.js';

/** An answer of the provider that is not a success, with what a classifier looks at. The message is the provider's own. */
export class ProviderError extends Error {
  override readonly name = 'ProviderError';

  constructor(
    readonly status: number,
    readonly headers: Headers,
    message: string,
    readonly code: string | undefined,
    readonly type: string | undefined,
    /** Which part of the request is at fault, for example `input[3]`. */
    readonly param: string | undefined,
  ) {
    super(message);
  }
}

export interface EmbeddingsEndpoint {
  readonly url: string;
  readonly model: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly dimensions: number | undefined;
  readonly fetch: typeof fetch;
}

/** One POST to an OpenAI-compatible `/embeddings`: vectors in the order of the texts. */
export async function requestEmbeddings(
  endpoint: EmbeddingsEndpoint,
  texts: readonly string[],
  context: CallContext,
): Promise<Float32Array[]> {
  const { url, model, dimensions, headers } = endpoint;
  const response = await endpoint.fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ model, input: texts, encoding_format: 'base64', ...(dimensions !== undefined && { dimensions }) }),
    signal: context.signal,
  });
  context.observe(response);
  if (!response.ok) throw await providerError(response);
  const { data, usage } = (await response.json()) as { data?: unknown; usage?: { total_tokens?: unknown; prompt_tokens?: unknown } };
  const tokens = usage?.total_tokens ?? usage?.prompt_tokens;
  if (typeof tokens === 'number') context.reconcile({ inputTokens: tokens });
  return inOrder(data);
}

async function providerError(response: Response): Promise<ProviderError> {
  const text = await response.text();
  let error: { message?: unknown; code?: unknown; type?: unknown; param?: unknown } = {};
  try {
    error = (JSON.parse(text) as { error?: typeof error } | null)?.error ?? {};
  } catch {
    // Not JSON: a proxy in between, most likely. The start of its answer is the best message there is.
  }
  const word = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined);
  const message = word(error.message) ?? (text.slice(0, 200) || response.statusText || 'no message');
  return new ProviderError(
    response.status,
    response.headers,
    `${String(response.status)} ${message}`,
    word(error.code),
    word(error.type),
    word(error.param),
  );
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
