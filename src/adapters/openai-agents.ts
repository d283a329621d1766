import { lastValueFrom } from 'rxjs';
// Nothing of it is used at run time. It is imported all the same: without it, the error names the missing package, here and at once.
import '@openai/agents';
import type { Model, ModelProvider, ModelRequest } from '@openai/agents';
import type { Usage } from '../../operators/index.js';
import { FlowConfigError } from '../../operators/index.js';
import type { AccountedCall } from './support/accounted-call.js';
import type { RequestFacts } from './support/call-job.js';
import { callOptionsOf } from './support/call-job.js';
import type { EnteredAttempt } from './support/entered-attempt.js';
import { heldWork } from './support/held-call.js';
import { heldEach } from './support/held-each.js';
import type { ConnectionRules } from './support/held-rules.js';
import { heldRules } from './support/held-rules.js';
import { learned } from './support/observed.js';
import { requestUsage } from './support/token-counts.js';

/**
 * What surrounds each request to a model.
 * @beta
 */
export type ModelRules = ConnectionRules<ModelRequest>;

/** Gives a model its limits. */
type Limit = (model: Model, name?: string) => Model;

/**
 * A model whose requests keep to a limiter, for agents of `@openai/agents`. Each attempt waits for a permit, which it holds until the
 * answer is here, or until the stream has ended, has failed or was left. What fails in a way that may pass (429, 5xx, a broken connection)
 * is sent again, after the pause the provider asks for; a stream only until its first event. The limiter pays what the answer says it has cost,
 * and learns from the headers of refusals: those of good answers are not shown to a model of this SDK.
 *
 * - **Answers** as the model does. A stream is read as fast as its reader reads.
 * - **Rejects** with the model's own error, as the same object, when there are no more attempts; with the signal's reason when that aborts:
 *   what waits has sent nothing and costs nothing. Else with `DeadlineError`, `AttemptTimeoutError`, `BreakerOpenError`, `RateLimitError`,
 *   `OverflowError` or `ClosedError`.
 * - **Retries** of the OpenAI client behind the model are off. The runner is advised against those of `modelSettings.retry`, which would
 *   make all attempts anew.
 *
 * `modelSettings.timeoutMs` runs while a request waits here; `timeoutMs` of these options begins with the permit.
 *
 * @beta
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range, or `model` is no model.
 * @example
 * ```ts
 * import { Agent, type AgentOutputItem, run, setTracingDisabled, Usage } from '@openai/agents';
 * import { createAccount } from 'sluice';
 * import { limitModel } from 'sluice/openai-agents';
 *
 * setTracingDisabled(true);
 * const said: AgentOutputItem = { type: 'message', role: 'assistant', status: 'completed', content: [{ type: 'output_text', text: '4' }] };
 * const model = { getResponse: async () => ({ usage: new Usage(), output: [said] }), async *getStreamedResponse() {} };
 *
 * const account = createAccount({ concurrency: 2, requestsPerMinute: 600 });
 * const agent = new Agent({ name: 'Adder', model: limitModel(model, { limiter: account }) });
 * const { finalOutput } = await run(agent, '2 + 2?');
 * finalOutput; // => '4'
 * ```
 */
export function limitModel(model: Model, options: ModelRules = {}): Model {
  const limit = limits('limitModel', options);
  if (typeof (Object(model) as Partial<Model>).getResponse === 'function') return limit(model);
  throw new FlowConfigError('limitModel', 'model', 'a model of @openai/agents', model);
}

/**
 * A provider whose models all keep to the same limits: see {@link limitModel}. Close the provider that you gave, not this one.
 *
 * @beta
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range, or `provider` is no provider.
 * @example
 * ```ts
 * import { OpenAIProvider, Runner } from '@openai/agents';
 * import { createAccount } from 'sluice';
 * import { limitModelProvider } from 'sluice/openai-agents';
 *
 * const account = createAccount({ concurrency: 2, requestsPerMinute: 600 });
 * const provider = new OpenAIProvider({ apiKey: 'secret' });
 * const runner = new Runner({ modelProvider: limitModelProvider(provider, { limiter: account }), tracingDisabled: true });
 * typeof runner.run; // => 'function'
 * ```
 */
export function limitModelProvider(provider: ModelProvider, options: ModelRules = {}): ModelProvider {
  const limit = limits('limitModelProvider', options);
  if (typeof (Object(provider) as Partial<ModelProvider>).getModel === 'function')
    return { getModel: async (name) => limit(await provider.getModel(name), name) };
  throw new FlowConfigError('limitModelProvider', 'provider', 'a model provider of @openai/agents', provider);
}

function limits(name: string, options: ModelRules): Limit {
  const held = heldRules(name, options, []);
  const optionsOf = callOptionsOf<Asked>(name, forRequest(options), factsOf);
  const how = (request: ModelRequest, model: string | undefined): AccountedCall => optionsOf({ request, model }, request.signal);

  return (model, modelName) => ({
    ...(model.supportsPromptModelSelection !== undefined && { supportsPromptModelSelection: model.supportsPromptModelSelection }),
    getResponse: async (request) => {
      const respond = heldWork(held, async (attempt: EnteredAttempt) => {
        const response = await learned(model.getResponse(attemptOf(request, attempt.signal)), attempt);
        attempt.settle(usageOf(response.usage));
        return response;
      });
      return lastValueFrom(held.policy(respond, how(request, modelName)));
    },
    getStreamedResponse: (request) =>
      heldEach(held, how(request, modelName), {
        open: (attempt) => learnedEach(model.getStreamedResponse(attemptOf(request, attempt.signal)), attempt),
        look: (event, { settle }) => {
          if (event.type === 'response_done') settle(usageOf(event.response.usage));
        },
      }),
    getRetryAdvice: async (failed) => {
      const advice = await model.getRetryAdvice?.(failed);
      // The runner asks when our attempts are used up.
      return options.retry === false ? advice : { ...advice, suggested: false };
    },
  });
}

/** The same events; the limiter learns from what a stream fails with before its first one. */
function learnedEach<T>(events: AsyncIterable<T>, attempt: EnteredAttempt): AsyncIterable<T> {
  return {
    [Symbol.asyncIterator]: () => {
      const iterator = events[Symbol.asyncIterator]();
      return { ...(iterator.return && { return: iterator.return.bind(iterator) }), next: () => learned(iterator.next(), attempt) };
    },
  };
}

/**
 * The request as one attempt sends it. The mark is the runner's own, for when it makes the attempts itself: the models of OpenAI then have
 * their client make but one. It is put on the object that is there, which the runner knows again.
 */
function attemptOf(request: ModelRequest, signal: AbortSignal): ModelRequest {
  const { _internal = {} } = request as { readonly _internal?: object };
  return { ...request, signal, ...{ _internal: Object.assign(_internal, { runnerManagedRetry: true }) } };
}

interface Asked {
  readonly request: ModelRequest;
  readonly model: string | undefined;
}

/** `job` sees the request alone. */
function forRequest({ job, ...options }: ModelRules): ConnectionRules<Asked> {
  if (typeof job !== 'function') return { ...options, ...(job !== undefined && { job }) };
  // Without a limiter it is refused as it is.
  return { ...options, job: options.limiter === undefined ? (job as never) : ({ request }: Asked) => job(request) };
}

function factsOf({ request, model }: Asked): RequestFacts {
  const { systemInstructions, input, tools, handoffs, modelSettings } = request;
  const { inputTokens } = requestUsage({
    model,
    instructions: systemInstructions,
    input,
    ...(tools.length + handoffs.length > 0 && { tools: [...tools, ...handoffs] }),
  });
  return { model, tokens: { inputTokens, maxOutputTokens: modelSettings.maxTokens } };
}

interface AgentUsage {
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly inputTokensDetails?: Details;
  readonly outputTokensDetails?: Details;
}

/** One for each request that the usage is of, or one. */
type Details = Readonly<Record<string, number>> | readonly Readonly<Record<string, number>>[] | undefined;

function usageOf({ inputTokens, outputTokens, inputTokensDetails, outputTokensDetails }: AgentUsage): Usage {
  const read = detail(inputTokensDetails, 'cached_tokens');
  const reasoning = detail(outputTokensDetails, 'reasoning_tokens');
  return {
    ...{ inputTokens, outputTokens },
    ...(read !== undefined && { cacheReadTokens: read }),
    ...(reasoning !== undefined && { reasoningTokens: reasoning }),
  };
}

function detail(details: Details, name: string): number | undefined {
  const all = (Array.isArray(details) ? details : [details]) as readonly (Readonly<Record<string, number>> | undefined)[];
  const known = all.flatMap((each) => each?.[name] ?? []);
  return known.length === 0 ? undefined : known.reduce((sum, tokens) => sum + tokens, 0);
}
