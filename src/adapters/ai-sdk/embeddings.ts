import type { EmbeddingModelMiddleware } from 'ai';
import { classifyError } from '../../../operators/classify-error.js';
import { FlowBatcher } from '../../../operators/create-batcher.js';
import { lanes } from '../../../operators/lanes.js';
import type { DivideOptions } from '../../../operators/repair.js';
import { DIVIDE_OPTIONS, divideAndConquer } from '../../../operators/repair.js';
import {
  batchConfig,
  callback,
  durationMs,
  group,
  onlyKnown,
  orDefault,
  positive,
  schedulerOption,
  whenGivenUp,
} from '../../../operators/toolkit.js';
import type { GateOptions } from '../../../operators/types.js';
import { natural } from '../../../operators/windows.js';
import { untilClosed } from '../../pipelines/connection.js';
import { retryOf } from '../../retry.js';
import { createTokenEstimator } from '../../tokenizers/estimate.js';
import { onlyLane } from '../support/call-job.js';
import type { CallRules } from '../support/call-rules.js';
import { CALL_RULES_DEFAULTS } from '../support/call-rules.js';
import { shown } from './answers.js';

export type Model = Parameters<NonNullable<EmbeddingModelMiddleware['wrapEmbed']>>[0]['model'];
export type Params = Parameters<Model['doEmbed']>[0];
export type Result = Awaited<ReturnType<Model['doEmbed']>>;

/** What surrounds each request for embeddings. */
export interface EmbeddingRules extends Omit<CallRules, 'breaker' | 'whenOpen'> {
  /** How the bad values of a request that failed are found; false: they are not. @defaultValue those of `divideAndConquer` */
  readonly split?: DivideOptions | false;
  /** Lane of the limiter. @defaultValue the last, least urgent one */
  readonly lane?: string;
  /** Requests at a time for one list of values. Not together with `limiter`. @defaultValue 4, and 1 for a model that supports no parallel calls */
  readonly concurrency?: number;
  /** Tokens of a value: what a request takes from the limiter. @defaultValue the built-in estimate with a margin of 15 % */
  readonly countTokens?: (value: string) => number;
}

/** Rules that are options of a batcher as they are. */
const SHARED = ['limiter', 'concurrency', 'classify', 'onEvent', 'scheduler', 'random'] as const;
const RULES: readonly string[] = [
  ...['limiter', 'concurrency', 'retry', 'split', 'classify', 'onEvent', 'scheduler', 'random'],
  ...['lane', 'countTokens', 'deadlineMs', 'timeoutMs'],
];

export interface Opened {
  readonly batcher: FlowBatcher<string, number[]>;
  /** To be called at the end. */
  readonly close: () => void;
  /** Of the requests that were answered well. */
  readonly answers: readonly Result[];
}

/** Checks the rules. What it returns makes a batcher for one list of values: they travel together because they share their parameters. */
export function opener(
  name: string,
  rules: EmbeddingRules,
  own: readonly string[],
): (model: Model, params: Omit<Params, 'values' | 'abortSignal'>) => Promise<Opened> {
  onlyKnown(name, rules, [...RULES, ...own]);
  const { limiter, lane, concurrency, countTokens } = rules;
  onlyLane(name, lane, limiter);
  const { retry, split } = rules;
  const rule = retryOf(name, retry, Infinity) ?? [];
  if (split !== undefined && split !== false) onlyKnown(name, group(name, 'split', split), DIVIDE_OPTIONS, 'split', 'split.');
  const options: GateOptions<string> = {
    classify: classifyError,
    ...(Object.fromEntries(SHARED.flatMap((rule) => (rules[rule] === undefined ? [] : [[rule, rules[rule] as unknown]]))) as object),
    repair: [rule, split === false ? [] : divideAndConquer(split)],
    weigh: callback(name, 'countTokens', countTokens) ?? createTokenEstimator(),
    deadlineMs: durationMs(name, 'deadlineMs', orDefault(rules.deadlineMs, Infinity)),
    timeoutMs: positive(name, 'timeoutMs', orDefault(rules.timeoutMs, CALL_RULES_DEFAULTS.timeoutMs)),
    ...(lane !== undefined && { queue: lanes([{ name: lane }]) }),
    // All values are here already: nothing is gained by waiting, nor by refusing some.
    window: natural(),
    maxQueued: Infinity,
    maxWeight: Infinity,
  };
  batchConfig(name, options);
  const scheduler = schedulerOption(name, 'scheduler', rules.scheduler);

  return async (model, params) => {
    const answers: Result[] = [];
    const maxSize = (await model.maxEmbeddingsPerCall) ?? Infinity;
    const oneByOne = limiter === undefined && concurrency === undefined && !(await model.supportsParallelCalls);
    const batcher = new FlowBatcher<string, number[]>(
      async (values, call) => {
        const answer = await untilClosed(
          shown(model.doEmbed({ ...params, values: [...values], abortSignal: call.signal }), call),
          call,
          scheduler,
        );
        if (answer.usage) call.settle({ inputTokens: answer.usage.tokens });
        answers.push(answer);
        return answer.embeddings;
      },
      { ...options, maxSize, ...(oneByOne && { concurrency: 1 }) },
      name,
    );
    const close = (): void => {
      batcher.close();
      stop?.unsubscribe();
    };
    // Whoever embeds has no other handle.
    const stop = limiter && whenGivenUp(limiter, close);
    return { batcher, answers, close };
  };
}
