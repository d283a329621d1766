import type { UsageMetadata } from '@langchain/core/messages';
import type { ModelRequest } from 'langchain';
import { createMiddleware } from 'langchain';
import { lastValueFrom } from 'rxjs';
import type { Usage } from '../../../operators/index.js';
import { providerNamed } from '../../account/providers.js';
import type { RequestFacts } from '../support/call-job.js';
import { callOptionsOf } from '../support/call-job.js';
import { heldWork } from '../support/held-call.js';
import type { ConnectionRules } from '../support/held-rules.js';
import { heldRules } from '../support/held-rules.js';
import { learned } from '../support/observed.js';
import { requestUsage } from '../support/token-counts.js';
import type { Middleware } from './agent-calls.js';
import { underSignal } from './agent-calls.js';

/**
 * What surrounds each call of an agent's model.
 * @beta
 */
export type ModelMiddlewareOptions = ConnectionRules<ModelRequest>;

interface Told {
  readonly usage_metadata?: UsageMetadata;
  readonly response_metadata?: { readonly headers?: unknown };
}

const NAME = 'createModelMiddleware';

/**
 * Middleware for `createAgent` whose model calls keep to a limiter. Each attempt waits for a permit, which it holds until the answer is here.
 * What fails in a way that may pass (429, 5xx, a broken connection) is sent again, after the pause the provider asks for. The limiter pays
 * what the answer says it has cost, and learns from the headers of refusals, and of answers whose `response_metadata` has them.
 *
 * - **Answers** with the model's message.
 * - **Rejects** with the model's own error when there are no more attempts. LangChain puts what comes out of a middleware in a
 *   `MiddlewareError` of the same name and message; its `cause` is the error itself, the same object. Else with `DeadlineError`,
 *   `AttemptTimeoutError`, `BreakerOpenError`, `OverflowError`, `ClosedError`.
 * - **On abort** of the run's signal what waits leaves, has sent nothing and costs nothing; what runs is aborted at the provider.
 * - **Retries** of the model are turned off, with the call option `maxRetries: 0`, which OpenAI's heed. Make other models with `maxRetries: 0`.
 *
 * Put it last in `middleware`, so that others which make a call anew (retry, fallback) wait for a permit each time.
 *
 * @beta
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range.
 * @example
 * ```ts
 * import { AIMessage, createAgent, fakeModel } from 'langchain';
 * import { createAccount } from 'sluice';
 * import { createModelMiddleware } from 'sluice/langchain/agents';
 *
 * const account = createAccount({ concurrency: 2, requestsPerMinute: 600 });
 * const model = fakeModel().respond(new AIMessage('4'));
 * const agent = createAgent({ model, tools: [], middleware: [createModelMiddleware({ limiter: account })] });
 * const { messages } = await agent.invoke({ messages: [{ role: 'user', content: '2 + 2?' }] });
 * messages.at(-1)?.text; // => '4'
 * ```
 */
export function createModelMiddleware(options: ModelMiddlewareOptions = {}): Middleware {
  const held = heldRules(NAME, options, []);
  const optionsOf = callOptionsOf(NAME, options, factsOf);
  return createMiddleware({
    name: 'SluiceModel',
    wrapModelCall: (request, handler) =>
      lastValueFrom(
        held.policy(
          heldWork(held, async (attempt) => {
            const calling = async () => handler({ ...request, model: underSignal(request.model, attempt.signal, { maxRetries: 0 }) });
            const answer = await learned(calling(), attempt, headersOf);
            const usage = usageOf(answer);
            if (usage) attempt.settle(usageFrom(usage));
            return answer;
          }),
          optionsOf(request, request.runtime.signal),
        ),
      ),
  });
}

/** Few models say what headers came with an answer. */
function headersOf(answer: unknown): unknown {
  const { response_metadata, messages = [] } = Object(answer) as Told & { readonly messages?: readonly Told[] };
  return (response_metadata ?? messages.at(-1)?.response_metadata)?.headers;
}

/** Of a message, or of the one among those that come with a structured response. */
function usageOf(answer: unknown): UsageMetadata | undefined {
  const { usage_metadata, messages = [] } = Object(answer) as Told & { readonly messages?: readonly Told[] };
  return usage_metadata ?? messages.find((message) => message.usage_metadata)?.usage_metadata;
}

function factsOf({ messages, systemMessage, tools, model }: ModelRequest): RequestFacts {
  const { maxTokens, n, modelName, model: other } = model as Partial<Record<'maxTokens' | 'n' | 'modelName' | 'model', unknown>>;
  const named = other ?? modelName;
  const { inputTokens, outputTokens } = requestUsage({
    model: named,
    n,
    messages: messages.map(({ content }) => content),
    system: systemMessage.content,
    tools: tools.map(({ name, description }) => ({ name, description })),
    max_tokens: maxTokens,
  });
  const kind = (model as { readonly _llmType?: () => string })._llmType?.() ?? '';
  return {
    model: typeof named === 'string' ? named : undefined,
    tokens: { inputTokens, maxOutputTokens: outputTokens },
    provider: providerNamed(kind),
  };
}

function usageFrom({ input_tokens, output_tokens, input_token_details, output_token_details }: UsageMetadata): Usage {
  const counts = {
    inputTokens: input_tokens,
    cacheReadTokens: input_token_details?.cache_read,
    cacheWriteTokens: input_token_details?.cache_creation,
    outputTokens: output_tokens,
    reasoningTokens: output_token_details?.reasoning,
  };
  return Object.fromEntries(Object.entries(counts).filter(([, count]) => count !== undefined));
}
