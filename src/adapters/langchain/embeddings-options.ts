import type { SchedulerLike } from 'rxjs';
import { check } from '../../../operators/build.js';
import type { FlowSink, Limiter } from '../../../operators/index.js';
import { classifyError, createAccount, FlowConfigError, lanes as queueOf } from '../../../operators/index.js';
import { EMBEDDER_DEFAULTS } from '../../pipelines/defaults.js';
import type { EmbedderRules, TextBatches } from '../../pipelines/text-batches.js';
import { TEXT_HINTS, TEXT_RULES, textBatches } from '../../pipelines/text-batches.js';
import { withoutEnd } from '../../pipelines/without-end.js';
import { encodingOf } from '../../tokenizers/encoding-of.js';
import { estimatorOf } from '../../tokenizers/estimate.js';
import type { Inner, InnerEmbeddings } from './inner-embeddings.js';
import { innerEmbeddings } from './inner-embeddings.js';

/** @stable */
export interface LimitEmbeddingsOptions extends EmbedderRules {
  /** What sends the requests; for `embeddings` that are made around a `fetch`. @defaultValue the global `fetch` */
  readonly fetch?: typeof globalThis.fetch;
  /**
   * Whether questions travel `'together'` with the documents, or each `'alone'` through `embedQuery` of the `embeddings`: for models that make
   * another vector of a text when it is a question (Cohere, Voyage, E5), the first gives the wrong one. @defaultValue 'alone'
   */
  readonly queries?: 'together' | 'alone';
  /** Most texts in one call. @defaultValue the `batchSize` of the `embeddings`, above which they would cut it up themselves, or 512 */
  readonly maxSize?: number;
  /** Most tokens in one text; a longer one is rejected unsent. @defaultValue Infinity: the provider knows */
  readonly maxTokensPerText?: number;
}

const DEFAULTS = /* @__PURE__ */ (() => ({ ...EMBEDDER_DEFAULTS, queries: 'alone', maxSize: 512, maxTokensPerText: Infinity }) as const)();

export const NAME = 'limitEmbeddings';

/** What the embeddings are made of. */
interface Parts {
  readonly inner: Inner;
  readonly batches: TextBatches;
  /** Closed with the rest: otherwise it would wait for cancelled calls that still run. */
  readonly ownLimiter: Limiter | undefined;
  readonly areQueriesAlone: boolean;
  readonly scheduler: SchedulerLike;
}

/** @throws FlowConfigError naming the option */
export function partsOf(embeddings: InnerEmbeddings, options: LimitEmbeddingsOptions): Parts {
  check.onlyKnown(NAME, options, ['fetch', 'queries', ...TEXT_RULES], 'options', '', TEXT_HINTS);
  const d = DEFAULTS;
  const inner = innerEmbeddings(NAME, embeddings, options.fetch);
  const most = inner.batchSize ?? d.maxSize;
  const ownLimiter = options.limiter === undefined ? newLimiter(options) : undefined;
  const rules = ownLimiter ? { ...options, concurrency: undefined, limiter: ownLimiter } : options;
  const client = { model: inner.model, classify: classifyError, estimateTokens: estimatorOf(encodingOf(inner.model), 1) };
  const batches = textBatches(NAME, rules as LimitEmbeddingsOptions, { ...d, maxSize: most }, client);
  const { maxSize } = batches.options;
  if (maxSize > most) throw new FlowConfigError(NAME, 'maxSize', `at most ${String(most)}, the \`batchSize\` of the embeddings`, maxSize);
  const queries = check.oneOf('together', 'alone')(NAME, 'queries', check.orDefault(options.queries, d.queries));
  const scheduler = check.scheduler(NAME, 'scheduler', options.scheduler);
  return { inner, batches, ownLimiter, areQueriesAlone: queries === 'alone', scheduler };
}

/** Shared by questions and documents. */
function newLimiter({ concurrency, lanes, scheduler, onEvent }: LimitEmbeddingsOptions): Limiter {
  const names = queueOf(check.orDefault(lanes, DEFAULTS.lanes), { operator: NAME }).lanes.map(({ name }) => name);
  const listener: FlowSink | undefined = check.callback(NAME, 'onEvent', onEvent);
  return createAccount({
    concurrency: check.count(NAME, 'concurrency', check.orDefault(concurrency, DEFAULTS.concurrency)),
    lanes: names,
    scheduler: check.scheduler(NAME, 'scheduler', scheduler),
    ...(listener && { onEvent: withoutEnd(listener) }),
  });
}
