import { check } from '../../../operators/build.js';
import type { Usage } from '../../../operators/index.js';
import { FlowConfigError } from '../../../operators/index.js';
import { providerAt } from '../../account/providers.js';
import { readUsage } from '../../account/read-usage.js';
import { answersOf, contentTokens } from '../../tokenizers/content-tokens.js';
import { estimateTokens, estimatorFor } from '../../tokenizers/estimate.js';
import { boundedJson, jsonOf } from '../bounded-text.js';
import type { Endpoint, EndpointOptions, RequestContext } from '../endpoint.js';
import { endpointOf, post } from '../endpoint.js';
import { isReason } from '../finish-reason.js';
import { answerIn, streamFault } from '../provider-error.js';
import { serverEvents } from '../server-events.js';
import type { ChatToolCall } from '../tools/tool-formats.js';
import type { ModelClient } from './model-types.js';

/**
 * One message of a chat, as OpenAI-compatible APIs take it.
 * @beta
 */
export interface ChatMessage {
  readonly role: string;
  /** A text, or a list of parts. */
  readonly content?: unknown;
  readonly [field: string]: unknown;
}

/**
 * The body of a request to `/chat/completions`. `model` is that of `chatCompletions` when it is left out, `stream` is set as needed.
 * @beta
 */
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

/**
 * The answer of `/chat/completions`.
 * @beta
 */
export interface ChatCompletion {
  readonly choices: readonly {
    readonly index: number;
    readonly message: {
      readonly role: string;
      readonly content: string | null;
      /** What the model asks for; `fromChatToolCalls` makes calls of them for `createToolRunner`. */
      readonly tool_calls?: readonly ChatToolCall[] | null;
      readonly [field: string]: unknown;
    };
    readonly finish_reason: string | null;
    readonly [field: string]: unknown;
  }[];
  readonly usage?: ChatUsage | null;
  readonly [field: string]: unknown;
}

/**
 * One part of a streamed answer.
 * @beta
 */
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

const NAME = 'chatCompletions';
const OPTIONS: readonly string[] = ['baseUrl', 'model', 'apiKey', 'headers', 'fetch'];
const DONE = '[DONE]';

/**
 * A client for `createModelCaller`: sends requests to an OpenAI-compatible `/chat/completions`, whole answers and streams, without an SDK. It estimates the
 * tokens of a request (its texts and its longest answer), reads `usage` from answers, and knows the rules of a provider by its address.
 *
 * @beta
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range; no error shows a key.
 * @example
 * ```ts
 * import { chatCompletions, createModelCaller } from 'sluice';
 *
 * const answer = { choices: [{ index: 0, message: { role: 'assistant', content: 'four' }, finish_reason: 'stop' }] };
 * const call = chatCompletions({ baseUrl: 'http://127.0.0.1:9/v1', model: 'm', fetch: async () => Response.json(answer) });
 * const models = createModelCaller({ call, concurrency: 2 });
 * const { choices } = await models.callAsync({ messages: [{ role: 'user', content: '2 + 2?' }] });
 * choices[0]?.message.content; // => 'four'
 * ```
 */
export function chatCompletions(options: EndpointOptions): ModelClient<ChatRequest, ChatCompletion, ChatChunk> {
  check.onlyKnown(NAME, options, OPTIONS);
  const endpoint = endpointOf(NAME, '/chat/completions', options);
  const provider = providerAt(endpoint.url);
  return {
    send: (request, context) => requestChat(endpoint, request, context),
    stream: (request, context) => streamChat(endpoint, request, context),
    model: (request) => (request as ChatRequest | null)?.model ?? endpoint.model,
    cost: (request) => estimateChat(request, endpoint.model),
    usage: readUsage,
    countTokens: estimateTokens,
    ...(provider && { provider }),
  };
}

/** One POST to an OpenAI-compatible `/chat/completions`. */
export async function requestChat(endpoint: Endpoint, request: ChatRequest, context: RequestContext): Promise<ChatCompletion> {
  const response = await post(endpoint, bodyOf(endpoint, request, false), context);
  return answerIn(await boundedJson(response), response) as ChatCompletion;
}

/** The same, part by part; usage comes with the last one. */
export async function* streamChat(
  endpoint: Endpoint,
  request: ChatRequest,
  context: RequestContext,
): AsyncGenerator<ChatChunk, void, undefined> {
  const response = await post(endpoint, { stream_options: { include_usage: true }, ...bodyOf(endpoint, request, true) }, context);
  yield* chunksIn(response);
}

/**
 * The parts of a streamed answer. It is whole with the mark of its end, or with a reason for it.
 *
 * @throws ProviderError when it was cut off, or says that it has failed; SyntaxError when it is no stream of events
 */
export async function* chunksIn(response: Response): AsyncGenerator<ChatChunk, void, undefined> {
  let isEmpty = true;
  let hasEnded = false;
  if (response.body !== null) {
    for await (const data of serverEvents(response.body)) {
      if (data === DONE) return;
      isEmpty = false;
      const chunk = answerIn(jsonOf(data)) as ChatChunk;
      const { choices } = chunk as Partial<ChatChunk>;
      hasEnded ||= choices?.some((choice: ChatChunk['choices'][number] | null) => isReason(choice?.finish_reason)) ?? false;
      yield chunk;
    }
  }
  if (!hasEnded) throw streamFault('`finish_reason` or `[DONE]`', response.headers, isEmpty ? response : undefined);
}

function bodyOf(endpoint: Endpoint, request: ChatRequest, stream: boolean): ChatRequest {
  const { messages, model } = Object(request) as Partial<ChatRequest>;
  if (!Array.isArray(messages)) throw new FlowConfigError(NAME, 'request.messages', 'an array of messages', messages);
  return { ...request, model: model ?? endpoint.model, stream };
}

/** What each message costs beside its content. */
const MESSAGE_TOKENS = 4;

/** What a request will take at most: its content as estimated for its model, and the longest answers it allows, when it says. */
export function estimateChat(request: ChatRequest, defaultModel?: string): Usage & { readonly inputTokens: number } {
  const { messages, max_completion_tokens, max_tokens, model = defaultModel, ...others } = Object(request) as Partial<ChatRequest>;
  const { n, tools, response_format } = others as { readonly n?: unknown; readonly tools?: unknown; readonly response_format?: unknown };
  const estimate = estimatorFor(model);
  const most = max_completion_tokens ?? max_tokens;
  const longest = typeof most === 'number' && { outputTokens: answersOf(n) * most };
  let inputTokens = 0;
  for (const schema of [tools, response_format]) if (typeof schema === 'object' && schema) inputTokens += estimate(JSON.stringify(schema));
  // What is no list of messages is refused when it is sent, and says so.
  if (!Array.isArray(messages)) return { inputTokens, ...longest };
  for (const { content, tool_calls } of messages as (ChatRequest['messages'][number] & { readonly tool_calls?: unknown })[])
    inputTokens += MESSAGE_TOKENS + contentTokens(content, estimate) + contentTokens(tool_calls, estimate);
  return { inputTokens, ...longest };
}
