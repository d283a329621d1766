import type { ObservableInput } from 'rxjs';
import { from, map } from 'rxjs';
import { check } from '../../operators/build.js';
import type { BatchWork, CallContext } from '../../operators/index.js';
import { BatchShapeError, FlowConfigError } from '../../operators/index.js';
import { providerOption } from '../account/providers.js';
import { untilClosed } from './connection.js';
import type { EmbedderRules, TextClient } from './text-batches.js';
import { TEXT_HINTS, TEXT_RULES } from './text-batches.js';
import { VectorCheck } from './vector-check.js';

/** Whose errors and events these are. */
export const NAME = 'createEmbedder';

/**
 * Sends texts and answers their vectors: as many, in the order of the texts. The last value is the answer. Give `context.signal` to the
 * client, and tell `context.settle` and `context.observe` what its answer says about tokens and limits. An `Error` in place of a vector
 * is that of its text alone.
 * @beta
 */
export type EmbedCall = (texts: readonly string[], context: CallContext) => ObservableInput<readonly (ArrayLike<number> | Error)[]>;

/**
 * What sends texts and knows its API: `embeddings(…)` and `openAIEmbeddings(client)` make one, and an object of your own is one as well.
 * @beta
 */
export interface EmbedClient extends TextClient {
  readonly embed: EmbedCall;
}

/**
 * Options of `createEmbedder`.
 * @beta
 */
export interface EmbedderOptions extends EmbedderRules {
  /** Turns texts into vectors: a function over any SDK, `fetch` or a model in the process, or a client such as `embeddings({ baseUrl, model, apiKey })`. */
  readonly call: EmbedCall | EmbedClient;
  /** What an account knows the calls by: finds their price, and the limits of that model. @defaultValue that of the client, else 'default' */
  readonly model?: string;
}

const API = 'Use `call: embeddings({ baseUrl, model, … })`.';
const HINTS = { ...TEXT_HINTS, baseUrl: API, apiKey: API, headers: API, fetch: API, dimensions: API };

/** What sends the texts. @throws FlowConfigError */
export function clientOf(options: EmbedderOptions): EmbedClient {
  check.onlyKnown(NAME, options, ['call', 'model', ...TEXT_RULES], 'options', '', HINTS);
  const { call, model } = options;
  if (typeof call !== 'function' && (typeof (call as unknown) !== 'object' || (call as unknown) === null))
    throw new FlowConfigError(NAME, 'call', 'a function, or a client such as `embeddings({ … })`', call);
  const client = typeof call === 'function' ? { embed: call } : call;
  check.onlyKnown(NAME, client, ['embed', 'model', 'provider', 'classify', 'estimateTokens'], 'call', 'call.');
  check.requiredFunction(NAME, 'call.embed', client.embed);
  for (const name of ['classify', 'estimateTokens'] as const) check.callback(NAME, `call.${name}`, client[name]);
  providerOption(NAME, 'call.provider', client.provider);
  if (client.model !== undefined) check.nonEmpty(NAME, 'call.model', client.model);
  return model === undefined ? client : { ...client, model: check.nonEmpty(NAME, 'model', model) };
}

/** What is done with a batch of texts. @throws FlowConfigError */
export function embedderWork({ embed }: EmbedClient, options: EmbedderOptions): BatchWork<string, Float32Array> {
  const vectors = new VectorCheck(NAME);
  const scheduler = check.scheduler(NAME, 'scheduler', options.scheduler);
  return (texts, context) => {
    const answered = (answer: unknown): readonly (Float32Array | Error)[] => {
      if (!Array.isArray(answer)) throw new BatchShapeError(NAME, texts.length, 0, 'expected the call to answer an array of vectors');
      return vectors
        .checked(answer)
        .map((vector) => (vector instanceof Error || vector instanceof Float32Array ? vector : Float32Array.from(vector)));
    };
    const input = embed(texts, context);
    // A promise stays one: it keeps its permit until it is really over, also at the server.
    return typeof (Object(input) as Partial<PromiseLike<unknown>>).then === 'function'
      ? untilClosed(Promise.resolve(input as PromiseLike<unknown>).then(answered), context, scheduler)
      : from(input).pipe(map(answered));
  };
}
