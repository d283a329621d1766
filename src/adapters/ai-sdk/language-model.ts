import type { LanguageModel } from 'ai';
import { lastValueFrom } from 'rxjs';
import type { Usage } from '../../../operators/index.js';
import { providerNamed } from '../../account/providers.js';
import { estimatorFor } from '../../tokenizers/estimate.js';
import type { AccountedCall } from '../support/accounted-call.js';
import { callOptionsOf } from '../support/call-job.js';
import type { EnteredAttempt } from '../support/entered-attempt.js';
import { heldCall, heldWork } from '../support/held-call.js';
import type { ConnectionRules } from '../support/held-rules.js';
import { heldRules } from '../support/held-rules.js';
import { readAhead } from '../support/read-ahead.js';
import { requestUsage } from '../support/token-counts.js';
import { dealtWith, shown } from './answers.js';
import { limited } from './limited-model.js';

type Callable = Exclude<LanguageModel, string>;
type Newest = Extract<Callable, { readonly specificationVersion: 'v4' }>;
type ModelUsage = Awaited<ReturnType<Newest['doGenerate']>>['usage'];

/** One call of a model as `job` sees it: the prompt, the settings, the tools. */
export type LanguageModelParams = Parameters<Newest['doGenerate']>[0];

/**
 * What surrounds each call of a model.
 * @stable
 */
export type LimitLanguageModelOptions = ConnectionRules<LanguageModelParams>;

const NAME = 'limitLanguageModel';

/**
 * Parts that are read ahead of the reader: a long answer as a whole. The SDK splits a stream among readers and never cancels it when they leave,
 * so its end is found only by reading on.
 */
const PARTS_AHEAD = 10_000;

/**
 * The same model under a limiter, whatever calls it: `generateText`, `streamText`, an agent. Each
 * attempt waits for a permit of its own, which a stream holds until the server has ended it, or has seen the connection close. What fails in a way that may
 * pass (429, 5xx, a broken connection) is sent again, after the pause the server asks for. The limiter learns from the headers, and pays the
 * usage that the answer reports.
 *
 * - **Answers** as the model does.
 * - **Rejects** with the model's own error, the same object. `isRetryable` on it is false then: the attempts are ours, and the SDK adds none,
 *   whatever its `maxRetries`. With `retry: false` it is left alone, and each attempt of the SDK waits for its permit.
 *   Also with the signal's reason when it aborts (what waits has sent nothing and costs nothing; what runs is aborted at the server), or with
 *   `DeadlineError`, `AttemptTimeoutError`, `BreakerOpenError`, `OverflowError`, `ClosedError`, `CallbackError`.
 * - **Holds** up to 10,000 parts of each stream ahead of its reader, so that its end is noticed when the reader has left. To end it earlier, abort.
 * - **Does not try again** once a stream has begun; an `error` part in it goes to the reader.
 *
 * Other middleware belongs around it: `wrapLanguageModel({ model: limitLanguageModel(model, { limiter }), middleware })`.
 *
 * @stable
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range, or `model` is not a model of a provider.
 * @example
 * ```ts
 * import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
 * import { generateText } from 'ai';
 * import { createAccount } from 'sluice';
 * import { limitLanguageModel } from 'sluice/ai-sdk';
 *
 * const answer = { choices: [{ message: { role: 'assistant', content: 'four' }, finish_reason: 'stop' }] };
 * const provider = createOpenAICompatible({ name: 'p', baseURL: 'http://host/v1', fetch: async () => Response.json(answer) });
 * const account = createAccount({ concurrency: 2, tokensPerMinute: 200_000 });
 *
 * const model = limitLanguageModel(provider('m'), { limiter: account });
 * const { text } = await generateText({ model, prompt: '2 + 2?' });
 * text; // => 'four'
 * ```
 */
export function limitLanguageModel<M extends Callable>(model: M, options: LimitLanguageModelOptions = {}): M {
  const held = heldRules(NAME, options, []);
  const { modelId, provider } = Object(model) as Partial<Newest>;
  const optionsOf = callOptionsOf<LanguageModelParams>(NAME, options, ({ prompt, tools, maxOutputTokens, responseFormat }) => {
    const { inputTokens } = requestUsage({ model: modelId, prompt, tools, response_format: responseFormat });
    return { model: modelId, tokens: { inputTokens, maxOutputTokens }, provider: providerNamed(provider) };
  });
  const how = (params: LanguageModelParams): AccountedCall => optionsOf(params, params.abortSignal);
  const last = <T>(call: Promise<T>): Promise<T> => (options.retry === false ? call : dealtWith(call));

  return limited(NAME, model, 'doGenerate', {
    doGenerate: (params: LanguageModelParams, send: Newest['doGenerate']) => {
      const generate = heldWork(held, async (attempt: EnteredAttempt) => {
        const result = await shown(send({ ...params, abortSignal: attempt.signal }), attempt);
        attempt.settle(usageOf(result.usage));
        return result;
      });
      return last(lastValueFrom(held.policy(generate, how(params))));
    },
    doStream: (params: LanguageModelParams, send: Newest['doStream']) =>
      last(
        heldCall(held, how(params), {
          open: (attempt) => shown(send({ ...params, abortSignal: attempt.signal }), attempt),
          follow: (result, over, { follow, settle }) => {
            const seen = new SeenParts(modelId ?? '');
            follow(seen);
            return {
              ...result,
              stream: readAhead(result.stream, over, {
                most: PARTS_AHEAD,
                sizeOf: () => 1,
                look: (part) => {
                  seen.add(part);
                  if (part.type === 'finish') settle(usageOf(part.usage));
                },
              }),
            };
          },
          discard: ({ stream }) => void stream.cancel().catch(() => undefined),
        }),
      ),
  });
}

/** What a stream has brought so far. */
class SeenParts {
  readonly usage = undefined;
  readonly #estimate: (text: string) => number;
  #text = '';

  constructor(model: string) {
    this.#estimate = estimatorFor(model);
  }

  add(part: object): void {
    const { delta } = part as { readonly delta?: unknown };
    if (typeof delta === 'string') this.#text += delta;
  }

  get outputTokens(): number {
    return this.#text === '' ? 0 : this.#estimate(this.#text);
  }
}

/** Version 2 of the specification counts in plain numbers. */
type AnyUsage = ModelUsage | { readonly inputTokens?: number; readonly outputTokens?: number; readonly cachedInputTokens?: number };

function usageOf(usage: AnyUsage): Usage {
  const { inputTokens, outputTokens, cachedInputTokens } = usage as Readonly<Record<string, unknown>>;
  const counts =
    typeof inputTokens === 'number' || typeof outputTokens === 'number'
      ? { inputTokens, cacheReadTokens: cachedInputTokens, outputTokens }
      : countsIn(usage as ModelUsage);
  return Object.fromEntries(Object.entries(counts).filter(([, count]) => typeof count === 'number'));
}

function countsIn({ inputTokens, outputTokens }: Partial<ModelUsage>) {
  return {
    inputTokens: inputTokens?.total,
    cacheReadTokens: inputTokens?.cacheRead,
    cacheWriteTokens: inputTokens?.cacheWrite,
    outputTokens: outputTokens?.total,
    reasoningTokens: outputTokens?.reasoning,
  };
}
