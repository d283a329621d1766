import type { Usage } from '../../../operators/support/types.js';
import { createTokenEstimator } from '../../tokenizers/estimate.js';
import type { Endpoint, RequestContext } from '../endpoint.js';
import { post } from '../endpoint.js';
import type { ErrorBody } from '../provider-error.js';
import { ProviderError, streamError } from '../provider-error.js';
import { serverEvents } from './server-events.js';

/** One message of a chat, as OpenAI-compatible APIs take it. */
export interface ChatMessage {
  readonly role: string;
  /** A text, or a list of parts. */
  readonly content?: unknown;
  readonly [field: string]: unknown;
}

/** The body of a request to `/chat/completions`. `model` is the caller's when it is left out, `stream` is set as needed. */
export interface ChatRequest {
  readonly messages: readonly ChatMessage[];
  readonly model?: string;
  readonly max_completion_tokens?: number;
  readonly max_tokens?: number;
  readonly [option: string]: unknown;
}

export interface ChatUsage {
  readonly prompt_tokens?: number;
  readonly completion_tokens?: number;
  readonly [field: string]: unknown;
}

/** The answer of `/chat/completions`. */
export interface ChatCompletion {
  readonly choices: readonly {
    readonly index: number;
    readonly message: { readonly role: string; readonly content: string | null; readonly [field: string]: unknown };
    readonly finish_reason: string | null;
    readonly [field: string]: unknown;
  }[];
  readonly usage?: ChatUsage | null;
  readonly [field: string]: unknown;
}

/** One part of a streamed answer. */
export interface ChatChunk {
  readonly choices: readonly {
    readonly index: number;
    readonly delta: { readonly content?: string | null; readonly [field: string]: unknown };
    readonly finish_reason?: string | null;
    readonly [field: string]: unknown;
  }[];
  readonly usage?: ChatUsage | null;
  readonly [field: string]: unknown;
}

const DONE = '[DONE]';

/** One POST to an OpenAI-compatible `/chat/completions`. */
export async function requestChat(endpoint: Endpoint, request: ChatRequest, context: RequestContext): Promise<ChatCompletion> {
  const response = await post(endpoint, { model: endpoint.model, ...request, stream: false }, context);
  return (await response.json()) as ChatCompletion;
}

/** The same, part by part; usage comes with the last one. */
export async function* streamChat(
  endpoint: Endpoint,
  request: ChatRequest,
  context: RequestContext,
): AsyncGenerator<ChatChunk, void, undefined> {
  const body = { model: endpoint.model, stream_options: { include_usage: true }, ...request, stream: true };
  const response = await post(endpoint, body, context);
  let hasEnded = false;
  if (response.body !== null) {
    for await (const data of serverEvents(response.body)) {
      if (data === DONE) return;
      const chunk = JSON.parse(data) as ChatChunk & { readonly error?: ErrorBody };
      if (chunk.error) throw streamError(chunk.error);
      const { choices = [] } = chunk as Partial<ChatChunk>;
      hasEnded ||= choices.some(({ finish_reason }) => typeof finish_reason === 'string');
      yield chunk;
    }
  }
  // Without the mark of the end, and without a reason for it, it was cut off.
  if (!hasEnded)
    throw new ProviderError(undefined, response.headers, 'the stream was cut off', 'ERR_STREAM_PREMATURE_CLOSE', undefined, undefined);
}

/** What an answer, or a part of one, says about its tokens. */
export function chatUsage({ usage }: ChatCompletion | ChatChunk): Usage | undefined {
  if (!usage) return undefined;
  const { prompt_tokens: inputTokens, completion_tokens: outputTokens } = usage;
  return { ...(inputTokens !== undefined && { inputTokens }), ...(outputTokens !== undefined && { outputTokens }) };
}

const estimate = /* @__PURE__ */ createTokenEstimator();
/** What each message costs beside its content. */
const MESSAGE_TOKENS = 4;

/** What a request will cost at most: its texts as estimated, and the longest answer it allows. */
export function estimateChat({ messages, max_completion_tokens, max_tokens }: ChatRequest): number {
  let tokens = max_completion_tokens ?? max_tokens ?? 0;
  for (const { content } of messages) tokens += MESSAGE_TOKENS + (typeof content === 'string' ? estimate(content) : partsCost(content));
  return tokens;
}

/** Texts in a list of parts; what a picture costs is not ours to know. */
function partsCost(content: unknown): number {
  if (!Array.isArray(content)) return 0;
  return (content as { readonly text?: unknown }[]).reduce(
    (sum, part) => sum + (typeof part.text === 'string' ? estimate(part.text) : 0),
    0,
  );
}
