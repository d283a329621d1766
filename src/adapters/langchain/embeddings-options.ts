import type { SchedulerLike } from 'rxjs';
import { FlowConfigError } from '../../../operators/errors.js';
import { oneOf, onlyKnown, orDefault, schedulerOption } from '../../../operators/toolkit.js';
import { EMBEDDER_DEFAULTS } from '../../pipelines/embedder-options.js';
import type { EmbedderRules, TextBatches } from '../../pipelines/text-batches.js';
import { BATCH_RULES, TEXT_RULES, textBatches } from '../../pipelines/text-batches.js';
import type { Inner, InnerEmbeddings } from './inner-embeddings.js';
import { innerEmbeddings } from './inner-embeddings.js';

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
  readonly areQueriesAlone: boolean;
  readonly scheduler: SchedulerLike;
}

/** @throws FlowConfigError naming the option */
export function partsOf(embeddings: InnerEmbeddings, options: LimitEmbeddingsOptions): Parts {
  onlyKnown(NAME, options, ['fetch', 'queries', 'maxSize', ...TEXT_RULES, ...BATCH_RULES]);
  const d = DEFAULTS;
  const inner = innerEmbeddings(NAME, embeddings, options.fetch);
  const most = inner.batchSize ?? d.maxSize;
  const batches = textBatches(NAME, options, { ...d, maxSize: most }, { model: inner.model });
  const { maxSize } = batches.options;
  if (maxSize > most) throw new FlowConfigError(NAME, 'maxSize', `at most ${String(most)}, the \`batchSize\` of the embeddings`, maxSize);
  const queries = oneOf('together', 'alone')(NAME, 'queries', orDefault(options.queries, d.queries));
  const scheduler = schedulerOption(NAME, 'scheduler', options.scheduler);
  return { inner, batches, areQueriesAlone: queries === 'alone', scheduler };
}
