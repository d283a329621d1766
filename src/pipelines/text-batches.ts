import { childOf } from '../../operators/child-of.js';
import { classifyError } from '../../operators/classify-error.js';
import { createAccount } from '../../operators/create-account.js';
import type { BatcherOptions, LoadOptions } from '../../operators/create-batcher.js';
import type { Limiter } from '../../operators/create-limiter.js';
import { FlowConfigError, ItemTooHeavyError } from '../../operators/errors.js';
import { divideAndConquer, retryFailed, sequentialSearch } from '../../operators/repair.js';
import {
  callback,
  count,
  limiterOption,
  orDefault,
  positive,
  ratio,
  schedulerOption,
  startingRate,
  verdictOrFatal,
} from '../../operators/toolkit.js';
import type { BatchResult, BatchWork, CallContext, ErrorClass, GateOptions } from '../../operators/types.js';
import { enteredBatch } from '../account/entered-batch.js';
import { ledgerOf } from '../account/ledger.js';
import type { ProviderRules } from '../account/providers.js';
import { providerOption, providers } from '../account/providers.js';
import { ambientJob } from '../account/with-job.js';
import { createTokenEstimator } from '../tokenizers/estimate.js';
import type { BudgetPort } from './budget/budget-types.js';
import { LearnedWeight } from './learned-weight.js';
import type { HeldRules } from './limited.js';
import { permitAround, underPermit } from './limited.js';
import { withoutEnd } from './without-end.js';

/** Rules that are options of a batcher as they are. */
export const BATCH_RULES = [
  ...['limiter', 'window', 'maxQueued', 'overflow', 'queue', 'repair', 'classify'],
  ...['timeoutMs', 'deadlineMs', 'onEvent', 'name', 'scheduler', 'random'],
] as const satisfies readonly (keyof GateOptions<string>)[];

/** Rules about tokens, and about the limiter that is made when none is given. */
export const TEXT_RULES = [
  ...['maxTokens', 'maxTokensPerText', 'countTokens', 'concurrency', 'requestsPerMinute', 'tokensPerMinute', 'burstSeconds'],
  'provider',
] as const satisfies readonly (keyof EmbedderRules)[];

/** Those that a given limiter has said already. */
const LIMITS = ['requestsPerMinute', 'tokensPerMinute', 'burstSeconds'] as const;

/** What is the same for every client. */
export interface EmbedderRules extends Pick<GateOptions<string>, 'maxSize' | Exclude<(typeof BATCH_RULES)[number], 'limiter'>> {
  /** A limiter shared with others. @defaultValue one of its own, made of the rules below */
  readonly limiter?: Limiter;
  /** Most tokens in one call, as `countTokens` counts. @defaultValue 250000 */
  readonly maxTokens?: number;
  /** Most tokens in one text; a longer one is rejected unsent, one that is only estimated from a quarter above on. @defaultValue 8191 */
  readonly maxTokensPerText?: number;
  /**
   * Tokens of a text. The built-in estimate is that of `createTokenEstimator` for the model; it learns from the usage that answers report, so
   * that batches fill up to `maxTokens` and keep below it. @defaultValue the built-in estimate
   */
  readonly countTokens?: (text: string) => number;
  /** Calls at a time; beside a `limiter`, most of its slots that these calls take. @defaultValue 4; with a `limiter`, as many as it has */
  readonly concurrency?: number;
  /** Not together with `limiter`. @defaultValue Infinity */
  readonly requestsPerMinute?: number;
  /** Not together with `limiter`. @defaultValue Infinity */
  readonly tokensPerMinute?: number;
  /** Seconds of both rates that the provider lets be spent at once. Not together with `limiter`. @defaultValue that of `createLimiter`: 2 */
  readonly burstSeconds?: number;
  /**
   * What the provider's rate limits count of a request: whether one that is refused (400, 413, 422) keeps its tokens, for example.
   * @defaultValue that of the limiter's account, or by the address, else `providers.other`
   */
  readonly provider?: ProviderRules;
}

type Defaulted = 'maxSize' | 'maxTokens' | 'maxTokensPerText' | 'concurrency' | 'maxQueued' | 'window' | 'queue';

/** What holds for a rule that was left out. */
export type TextDefaults = Required<Pick<EmbedderRules, Defaulted>>;

/** What calls are known by, and what they may spend. */
export interface TextCalls {
  readonly model?: string | undefined;
  readonly budget?: BudgetPort | undefined;
  /** Of the address, where it is known. */
  readonly provider?: ProviderRules | undefined;
}

interface TextBatchOptions {
  readonly maxSize: number;
  readonly maxQueued: number;
  readonly limiter: Limiter;
  readonly maxWeight: number;
  readonly weigh: (text: string) => number;
}

/** How texts travel together. */
export interface TextBatches {
  /** For the batcher. */
  readonly options: BatcherOptions<string> & TextBatchOptions;
  /** What is said of a text, by its caller or by `withJob` around it. A lane of that which the queue does not know is for another one. */
  readonly placed: (how?: LoadOptions) => LoadOptions;
  /** The most urgent first. */
  readonly laneNames: readonly string[];
  /** The limiter, when none was given: whoever uses it closes it at the end. */
  readonly ownLimiter: Limiter | undefined;
  /** The work, each call of it written down in the account's ledger, and told to the estimate of tokens. */
  charged<R>(work: BatchWork<string, R>): BatchWork<string, R>;
  /** @throws FlowConfigError inside a request that holds a permit of the same limiter */
  readonly check: () => void;
}

/**
 * The rules as they are for a batcher. Which options there are has been looked at before.
 *
 * @param calls - what they are known by; tokens are estimated for the model where no option counts them
 * @throws FlowConfigError naming the operator and the option
 */
export function textBatches(operator: string, rules: EmbedderRules, defaults: TextDefaults, calls: TextCalls = {}): TextBatches {
  const maxSize = count(operator, 'maxSize', orDefault(rules.maxSize, defaults.maxSize));
  const maxQueued = count(operator, 'maxQueued', orDefault(rules.maxQueued, defaults.maxQueued));
  const queue = orDefault(rules.queue, defaults.queue);
  if (!Array.isArray((queue as Partial<typeof queue> | null)?.lanes)) throw new FlowConfigError(operator, 'queue', 'lanes([…])', queue);
  const laneNames = queue.lanes.map(({ name }) => name);
  const reserves = queue.reserve?.shares ?? [];
  const given = sharedLimiter(operator, rules);
  const limiter = given ?? newLimiter(operator, rules, defaults.concurrency, laneNames, reserves);
  const ledger = ledgerOf(limiter).with({ budget: calls.budget });
  const own = providerOption(operator, 'provider', rules.provider);
  const provider = own ?? ledger.provider ?? calls.provider ?? providers.other;
  const facts = { name: operator, model: calls.model ?? 'default', key: undefined, provider };
  const scheduler = schedulerOption(operator, 'scheduler', rules.scheduler);
  const now = (): number => scheduler.now();
  const { classify = classifyError } = rules;
  const classOf = (error: unknown, { attempt }: CallContext): ErrorClass =>
    verdictOrFatal(operator, classify, error, { size: 1, attempt, aborted: false, epochMs: now() }).class;
  const countTokens = callback(operator, 'countTokens', rules.countTokens);
  const { model } = calls;
  const learned = countTokens
    ? undefined
    : new LearnedWeight(createTokenEstimator({ ...(model !== undefined && { model }), safetyMargin: 1 }));
  const limit = positive(operator, 'maxTokensPerText', orDefault(rules.maxTokensPerText, defaults.maxTokensPerText));
  return {
    options: {
      window: defaults.window,
      repair: [retryFailed(), divideAndConquer({ strategy: sequentialSearch() })],
      classify: classifyError,
      ...givenBatchRules(rules),
      maxSize,
      maxQueued,
      queue,
      limiter,
      weigh: countTokens ? counted(operator, countTokens, limit) : estimated(operator, learned as LearnedWeight, limit),
      maxWeight: positive(operator, 'maxTokens', orDefault(rules.maxTokens, defaults.maxTokens)),
      dedupe: (text) => text,
    },
    placed: (how = {}) => {
      const { lane, key } = ambientJob();
      return {
        ...(lane !== undefined && laneNames.includes(lane) && { lane }),
        ...(key !== undefined && queue.keyOf && { key }),
        ...how,
      };
    },
    laneNames,
    ownLimiter: given ? undefined : limiter,
    charged: (work) => {
      const taught = learned ? teaching(work, learned) : work;
      const made = given ? inPermit({ operator, kind: 'request', limiter: given }, taught) : taught;
      return enteredBatch(ledger, facts, now, classOf, made);
    },
    check: () => {
      if (given) permitAround({ operator, limiter: given });
    },
  };
}

/** A client that keeps to the same limiter would wait for the permit of its batch. */
function inPermit<R>(rules: HeldRules, work: BatchWork<string, R>): BatchWork<string, R> {
  return (texts, context) => underPermit<BatchResult<R>>(rules, undefined, () => work(texts, context));
}

/** Tokens of a text; a text with too many is refused. */
function counted(operator: string, countTokens: (text: string) => number, limit: number): (text: string) => number {
  return (text) => {
    const tokens = countTokens(text);
    if (tokens > limit) throw new ItemTooHeavyError(operator, tokens, limit);
    return tokens;
  };
}

/** How far above the bound an estimate must be for a text to be refused unsent: a text that fits must not be refused for an estimate. */
const SURELY = 1.25;

function estimated(operator: string, learned: LearnedWeight, limit: number): (text: string) => number {
  return (text) => {
    const tokens = learned.expected(text);
    if (tokens > SURELY * limit) throw new ItemTooHeavyError(operator, Math.ceil(tokens), limit);
    return Math.ceil(learned.weigh(text));
  };
}

/** The same work, whose usage the estimate hears of. */
function teaching<R>(work: BatchWork<string, R>, learned: LearnedWeight): BatchWork<string, R> {
  return (texts, context) => {
    const settle: typeof context.settle = (usage) => {
      if (usage.inputTokens !== undefined) learned.learn(texts, usage.inputTokens);
      context.settle(usage);
    };
    // Its getters and methods are those of the context.
    return work(texts, Object.create(context, { settle: { value: settle } }) as typeof context);
  };
}

function sharedLimiter(operator: string, rules: EmbedderRules): Limiter | undefined {
  const limiter = limiterOption(operator, rules.limiter);
  if (limiter === undefined) return undefined;
  for (const name of LIMITS) {
    if (rules[name] !== undefined) throw new FlowConfigError(operator, name, 'absent when a `limiter` is given', rules[name]);
  }
  const { concurrency } = rules;
  return concurrency === undefined ? limiter : childOf(limiter, { concurrency: count(operator, 'concurrency', concurrency) });
}

/** Checked here, so that an error names the operator and not the limiter. */
function newLimiter(
  operator: string,
  rules: EmbedderRules,
  concurrency: number,
  laneNames: readonly string[],
  reserves: readonly number[],
): Limiter {
  const onEvent = callback(operator, 'onEvent', rules.onEvent);
  return createAccount({
    concurrency: count(operator, 'concurrency', orDefault(rules.concurrency, concurrency)),
    requestsPerMinute: startingRate(operator, 'requestsPerMinute', orDefault(rules.requestsPerMinute, Infinity)),
    tokensPerMinute: startingRate(operator, 'tokensPerMinute', orDefault(rules.tokensPerMinute, Infinity)),
    burstSeconds: ratio(operator, 'burstSeconds', orDefault(rules.burstSeconds, 2), 0.001, 86_400),
    lanes: laneNames.map((name, i) => ({ name, ...(reserves[i] !== undefined && { reserve: reserves[i] }) })),
    scheduler: schedulerOption(operator, 'scheduler', rules.scheduler),
    ...(onEvent && { onEvent: withoutEnd(onEvent) }),
  });
}

function givenBatchRules(rules: EmbedderRules): Pick<EmbedderRules, (typeof BATCH_RULES)[number]> {
  return Object.fromEntries(BATCH_RULES.flatMap((name) => (rules[name] === undefined ? [] : [[name, rules[name]]])));
}
