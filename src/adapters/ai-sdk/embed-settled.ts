import type { wrapEmbeddingModel } from 'ai';
import * as ai from 'ai';
import { check } from '../../../operators/build.js';
import type { Settled } from '../../../operators/index.js';
import { FlowConfigError } from '../../../operators/index.js';
import { needsPeer } from '../../peer-version.js';
import { checkTextList, settleTexts } from '../../pipelines/text-check.js';
import { relayedSignal } from '../support/relayed-signal.js';
import type { EmbeddingRules, Model, Opened, Params } from './embeddings.js';
import { opener } from './embeddings.js';

// Version 5 has neither it nor the middleware for embeddings.
needsPeer('sluice/ai-sdk', 'ai', '^6.0.0 || ^7.0.0', (ai as Partial<typeof ai>).wrapEmbeddingModel !== undefined);

/** @beta */
export interface EmbedSettledOptions extends EmbeddingRules, Pick<Params, 'headers' | 'providerOptions'> {
  // Not picked: the parameters of AI SDK 6 have none.
  /** Length of the vectors, for models that can shorten them; read by those of AI SDK 7. @defaultValue the model's own */
  readonly dimensions?: number;
  /** A model of a provider, as `embedMany` takes it; not one made by `limitEmbeddingModel`, which would wait for permits again. */
  readonly model: Parameters<typeof wrapEmbeddingModel>[0]['model'];
  readonly values: readonly string[];
  /** What has no vector when it aborts is rejected with its reason. */
  readonly signal?: AbortSignal;
}

const NAME = 'embedSettled';

/**
 * Embeds any number of values, and tells of each one what became of it: a bad value costs nobody else's vector. Requests have at most
 * as many values as the model takes (`maxEmbeddingsPerCall`); one that is refused because of some of them is taken apart until those stand
 * alone.
 *
 * - **Answers** when every value has settled, in the order of the values. Never rejects because of what the model says.
 * - **Sends** nothing for no values, and nothing more once `signal` has aborted.
 *
 * @beta
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range.
 * @example
 * ```ts
 * import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
 * import { embedSettled } from 'sluice/ai-sdk';
 *
 * const fetch = async (_url: unknown, request?: RequestInit) => {
 *   const { input } = JSON.parse(String(request?.body)) as { input: string[] };
 *   if (input.includes('bad')) return Response.json({ error: { message: 'refused' } }, { status: 400 });
 *   return Response.json({ data: input.map((text) => ({ embedding: [text.length] })) });
 * };
 * const provider = createOpenAICompatible({ name: 'p', baseURL: 'http://host/v1', fetch });
 *
 * const settled = await embedSettled({ model: provider.embeddingModel('m'), values: ['a', 'bad', 'abc'] });
 * settled.map((one) => (one.status === 'fulfilled' ? one.value : String(one.reason))); // => [[1], 'AI_APICallError: refused', [3]]
 * ```
 */
export function embedSettled(options: EmbedSettledOptions): Promise<Settled<string, number[]>[]> {
  const open = opener(NAME, options, ['model', 'values', 'signal', 'dimensions', 'headers', 'providerOptions']);
  const { model, values, signal, dimensions, headers, providerOptions } = options;
  if (typeof (Object(model) as Partial<Model>).doEmbed !== 'function')
    throw new FlowConfigError(NAME, 'model', 'an embedding model of a provider', model);
  checkTextList(NAME, 'values', values);
  if (signal !== undefined) check.requiredSignal(NAME, 'signal', signal);
  const params = {
    ...(dimensions !== undefined && { dimensions }),
    ...(headers !== undefined && { headers }),
    ...(providerOptions !== undefined && { providerOptions }),
  };
  // Whatever version of the specification it is of.
  return settleAll(open(ai.wrapEmbeddingModel({ model, middleware: [] }), params), values, signal);
}

async function settleAll(
  opened: Promise<Opened>,
  values: readonly string[],
  signal: AbortSignal | undefined,
): Promise<Settled<string, number[]>[]> {
  const { batcher, close } = await opened;
  const own = signal && relayedSignal(signal);
  const settled = await settleTexts(NAME, 'values', batcher, values, own && { signal: own.signal });
  own?.stop();
  close();
  return settled;
}
