// Nothing else of it is used at run time, so that a client of another copy is as good. Without it, the error names the missing package, here
// and at once.
import type { Anthropic, BaseAnthropic } from '@anthropic-ai/sdk';
import type { Middleware } from '@anthropic-ai/sdk/core/middleware';
import { VERSION } from '@anthropic-ai/sdk/version';
import { check } from '../../operators/build.js';
import type { Usage } from '../../operators/index.js';
import { FlowConfigError } from '../../operators/index.js';
import { mostOf, readUsage } from '../account/read-usage.js';
import { isAtLeast, needsPeer } from '../peer-version.js';
import { keepOrigin } from '../pipelines/keep-origin.js';
import { isLimited, markLimited } from '../pipelines/limited.js';
import type { ModelClient, ModelContext } from '../pipelines/models/model-types.js';
import { estimateTokens } from '../tokenizers/estimate.js';
import type { HttpRules } from './support/http-call.js';
import { httpCaller, isRepeatable, jsonIn } from './support/http-call.js';
import { withLateRefusal } from './support/late-refusal.js';
import { observed, partsOf } from './support/observed.js';
import { requestUsage } from './support/token-counts.js';

// Before, the client had no middleware.
needsPeer('sluice/anthropic', '@anthropic-ai/sdk', '>=0.105.0 <2', isAtLeast(VERSION, 0, 105) && !isAtLeast(VERSION, 2), VERSION);

export type { HttpRequest, HttpRules } from './support/http-call.js';

/**
 * The body of a message, but for `stream`.
 * @beta
 */
export type AnthropicChatRequest = Omit<Anthropic.MessageCreateParamsNonStreaming, 'stream'>;

/**
 * A client of Anthropic as `createModelCaller` takes it in `call`.
 * @beta
 */
export type AnthropicChat = ModelClient<AnthropicChatRequest, Anthropic.Message, Anthropic.MessageStreamEvent>;

/** The client's own retries would come on top of ours. */
const ONCE = { maxRetries: 0 } as const;

/** How often the client itself has sent a request before. */
const SENT_BEFORE = 'x-stainless-retry-count';

/**
 * Middleware for the client of `@anthropic-ai/sdk` that keeps to a limiter. Each attempt waits for a permit, which it holds until its body
 * has ended, has failed or was cancelled: a stream counts as long as it flows. What fails in a way that may pass (429, 529, other 5xx, a broken
 * connection) is sent again, after the pause the server asks for. The limiter learns from the headers, and pays what the answer says it has cost.
 *
 * The client's `timeout` starts when a request is sent, so waiting here costs nothing of it. When it is over the call fails; the time limit
 * after which a request is sent again is `timeoutMs`.
 *
 * - **Rejects**, as seen by the caller, with the client's own errors: `RateLimitError`, `OverloadedError`, `BadRequestError`,
 *   `APIConnectionError`, `APIUserAbortError` … Else with `DeadlineError`, `BreakerOpenError`, `OverflowError` or `ClosedError` of this
 *   package. A time limit of either is an `APIConnectionTimeoutError`.
 * - **Aborted** while it waits, a request has sent nothing and costs nothing; later the server sees the connection close.
 * - **Passes** requests for the token of a credential without a permit.
 *
 * Retries of the client do not add to those here: what was sent to the end is not sent anew. {@link limitAnthropic} turns them off, which
 * spares the pauses between them.
 *
 * @beta
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range.
 * @example
 * ```ts
 * import Anthropic from '@anthropic-ai/sdk';
 * import { createAccount } from 'sluice';
 * import { createAnthropicMiddleware } from 'sluice/anthropic';
 *
 * const account = createAccount({ concurrency: 2, requestsPerMinute: 600 });
 * const answer = { content: [{ type: 'text', text: '4' }], usage: { input_tokens: 9, output_tokens: 1 } };
 * const client = new Anthropic({
 *   apiKey: 'secret',
 *   maxRetries: 0,
 *   middleware: [createAnthropicMiddleware({ limiter: account })],
 *   fetch: async () => Response.json(answer),
 * });
 * const message = await client.messages.create({ model: 'm', max_tokens: 9, messages: [{ role: 'user', content: '2 + 2?' }] });
 * message.content; // => [{ type: 'text', text: '4' }]
 * ```
 */
export function createAnthropicMiddleware(options: HttpRules = {}): Middleware {
  return middleware('createAnthropicMiddleware', options);
}

/**
 * The same client, held to a limiter by {@link createAnthropicMiddleware} behind its own middleware, with its own retries off.
 *
 * @stable
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range, or `client` is no client,
 *   or one that is limited already.
 * @example
 * ```ts
 * import Anthropic from '@anthropic-ai/sdk';
 * import { createAccount } from 'sluice';
 * import { limitAnthropic } from 'sluice/anthropic';
 *
 * const account = createAccount({ concurrency: 2, requestsPerMinute: 600 });
 * const client = limitAnthropic(new Anthropic({ apiKey: 'secret' }), { limiter: account });
 * client.maxRetries; // => 0
 * ```
 */
export function limitAnthropic<C extends BaseAnthropic>(client: C, options: HttpRules = {}): C {
  checkClient('limitAnthropic', client);
  const { fetch } = client as unknown as { readonly fetch?: typeof globalThis.fetch };
  return client.withOptions({
    middleware: [...client.middleware, middleware('limitAnthropic', options)],
    ...(typeof fetch === 'function' && { fetch: keepOrigin(fetch) }),
    ...ONCE,
  });
}

/**
 * The `call` of `createModelCaller` over this client: whole messages and streams, with their token counts. The limiter of the
 * caller learns from the headers of every answer. The client's own retries are off for these calls.
 *
 * @beta
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when `client` is no client, or has a limiter of its own.
 * @example
 * ```ts
 * import Anthropic from '@anthropic-ai/sdk';
 * import { createAccount, createModelCaller } from 'sluice';
 * import { anthropicChat } from 'sluice/anthropic';
 *
 * const answer = { content: [{ type: 'text', text: '4' }], usage: { input_tokens: 9, output_tokens: 1 } };
 * const client = new Anthropic({ apiKey: 'secret', fetch: async () => Response.json(answer) });
 * const limiter = createAccount({ requestsPerMinute: 600, tokensPerMinute: 60_000 });
 * const models = createModelCaller({ call: anthropicChat(client), limiter });
 *
 * const { content } = await models.callAsync({ model: 'm', max_tokens: 9, messages: [{ role: 'user', content: '2 + 2?' }] }, { lane: 'user' });
 * content; // => [{ type: 'text', text: '4' }]
 * ```
 */
export function anthropicChat(client: Anthropic): AnthropicChat {
  checkClient('anthropicChat', client);
  const { messages } = client;
  return {
    send: (request, context) => observed(messages.create({ ...request, stream: false }, { signal: context.signal, ...ONCE }), context),
    stream: (request, context) =>
      counted(
        partsOf(messages.create({ ...request, stream: true }, { signal: context.signal, ...ONCE }), context, 'message_stop'),
        context,
      ),
    model: ({ model }) => model,
    // That of a stream comes in parts.
    usage: (answer) => ('content' in answer ? readUsage(answer) : undefined),
    cost: requestUsage,
    countTokens: estimateTokens,
  };
}

/** The same events. The first says what went in, one of the last what came out, and perhaps once more what went in. */
async function* counted(
  events: AsyncIterable<Anthropic.MessageStreamEvent>,
  context: Pick<ModelContext, 'settle'>,
): AsyncGenerator<Anthropic.MessageStreamEvent, void, undefined> {
  let usage: Usage | undefined;
  for await (const event of events) {
    usage = mostOf(usage, readUsage(event));
    if (event.type === 'message_delta' && usage) context.settle(usage);
    yield event;
  }
}

function checkClient(name: string, client: BaseAnthropic): void {
  if (!Array.isArray((Object(client) as Partial<BaseAnthropic>).middleware))
    throw new FlowConfigError(name, 'client', 'a client of @anthropic-ai/sdk', client);
  const { fetch } = client as unknown as { readonly fetch?: unknown };
  if ([fetch, ...client.middleware].some(isLimited))
    throw check.misused(name, 'client', '`client` has a limiter already', 'Pass the original client.');
}

function middleware(name: string, options: HttpRules): Middleware {
  const call = httpCaller(name, options);
  /** What was tried to the end, and what came of it. The client gives the same object when it sends a request again. */
  const failed = new WeakMap<object, unknown>();

  const limited: Middleware = async (request, next, { options: asked }) => {
    // The token of a credential is no matter of the account's limits.
    if (asked === undefined) return next(request);
    if (Number(request.headers.get(SENT_BEFORE)) > 0 && failed.has(asked)) throw failed.get(asked);
    try {
      return await call({
        url: request.url,
        method: request.method ?? 'GET',
        headers: request.headers,
        json: jsonIn(request.body),
        signal: request.signal,
        isRepeatable: isRepeatable(request.body),
        send: async (signal) => withLateRefusal(await next({ ...request, signal })),
      });
    } catch (error) {
      // The client's own time limit ends the call; trying again after that is left to the client.
      if (options.retry !== false && request.signal?.aborted !== true) failed.set(asked, error);
      throw error;
    }
  };
  return markLimited(limited);
}
