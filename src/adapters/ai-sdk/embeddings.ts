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
  limiterOption,
  onlyKnown,
  orDefault,
  positive,
  schedulerOption,
  verdictOrFatal,
  whenGivenUp,
} from '../../../operators/toolkit.js';
import type { CallContext, ErrorClass, GateOptions } from '../../../operators/types.js';
import { natural } from '../../../operators/windows.js';
import { enteredBatch } from '../../account/entered-batch.js';
import { ledgerOf } from '../../account/ledger.js';
import type { ProviderRules } from '../../account/providers.js';
import { providerNamed, providerOption, providers } from '../../account/providers.js';
import { untilClosed } from '../../pipelines/connection.js';
import { permitAround, underPermit } from '../../pipelines/limited.js';
import { retryOf } from '../../retry.js';
import { estimatorFor } from '../../tokenizers/estimate.js';
import type { CallJob } from '../support/call-job.js';
import { ambientIn, jobOption } from '../support/call-job.js';
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
  /** Lane and key of the requests under the `limiter`, for one list of values. @defaultValue the last, least urgent lane */
  readonly job?: CallJob | ((params: Omit<Params, 'values' | 'abortSignal'>) => CallJob);
  /** What the provider's rate limits count of a request. @defaultValue that of the limiter's account, else by the name of the provider */
  readonly provider?: ProviderRules;
  /** Requests at a time for one list of values. Not together with `limiter`. @defaultValue 4, and 1 for a model that supports no parallel calls */
  readonly concurrency?: number;
  /** Tokens of a value: what a request takes from the limiter. @defaultValue the built-in estimate with a margin of 15 % */
  readonly countTokens?: (value: string) => number;
}

/** Rules that are options of a batcher as they are. */
const SHARED = ['limiter', 'concurrency', 'classify', 'onEvent', 'scheduler', 'random'] as const;
const RULES: readonly string[] = [
  ...['limiter', 'concurrency', 'retry', 'split', 'classify', 'onEvent', 'scheduler', 'random'],
  ...['job', 'provider', 'countTokens', 'deadlineMs', 'timeoutMs'],
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
  const { limiter, concurrency, countTokens } = rules;
  limiterOption(name, limiter, concurrency);
  const jobOf = jobOption<Omit<Params, 'values' | 'abortSignal'>>(name, rules.job, limiter);
  const provider = providerOption(name, 'provider', rules.provider);
  const ledger = ledgerOf(limiter);
  const { retry, split } = rules;
  const rule = retryOf(name, retry, Infinity) ?? [];
  if (split !== undefined && split !== false) onlyKnown(name, group(name, 'split', split), DIVIDE_OPTIONS, 'split', 'split.');
  const weigh = callback(name, 'countTokens', countTokens);
  const options: GateOptions<string> = {
    classify: classifyError,
    ...(Object.fromEntries(SHARED.flatMap((rule) => (rules[rule] === undefined ? [] : [[rule, rules[rule] as unknown]]))) as object),
    repair: [rule, split === false ? [] : divideAndConquer(split)],
    deadlineMs: durationMs(name, 'deadlineMs', orDefault(rules.deadlineMs, Infinity)),
    timeoutMs: positive(name, 'timeoutMs', orDefault(rules.timeoutMs, CALL_RULES_DEFAULTS.timeoutMs)),
    // All values are here already: nothing is gained by waiting, nor by refusing some.
    window: natural(),
    maxQueued: Infinity,
    maxWeight: Infinity,
  };
  batchConfig(name, options);
  const scheduler = schedulerOption(name, 'scheduler', rules.scheduler);

  const held = limiter && ({ operator: name, kind: 'request', limiter } as const);

  return async (model, params) => {
    if (held) permitAround(held);
    const answers: Result[] = [];
    const maxSize = (await model.maxEmbeddingsPerCall) ?? Infinity;
    const oneByOne = limiter === undefined && concurrency === undefined && !(await model.supportsParallelCalls);
    const { lane, key, model: named = model.modelId, name: called = name } = { ...ambientIn(limiter), ...jobOf(params) };
    const rulesOf = provider ?? ledger.provider ?? providerNamed(model.provider) ?? providers.other;
    const facts = { name: called, model: named, key, provider: rulesOf };
    const classOf = (error: unknown, { attempt }: CallContext): ErrorClass =>
      verdictOrFatal(name, rules.classify ?? classifyError, error, { size: 1, attempt, aborted: false, epochMs: scheduler.now() }).class;
    const batcher = new FlowBatcher<string, number[]>(
      enteredBatch(
        ledger,
        facts,
        () => scheduler.now(),
        classOf,
        async (values, call) => {
          const send = () => shown(model.doEmbed({ ...params, values: [...values], abortSignal: call.signal }), call);
          const answer = await untilClosed(held ? (underPermit(held, undefined, send) as Promise<Result>) : send(), call, scheduler);
          if (answer.usage) call.settle({ inputTokens: answer.usage.tokens });
          answers.push(answer);
          return answer.embeddings;
        },
      ),
      {
        ...options,
        weigh: weigh ?? estimatorFor(model.modelId),
        ...(lane !== undefined && { queue: lanes([{ name: lane }]) }),
        maxSize,
        ...(oneByOne && { concurrency: 1 }),
      },
      name,
      { model: named, key },
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
