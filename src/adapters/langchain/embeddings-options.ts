import type { BatcherOptions } from '../../../operators/create-batcher.js';
import { createLimiter } from '../../../operators/create-limiter.js';
import { schedulerOption } from '../../../operators/support/alarm.js';
import type { GatedBatchOptions } from '../../../operators/support/batching/batch-options.js';
import { FlowConfigError } from '../../../operators/support/errors.js';
import { LaneTable } from '../../../operators/support/lanes.js';
import { limiterOption } from '../../../operators/support/limiting/limiter-option.js';
import { callback, count, known, oneOf, orDefault, positive } from '../../../operators/support/options.js';
import type { LaneOptions } from '../../../operators/support/types.js';
import { EMBEDDER_DEFAULTS } from '../../pipelines/embedder-options.js';
import { createTokenEstimator } from '../../tokenizers/estimate.js';
import type { Inner, InnerOptions } from './inner-embeddings.js';
import { innerEmbeddings } from './inner-embeddings.js';

const SHARED = [
  'limiter',
  'window',
  'maxQueued',
  'overflow',
  'lanes',
  'classify',
  'retry',
  'split',
  'attemptTimeoutMs',
  'itemDeadlineMs',
  'onEvent',
  'scheduler',
  'random',
] as const satisfies readonly (keyof GatedBatchOptions<string>)[];

const OPTIONS: readonly string[] = [
  ...['embeddings', 'fetch', 'queries', 'maxSize', 'maxTokens', 'maxTokensPerText', 'countTokens', 'concurrency'],
  ...SHARED,
];

export interface FlowEmbeddingsOptions extends InnerOptions, Pick<GatedBatchOptions<string>, (typeof SHARED)[number]> {
  /**
   * Whether questions travel `'together'` with the documents, or each `'alone'` through `embedQuery` of the `embeddings`: for models that make
   * another vector of a text when it is a question (Cohere, Voyage, E5), the first gives the wrong one. @defaultValue 'alone'
   */
  readonly queries?: 'together' | 'alone';
  /** Most texts in one call. @defaultValue the `batchSize` of the `embeddings`, above which they would cut it up themselves, or 512 */
  readonly maxSize?: number;
  /** Most tokens in one call, as `countTokens` counts. @defaultValue 250000 */
  readonly maxTokens?: number;
  /** Most tokens in one text; a longer one is rejected unsent. @defaultValue Infinity: the provider knows */
  readonly maxTokensPerText?: number;
  /** @defaultValue the built-in estimate with a margin of 15 % */
  readonly countTokens?: (text: string) => number;
  /** Calls at a time. Not together with `limiter`. @defaultValue 4 */
  readonly concurrency?: number;
}

/** What {@link FlowEmbeddings} does when an option is left out. */
export const FLOW_EMBEDDINGS_DEFAULTS = /* @__PURE__ */ (() =>
  ({
    queries: 'alone',
    maxSize: 512,
    maxTokens: EMBEDDER_DEFAULTS.maxTokens,
    maxTokensPerText: Infinity,
    concurrency: EMBEDDER_DEFAULTS.concurrency,
    maxQueued: EMBEDDER_DEFAULTS.maxQueued,
    window: EMBEDDER_DEFAULTS.window,
    lanes: EMBEDDER_DEFAULTS.lanes,
  }) as const)();

export const NAME = 'FlowEmbeddings';

/** What the embeddings are made of. */
interface Parts {
  readonly inner: Inner;
  /** Of the batches. */
  readonly batches: BatcherOptions<string>;
  /** Most documents in one. */
  readonly maxSize: number;
  readonly urgentLane: string;
  readonly areQueriesAlone: boolean;
}

/** @throws FlowConfigError naming the option */
export function partsOf(options: FlowEmbeddingsOptions): Parts {
  known(NAME, options, OPTIONS);
  const d = FLOW_EMBEDDINGS_DEFAULTS;
  const { embeddings, fetch, queries, maxSize, maxTokens, maxTokensPerText, countTokens, concurrency, limiter, ...shared } = options;
  const inner = innerEmbeddings(NAME, { embeddings, ...(fetch !== undefined && { fetch }) });
  const most = inner.batchSize ?? d.maxSize;
  const size = count(NAME, 'maxSize', orDefault(maxSize, most));
  if (size > most) throw new FlowConfigError(NAME, 'maxSize', `at most ${String(most)}, the \`batchSize\` of the embeddings`, size);
  const lanes: readonly LaneOptions[] = orDefault(options.lanes, d.lanes);
  const maxQueued = count(NAME, 'maxQueued', orDefault(options.maxQueued, d.maxQueued));
  const table = new LaneTable(NAME, lanes, { maxQueued, overflow: 'error', fairness: 'strict' });
  return {
    inner,
    maxSize: size,
    urgentLane: table.names[0] as string,
    areQueriesAlone: oneOf(NAME, 'queries', orDefault(queries, d.queries), ['together', 'alone']) === 'alone',
    batches: {
      window: d.window,
      ...shared,
      maxQueued,
      lanes,
      limiter:
        limiterOption(NAME, limiter, concurrency) ??
        createLimiter({
          concurrency: count(NAME, 'concurrency', orDefault(concurrency, d.concurrency)),
          lanes: table.lanes.map(({ name, floor }) => ({ name, floor })),
          maxQueued: Infinity,
          scheduler: schedulerOption(NAME, 'scheduler', options.scheduler),
        }),
      weigh: callback(NAME, 'countTokens', countTokens) ?? createTokenEstimator(),
      maxWeight: positive(NAME, 'maxTokens', orDefault(maxTokens, d.maxTokens)),
      hardMaxWeight: positive(NAME, 'maxTokensPerText', orDefault(maxTokensPerText, d.maxTokensPerText)),
      dedupe: (text) => text,
    },
  };
}
