// Nothing else of it is used at run time, so that a client of another copy is as good. Without it, the error names the missing package, here
// and at once.
import type { OpenAI } from 'openai';
import { VERSION } from 'openai/version';
import { check } from '../../operators/build.js';
import { FlowConfigError } from '../../operators/index.js';
import { readUsage } from '../account/read-usage.js';
import { isAtLeast, needsPeer } from '../peer-version.js';
import type { EmbedClient } from '../pipelines/embedder-options.js';
import { apiOf, embeddingsIn, noVectors } from '../pipelines/embeddings-api.js';
import { isLimited } from '../pipelines/limited.js';
import { chunksIn } from '../pipelines/models/chat-api.js';
import type { ModelClient } from '../pipelines/models/model-types.js';
import { estimateTokens } from '../tokenizers/estimate.js';
import type { HttpRules } from './support/http-call.js';
import { limitedFetch } from './support/limited-fetch.js';
import { observed, opened } from './support/observed.js';
import { requestUsage } from './support/token-counts.js';

needsPeer('sluice/openai', 'openai', '^6.0.0 || ^7.0.0', isAtLeast(VERSION, 6) && !isAtLeast(VERSION, 8), VERSION);

export type { HttpRequest, HttpRules } from './support/http-call.js';

/** @stable */
export interface LimitOpenAIOptions extends HttpRules {
  /** What sends the requests. @defaultValue what the client sends them with */
  readonly fetch?: typeof fetch;
}

/**
 * The body of a chat, but for `stream`.
 * @beta
 */
export type OpenAIChatParams = Omit<OpenAI.ChatCompletionCreateParamsNonStreaming, 'stream'>;

/**
 * The same for a caller that has a model to fall back on.
 * @beta
 */
export type OpenAIChatRequest = Omit<OpenAIChatParams, 'model'> & Partial<Pick<OpenAIChatParams, 'model'>>;

/**
 * A client of OpenAI as `createModelCaller` takes it in `call`.
 * @beta
 */
export type OpenAIChat<Q> = ModelClient<Q, OpenAI.ChatCompletion, OpenAI.ChatCompletionChunk>;

/** @beta */
export interface OpenAIEmbeddingsOptions {
  readonly model: OpenAI.EmbeddingCreateParams['model'];
  /** Length of the vectors, for models that can shorten them. @defaultValue the model's own */
  readonly dimensions?: number;
  /** The end user whose texts these are, so that the provider can notice abuse. @defaultValue none */
  readonly user?: string;
}

/** The client's own retries would come on top of ours. */
const ONCE = { maxRetries: 0 } as const;

/**
 * The same client behind a limiter: one more of its class, with its key, its base URL and its headers. It keeps to the limits in all that it
 * does: chats, responses, streams, embeddings, files. Its own retries are off, all attempts are made here.
 *
 * - **Each attempt** waits for a permit and holds it until its answer has been read; that of a stream until it ends, fails or is left.
 * - **Answers and errors** are the client's own: `RateLimitError` after the last attempt, `BadRequestError` at once, `APIUserAbortError`
 *   when `signal` aborts. `DeadlineError` and other errors of ours come as the `cause` of an `APIConnectionError`.
 * - **A queued request that is aborted** has sent nothing and costs nothing.
 *
 * The `timeout` of the client (10 minutes) runs while a request waits here, and continues over all its attempts: raise it for long queues.
 *
 * @stable
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range, or when the client is limited already.
 * @example
 * ```ts
 * import OpenAI from 'openai';
 * import { createAccount } from 'sluice';
 * import { limitOpenAI } from 'sluice/openai';
 *
 * const answer = { choices: [{ index: 0, message: { role: 'assistant', content: 'four' }, finish_reason: 'stop' }] };
 * const client = new OpenAI({ apiKey: 'secret', fetch: async () => Response.json(answer) });
 * const account = createAccount({ concurrency: 8, requestsPerMinute: 500, tokensPerMinute: 200_000 });
 * const limited = limitOpenAI(client, { limiter: account });
 * const { choices } = await limited.chat.completions.create({ model: 'small', messages: [{ role: 'user', content: '2 + 2?' }] });
 * choices[0]?.message.content; // => 'four'
 * ```
 */
export function limitOpenAI<C extends OpenAI>(client: C, options: LimitOpenAIOptions = {}): C {
  const name = 'limitOpenAI';
  checkClient(name, client);
  const more = { ...forgotten(client), fetch: limitedFetch(name, options, fetchOf(client)), ...ONCE };
  return client.withOptions(more);
}

/** Not in the types of the client. */
interface Inside {
  readonly apiVersion?: string;
  readonly deploymentName?: string;
  readonly _options?: { readonly apiKey?: unknown };
}

/** What clients of OpenAI 6 forget when another one is made of them: all that is Azure's, and (before 6.49) whom to ask for a key. */
function forgotten(client: OpenAI): object {
  const { apiVersion, deploymentName, _options } = client as unknown as Inside;
  const apiKey = _options?.apiKey;
  return {
    ...(apiVersion !== undefined && { apiVersion }),
    ...(deploymentName !== undefined && { deployment: deploymentName }),
    ...(typeof apiKey === 'function' && { apiKey }),
  };
}

/**
 * The `call` of `createModelCaller` over this client: whole chats and streams, with their token counts. The limiter of the
 * caller learns from the headers of every answer. The client's own retries are off for these calls.
 *
 * @beta
 * @param defaults - fields of every request that does not have its own; with a `model`, requests need none
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when the client is none or has a limiter of its own.
 * @example
 * ```ts
 * import OpenAI from 'openai';
 * import { createModelCaller } from 'sluice';
 * import { openAIChat } from 'sluice/openai';
 *
 * const answer = { choices: [{ index: 0, message: { role: 'assistant', content: 'four' }, finish_reason: 'stop' }] };
 * const client = new OpenAI({ apiKey: 'secret', fetch: async () => Response.json(answer) });
 * const models = createModelCaller({ call: openAIChat(client, { model: 'small' }), concurrency: 4 });
 * const { choices } = await models.callAsync({ messages: [{ role: 'user', content: '2 + 2?' }] }, { lane: 'user' });
 * choices[0]?.message.content; // => 'four'
 * ```
 */
export function openAIChat(client: OpenAI, defaults: Partial<OpenAIChatParams> & { readonly model: string }): OpenAIChat<OpenAIChatRequest>;
export function openAIChat(client: OpenAI, defaults?: Partial<OpenAIChatParams>): OpenAIChat<OpenAIChatParams>;
export function openAIChat(client: OpenAI, defaults: Partial<OpenAIChatParams> = {}): OpenAIChat<OpenAIChatParams> {
  const name = 'openAIChat';
  checkClient(name, client);
  if (typeof defaults !== 'object' || (defaults as unknown) === null) throw new FlowConfigError(name, 'defaults', 'an object', defaults);
  const { completions } = client.chat;
  const own = { ...defaults };
  const bodyOf = (request: OpenAIChatParams): OpenAIChatParams => ({ ...own, ...request });
  return {
    send: (request, context) => {
      const { signal } = context;
      const { stream_options: _, ...body } = bodyOf(request);
      return observed(completions.create({ ...body, stream: false }, { signal, ...ONCE }), context);
    },
    stream: async (request, context) => {
      const { signal } = context;
      const body = { stream_options: { include_usage: true }, ...bodyOf(request), stream: true } as const;
      // Not read by the client, which does not say whether it saw the mark of the end.
      const response = await opened(completions.create(body, { signal, ...ONCE }), context);
      return chunksIn(response) as AsyncIterable<unknown> as AsyncIterable<OpenAI.ChatCompletionChunk>;
    },
    model: (request) => bodyOf(request).model,
    usage: readUsage,
    cost: (request) => requestUsage(bodyOf(request)),
    countTokens: estimateTokens,
  };
}

/**
 * The `call` of `createEmbedder` over this client. The limiter of the embedder learns from the headers of every answer. The
 * client's own retries are off for these calls.
 *
 * @beta
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range, or when the client is none or has a
 *   limiter of its own.
 * @example
 * ```ts
 * import OpenAI from 'openai';
 * import { createEmbedder } from 'sluice';
 * import { openAIEmbeddings } from 'sluice/openai';
 *
 * const answer = { data: [{ index: 0, embedding: [0.6, 0.8] }], usage: { total_tokens: 2 } };
 * const client = new OpenAI({ apiKey: 'secret', fetch: async () => Response.json(answer) });
 * const embedder = createEmbedder({ call: openAIEmbeddings(client, { model: 'small' }), concurrency: 2 });
 * (await embedder.embedAsync('hello')).length; // => 2
 * ```
 */
export function openAIEmbeddings(client: OpenAI, options: OpenAIEmbeddingsOptions): EmbedClient {
  const name = 'openAIEmbeddings';
  checkClient(name, client);
  check.onlyKnown(name, options, ['model', 'dimensions', 'user']);
  check.nonEmpty(name, 'model', options.model);
  if (options.dimensions !== undefined) check.count(name, 'dimensions', options.dimensions);
  if (options.user !== undefined) check.nonEmpty(name, 'user', options.user);
  const settings = { ...options };
  return {
    embed: async (texts, context) => {
      const { signal } = context;
      const sent = client.embeddings.create({ ...settings, input: [...texts], encoding_format: 'base64' }, { signal, ...ONCE });
      try {
        return embeddingsIn(await observed(sent, context), context);
      } catch (error) {
        throw noVectors(texts.length, error);
      }
    },
    ...apiOf(options.model),
  };
}

function checkClient(name: string, client: OpenAI): void {
  if (typeof (Object(client) as Partial<OpenAI>).withOptions !== 'function')
    throw new FlowConfigError(name, 'client', 'a client of `openai`', client);
  if (isLimited(fetchOf(client))) throw check.misused(name, 'client', '`client` has a limiter already', 'Pass the original client.');
}

/** What the client sends its requests with. The field is there in all versions, but not in their types. */
function fetchOf(client: OpenAI): typeof fetch | undefined {
  return (client as unknown as { readonly fetch?: typeof fetch }).fetch;
}
