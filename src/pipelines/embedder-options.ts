import type { ObservableInput } from 'rxjs';
import { FlowConfigError } from '../../operators/errors.js';
import { lanes } from '../../operators/lanes.js';
import { nonEmpty, onlyKnown, optional, show } from '../../operators/toolkit.js';
import type { CallContext } from '../../operators/types.js';
import { graded } from '../../operators/windows.js';
import type { BudgetPort } from './budget/budget-types.js';
import type { EndpointOptions } from './endpoint.js';
import type { EmbedderRules } from './text-batches.js';
import { BATCH_RULES, TEXT_RULES } from './text-batches.js';

/** Whose errors and events these are. */
export const NAME = 'createEmbedder';

/** What calls may cost. */
export interface EmbedderSpend {
  /** Made by `createBudget`: each call is charged before it is sent, as one of `model`. @defaultValue none */
  readonly budget?: BudgetPort;
}

/** An embedder over an OpenAI-compatible `/embeddings`. */
export interface EmbedderOptions extends EndpointOptions, EmbedderRules, EmbedderSpend {
  /** Length of the vectors, for models that can shorten them. @defaultValue the model's own */
  readonly dimensions?: number;
  readonly call?: never;
}

/**
 * Sends texts and answers their vectors: as many, in the order of the texts. The last value is the answer. Give `context.signal` to the
 * client, and tell `context.settle` and `context.observe` what its answer says about tokens and limits. An `Error` in place of a vector
 * is that of its text alone.
 */
export type EmbedCall = (texts: readonly string[], context: CallContext) => ObservableInput<readonly (ArrayLike<number> | Error)[]>;

/** An embedder over a client of yours: any SDK, `fetch`, a model in the process. */
export interface ClientEmbedderOptions
  extends EmbedderRules,
    EmbedderSpend,
    Partial<Record<Exclude<keyof EndpointOptions, 'model'> | 'dimensions', never>> {
  /** Turns texts into vectors. Not together with `baseUrl` and what belongs to it. */
  readonly call: EmbedCall;
  /** What a budget knows the calls by: it finds their price, and the limits of that model. @defaultValue 'default' */
  readonly model?: string;
}

export const EMBEDDER_DEFAULTS = /* @__PURE__ */ (() => ({
  maxSize: 2048,
  maxTokens: 250_000,
  maxTokensPerText: 8191,
  concurrency: 4,
  maxQueued: 10_000,
  window: graded(50),
  // A question must not wait for a thousand background texts to be embedded beside it.
  queue: lanes([{ name: 'user', maxWaitMs: 0, piggyback: false }, { name: 'normal', maxWaitMs: 20 }, { name: 'background' }], {
    // Those that name none share one.
    key: () => undefined,
  }),
}))();

const ENDPOINT: readonly string[] = ['baseUrl', 'apiKey', 'headers', 'fetch', 'dimensions'];

/** Which of the two kinds of options they are; nothing of the other is among them. @throws FlowConfigError */
export function isOverClient(options: EmbedderOptions | ClientEmbedderOptions): options is ClientEmbedderOptions {
  onlyKnown(NAME, options, ['maxSize', ...BATCH_RULES, ...TEXT_RULES, 'budget', 'model', ...ENDPOINT, 'call']);
  const given: Readonly<Record<string, unknown>> = { ...options };
  if (given['call'] === undefined) {
    if (given['baseUrl'] === undefined) throw new FlowConfigError(NAME, 'baseUrl', 'given, or a `call`', undefined);
    return false;
  }
  for (const name of ENDPOINT) {
    const value = given[name];
    // One of them is a key.
    const shown = typeof value === 'string' ? 'a string' : show(value);
    if (value !== undefined) throw new FlowConfigError(NAME, name, 'absent when a `call` is given', undefined, shown);
  }
  optional<string>(nonEmpty)(NAME, 'model', options.model);
  return true;
}
