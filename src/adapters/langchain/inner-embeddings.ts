import type { EmbeddingsInterface } from '@langchain/core/embeddings';
import { AsyncCaller } from '@langchain/core/utils/async_caller';
import { noop } from 'rxjs';
import { ask, check } from '../../../operators/build.js';
import type { CallContext, Usage } from '../../../operators/index.js';
import { FlowConfigError } from '../../../operators/index.js';
import { keepOrigin } from '../../pipelines/keep-origin.js';
import { isLimited } from '../../pipelines/limited.js';
import type { Over } from '../support/held-call.js';
import { followBody } from '../support/http-call.js';

type Fetch = typeof globalThis.fetch;

/** What makes the vectors, or what makes that around a `fetch`. */
export type InnerEmbeddings = EmbeddingsInterface | ((fetch: Fetch) => EmbeddingsInterface);

/** The embeddings behind others. */
export interface Inner {
  /** The most texts they send in one request; undefined when they do not say. */
  readonly batchSize: number | undefined;
  /** What they call; undefined when they do not say. */
  readonly model: string | undefined;
  /** Those for one call. */
  of(context: CallContext): EmbeddingsInterface;
}

/** Makes each call once and at once: waiting and trying again are done here. */
const ONCE = /* @__PURE__ */ new AsyncCaller({ maxRetries: 0, onFailedAttempt: () => undefined });

/** The permit is that of the batch. */
const UNHELD: Over = {
  ended: () => undefined,
  failed: (error) => error,
  left: () => undefined,
  abandoned: () => undefined,
  onFault: () => undefined,
  soon: (cut) => {
    cut();
  },
  signal: undefined,
  unread: () => undefined,
};

const globalFetch: Fetch = (input, init) => globalThis.fetch(input, init);

/** @throws FlowConfigError when the embeddings are none */
export function innerEmbeddings(operator: string, embeddings: InnerEmbeddings, fetch: Fetch | undefined): Inner {
  const isMade = typeof embeddings === 'function';
  const given = check.requiredFunction(operator, 'fetch', check.orDefault(fetch, globalFetch));
  const base = keepOrigin(given);
  if (!isMade)
    check.needs(
      operator,
      'fetch',
      fetch,
      'a function in `embeddings`',
      'Use `(fetch) => new OpenAIEmbeddings({ configuration: { fetch } })`.',
    );
  if (isLimited(fetch)) throw check.misused(operator, 'fetch', '`fetch` has a limiter already', 'Pass the original `fetch`.');
  const around = (its: Fetch): EmbeddingsInterface => checked(operator, isMade ? ask(operator, 'embeddings', embeddings, its) : embeddings);
  const { batchSize, model } = around(base) as { readonly batchSize?: unknown; readonly model?: unknown };
  return {
    batchSize: typeof batchSize === 'number' ? batchSize : undefined,
    model: typeof model === 'string' && model !== '' ? model : undefined,
    of: (context) => around(fetchOf(base, context)),
  };
}

/** The same, but they repeat nothing themselves. */
function checked(operator: string, inner: EmbeddingsInterface): EmbeddingsInterface {
  const given = Object(inner) as Readonly<Record<string, unknown>>;
  if (!['embedDocuments', 'embedQuery'].every((method) => typeof given[method] === 'function'))
    throw new FlowConfigError(operator, 'embeddings', 'LangChain embeddings, or a function that makes some', inner);
  if ('caller' in inner) inner.caller = ONCE;
  return inner;
}

/** A `fetch` for one call: it ends with the call, and tells the limiter what the server says. */
function fetchOf(base: Fetch, context: CallContext): Fetch {
  return async (input, init) => {
    const own = init?.signal ?? (input instanceof Request ? input.signal : undefined);
    const response = await base(input, { ...init, signal: own ? AbortSignal.any([context.signal, own]) : context.signal });
    context.observe(response);
    const settle = (usage: Usage): void => {
      context.settle(usage);
    };
    return followBody(response, UNHELD, { settle, follow: noop, whole: noop });
  };
}
