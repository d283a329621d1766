import type { EmbeddingModelMiddleware } from 'ai';
import { check, listenTo } from '../../../operators/build.js';
import type { Batcher, BatcherOptions, CallContext, DivideOptions, ErrorClass } from '../../../operators/index.js';
import { classifyError, createBatcher, divideAndConquer, lanes, natural } from '../../../operators/index.js';
import { enteredBatch } from '../../account/entered-batch.js';
import type { ProviderRules } from '../../account/providers.js';
import { providerNamed, providerOption } from '../../account/providers.js';
import { untilClosed } from '../../pipelines/connection.js';
import { permitAround, underPermit } from '../../pipelines/limited.js';
import { TEXT_HINTS } from '../../pipelines/text-batches.js';
import { repairOf } from '../../retry.js';
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

const SPLIT: readonly string[] = ['parts', 'maxCalls', 'strategy'] satisfies readonly (keyof DivideOptions)[];
const HINTS = { ...TEXT_HINTS, etries: 'Use `retry: { maxAttempts }`.' };

export interface Opened {
  readonly batcher: Batcher<string, number[]>;
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
  check.onlyKnown(name, rules, [...RULES, ...own], 'options', '', HINTS);
  const { limiter, concurrency, countTokens } = rules;
  check.limiter(name, 'limiter', limiter, concurrency);
  const jobOf = jobOption<Omit<Params, 'values' | 'abortSignal'>>(name, rules.job, limiter);
  const provider = providerOption(name, 'provider', rules.provider);
  const { retry, split } = rules;
  const rule = repairOf(name, retry) ?? [];
  if (split !== undefined && split !== false) check.onlyKnown(name, check.group(name, 'split', split), SPLIT, 'split', 'split.');
  const weigh = check.callback(name, 'countTokens', countTokens);
  check.optional(check.count)(name, 'concurrency', concurrency);
  for (const callback of ['classify', 'onEvent'] as const) check.callback(name, callback, rules[callback]);
  if (rules.random !== undefined) check.requiredFunction(name, 'random', rules.random);
  const options: BatcherOptions<string> = {
    operator: name,
    classify: classifyError,
    ...(Object.fromEntries(SHARED.flatMap((rule) => (rules[rule] === undefined ? [] : [[rule, rules[rule] as unknown]]))) as object),
    repair: [rule, split === false ? [] : divideAndConquer(split)],
    deadlineMs: check.durationMs(name, 'deadlineMs', check.orDefault(rules.deadlineMs, Infinity)),
    timeoutMs: check.positive(name, 'timeoutMs', check.orDefault(rules.timeoutMs, CALL_RULES_DEFAULTS.timeoutMs)),
    // All values are here already: nothing is gained by waiting, nor by refusing some.
    window: natural(),
    maxQueued: Infinity,
    maxWeight: Infinity,
  };
  const scheduler = check.scheduler(name, 'scheduler', rules.scheduler);

  const held = limiter && ({ operator: name, kind: 'request', limiter } as const);

  return async (model, params) => {
    if (held) permitAround(held);
    const answers: Result[] = [];
    const maxSize = (await model.maxEmbeddingsPerCall) ?? Infinity;
    const oneByOne = limiter === undefined && concurrency === undefined && !(await model.supportsParallelCalls);
    const { lane, key, model: named = model.modelId, name: called = name } = { ...ambientIn(limiter), ...jobOf(params) };
    const facts = { name: called, model: named, key, provider, api: providerNamed(model.provider) };
    const classOf = (error: unknown, { attempt }: CallContext): ErrorClass =>
      check.verdict(name, rules.classify ?? classifyError, error, { size: 1, attempt, aborted: false, epochMs: scheduler.now() }).class;
    const work = async (values: readonly string[], call: CallContext): Promise<number[][]> => {
      const send = () => shown(model.doEmbed({ ...params, values: [...values], abortSignal: call.signal }), call);
      const answer = await untilClosed(held ? (underPermit(held, undefined, send) as Promise<Result>) : send(), call, scheduler);
      if (answer.usage) call.settle({ inputTokens: answer.usage.tokens });
      answers.push(answer);
      return answer.embeddings;
    };
    const batcher = createBatcher<string, number[]>(limiter ? enteredBatch(limiter, facts, () => scheduler.now(), classOf, work) : work, {
      ...options,
      weigh: weigh ?? estimatorFor(model.modelId),
      ...(lane !== undefined && { queue: lanes([{ name: lane }]) }),
      ...(limiter && { job: { model: named, ...(key !== undefined && { key }) } }),
      maxSize,
      ...(oneByOne && { concurrency: 1 }),
    });
    const close = (): void => {
      batcher.close();
      stop?.();
    };
    // Whoever embeds has no other handle.
    const stop = limiter && listenTo(limiter, { ended: close });
    return { batcher, answers, close };
  };
}
