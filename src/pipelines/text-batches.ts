import { tap } from 'rxjs';
import { childOf } from '../../operators/child-of.js';
import { classifyError } from '../../operators/classify-error.js';
import { createAccount } from '../../operators/create-account.js';
import type { BatcherOptions } from '../../operators/create-batcher.js';
import type { Limiter } from '../../operators/create-limiter.js';
import { FlowConfigError, ItemTooHeavyError } from '../../operators/errors.js';
import { divideAndConquer, retryFailed, sequentialSearch } from '../../operators/repair.js';
import {
  callback,
  count,
  evidenceOf,
  flag,
  isPromise,
  limiterOption,
  orDefault,
  positive,
  ratio,
  schedulerOption,
  streamOf,
} from '../../operators/toolkit.js';
import type { BatchResult, BatchWork, GateOptions } from '../../operators/types.js';
import { createTokenEstimator } from '../tokenizers/estimate.js';
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
  'refusalsAreFree',
] as const satisfies readonly (keyof EmbedderRules)[];

/** Those that a given limiter has said already. */
const LIMITS = ['requestsPerMinute', 'tokensPerMinute', 'burstSeconds'] as const;

/** What a provider answers to a request it does not work on. */
const REFUSALS: readonly (number | undefined)[] = [400, 413, 422];

/** What is the same for every client. */
export interface EmbedderRules extends Pick<GateOptions<string>, 'maxSize' | Exclude<(typeof BATCH_RULES)[number], 'limiter'>> {
  /** A limiter shared with others. @defaultValue one of its own, made of the rules below */
  readonly limiter?: Limiter;
  /** Most tokens in one call, as `countTokens` counts. @defaultValue 250000 */
  readonly maxTokens?: number;
  /** Most tokens in one text; a longer one is rejected unsent. @defaultValue 8191 */
  readonly maxTokensPerText?: number;
  /** @defaultValue the built-in estimate with a margin of 15 % */
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
   * Whether a request that the provider refuses as invalid (400, 413, 422) costs no tokens there. Then they can be spent again at once.
   * @defaultValue true until the first 429, and false from then on
   */
  readonly refusalsAreFree?: boolean;
}

type Defaulted = 'maxSize' | 'maxTokens' | 'maxTokensPerText' | 'concurrency' | 'maxQueued' | 'window' | 'queue';

/** What holds for a rule that was left out. */
export type TextDefaults = Required<Pick<EmbedderRules, Defaulted>>;

/** How texts travel together. */
export interface TextBatches {
  /** For the batcher. */
  readonly options: BatcherOptions<string> & { readonly maxSize: number; readonly maxQueued: number; readonly limiter: Limiter };
  /** The most urgent first. */
  readonly laneNames: readonly string[];
  /** The limiter, when none was given: whoever uses it closes it at the end. */
  readonly ownLimiter: Limiter | undefined;
  /** The work, which tells the limiter when a refusal was free. */
  charged<R>(work: BatchWork<string, R>): BatchWork<string, R>;
  /** @throws FlowConfigError inside a request that holds a permit of the same limiter */
  check(): void;
}

/**
 * The rules as they are for a batcher. Which options there are has been looked at before.
 *
 * @throws FlowConfigError naming the operator and the option
 */
export function textBatches(operator: string, rules: EmbedderRules, defaults: TextDefaults): TextBatches {
  const maxSize = count(operator, 'maxSize', orDefault(rules.maxSize, defaults.maxSize));
  const maxQueued = count(operator, 'maxQueued', orDefault(rules.maxQueued, defaults.maxQueued));
  const queue = orDefault(rules.queue, defaults.queue);
  if (!Array.isArray((queue as Partial<typeof queue> | null)?.lanes)) throw new FlowConfigError(operator, 'queue', 'lanes([…])', queue);
  const laneNames = queue.lanes.map(({ name }) => name);
  const reserves = queue.reserve?.shares ?? [];
  const given = sharedLimiter(operator, rules);
  const ownLimiter = given ? undefined : newLimiter(operator, rules, defaults.concurrency, laneNames, reserves);
  const areFree = rules.refusalsAreFree === undefined ? undefined : flag(operator, 'refusalsAreFree', rules.refusalsAreFree);
  return {
    options: {
      window: defaults.window,
      repair: [retryFailed(), divideAndConquer({ strategy: sequentialSearch() })],
      classify: classifyError,
      ...givenBatchRules(rules),
      maxSize,
      maxQueued,
      queue,
      limiter: given ?? (ownLimiter as Limiter),
      weigh: counter(operator, rules, defaults.maxTokensPerText),
      maxWeight: positive(operator, 'maxTokens', orDefault(rules.maxTokens, defaults.maxTokens)),
      dedupe: (text) => text,
    },
    laneNames,
    ownLimiter,
    charged: (work) => {
      const made = given ? inPermit({ operator, kind: 'request', limiter: given }, work) : work;
      return areFree === false ? made : withFreeRefusals(made, areFree);
    },
    check: () => {
      if (given) permitAround({ operator, limiter: given });
    },
  };
}

/** A client that keeps to the same limiter would wait for the permit of its batch. */
function inPermit<R>(rules: HeldRules, work: BatchWork<string, R>): BatchWork<string, R> {
  return (texts, context) => underPermit(rules, undefined, () => work(texts, context)) as ReturnType<typeof work>;
}

/** Tokens of a text; a text with too many is refused. */
function counter(operator: string, rules: EmbedderRules, most: number): (text: string) => number {
  const countTokens = callback(operator, 'countTokens', rules.countTokens) ?? createTokenEstimator();
  const limit = positive(operator, 'maxTokensPerText', orDefault(rules.maxTokensPerText, most));
  return (text) => {
    const tokens = countTokens(text);
    if (tokens > limit) throw new ItemTooHeavyError(operator, tokens, limit);
    return tokens;
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
    requestsPerMinute: positive(operator, 'requestsPerMinute', orDefault(rules.requestsPerMinute, Infinity)),
    tokensPerMinute: positive(operator, 'tokensPerMinute', orDefault(rules.tokensPerMinute, Infinity)),
    burstSeconds: ratio(operator, 'burstSeconds', orDefault(rules.burstSeconds, 2), 0.001, 86_400),
    lanes: laneNames.map((name, i) => ({ name, ...(reserves[i] !== undefined && { reserve: reserves[i] }) })),
    scheduler: schedulerOption(operator, 'scheduler', rules.scheduler),
    ...(onEvent && { onEvent: withoutEnd(onEvent) }),
  });
}

function givenBatchRules(rules: EmbedderRules): Pick<EmbedderRules, (typeof BATCH_RULES)[number]> {
  return Object.fromEntries(BATCH_RULES.flatMap((name) => (rules[name] === undefined ? [] : [[name, rules[name]]])));
}

/** Not told whether they are, takes them to be free until a 429 says that more has been spent than was counted. */
function withFreeRefusals<R>(work: BatchWork<string, R>, areFree: true | undefined): BatchWork<string, R> {
  let isThrottled = false;
  return (texts, context) => {
    const refused = (error: unknown): void => {
      const { status } = evidenceOf(error);
      if (status === 429) isThrottled = true;
      if (REFUSALS.includes(status) && (areFree || !isThrottled)) context.settle({ inputTokens: 0 });
    };
    const answer = work(texts, context);
    // A promise stays one: it keeps its permit until it is really over.
    if (isPromise(answer)) {
      return Promise.resolve(answer).then(undefined, (error: unknown) => {
        refused(error);
        throw error;
      });
    }
    return streamOf<BatchResult<R>>(answer)?.pipe(tap({ error: refused })) ?? answer;
  };
}
