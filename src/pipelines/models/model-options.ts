import QuickLRU from 'quick-lru';
import type { SchedulerLike } from 'rxjs';
import { childOf } from '../../../operators/child-of.js';
import { classifyError } from '../../../operators/classify-error.js';
import { createAccount } from '../../../operators/create-account.js';
import type { Breaker } from '../../../operators/create-breaker.js';
import { createBreaker } from '../../../operators/create-breaker.js';
import { FlowConfigError } from '../../../operators/errors.js';
import { fromHeaders } from '../../../operators/from-headers.js';
import type { HedgeOptions } from '../../../operators/hedge.js';
import {
  callback,
  checkedLanes,
  count,
  countFromZero,
  DEFAULT_LANE,
  durationMs,
  limiterOption,
  nonEmpty,
  oneOf,
  onlyKnown,
  optional,
  orDefault,
  positive,
  requiredFunction,
  requiredSignal,
  schedulerOption,
  startingRate,
} from '../../../operators/toolkit.js';
import type { Classify, FlowSink, LaneOptions, Limiter, Usage } from '../../../operators/types.js';
import { ledgerOf } from '../../account/ledger.js';
import type { ProviderRules } from '../../account/providers.js';
import { providerOption, providers } from '../../account/providers.js';
import type { CallRecord } from '../../metrics/call-record.js';
import type { Retry } from '../../retry.js';
import { retryOf } from '../../retry.js';
import { budgetOption } from '../budget/budget-options.js';
import type { BudgetPort } from '../budget/budget-types.js';
import { withoutEnd } from '../without-end.js';
import type { CacheRules } from './answer-cache.js';
import type {
  AnswerStorage,
  FixAnswerOptions,
  ModelCacheOptions,
  ModelCallAllOptions,
  ModelCallerOptions,
  ModelCallerRules,
  ModelCallOptions,
  ModelClient,
  ModelEntry,
  ModelHedgeOptions,
} from './model-types.js';
import { NAME } from './name.js';

/** What {@link createModelCaller} does when an option is left out. */
export const MODEL_CALLER_DEFAULTS = {
  concurrency: 4,
  requestsPerMinute: Infinity,
  tokensPerMinute: Infinity,
  maxQueued: 1000,
  lanes: [{ name: 'user' }, { name: 'normal' }, { name: 'background' }] as readonly LaneOptions[],
  deadlineMs: Infinity,
  timeoutMs: 30_000,
  hedgeShare: 0.1,
  cacheEntries: 1000,
  cacheTimeoutMs: 1000,
} as const;

const RULES: readonly string[] = [
  ...[
    'limiter',
    'concurrency',
    'requestsPerMinute',
    'tokensPerMinute',
    'maxQueued',
    'lanes',
    'estimateTokens',
    'usage',
    'parse',
    'fixAnswer',
  ],
  ...['cache', 'retry', 'breaker', 'whenOpen', 'budget', 'provider', 'deadlineMs', 'timeoutMs', 'hedge', 'classify'],
  ...['onRecord', 'onEvent', 'name'],
  ...['scheduler', 'random'],
];
const OPTIONS: readonly string[] = [...RULES, 'call', 'stream', 'model'];
const CLIENT: readonly string[] = ['send', 'stream', 'model', 'estimateTokens', 'usage', 'provider'];
/** Options of `chatCompletions` that are easily given to the caller itself. */
const ENDPOINT: readonly string[] = ['baseUrl', 'apiKey', 'headers', 'fetch'];
const ELSEWHERE = 'absent (an option of `call: chatCompletions({ … })`)';
const CALL: readonly string[] = ['lane', 'key', 'signal', 'traceId', 'name'];
const CALL_ALL: readonly string[] = ['lane', 'key', 'signal', 'traceId', 'mode', 'deadlineMs'];

/** What sends the requests, checked. */
export interface Client<Q, R, C> {
  readonly send: ModelClient<Q, R, C>['send'];
  readonly stream: ModelClient<Q, R, C>['stream'];
  readonly model: (request: Q) => string;
  readonly estimateTokens: ((request: Q) => number | Usage) | undefined;
  readonly usage: ((answer: R | C) => Usage | undefined) | undefined;
  readonly provider: ProviderRules | undefined;
}

/** The options, checked and with their defaults. */
export interface CallerConfig<Q, R, C, P> {
  readonly client: Client<Q, R, C>;
  readonly parse: ((answer: R, request: Q) => P) | undefined;
  readonly fixAnswer: Required<FixAnswerOptions<Q, R>> | undefined;
  readonly cache: CacheRules<Q, P> | undefined;
  readonly limiter: Limiter;
  /** Whether it is one that was given. */
  readonly isShared: boolean;
  readonly ownLimiter: Limiter | undefined;
  readonly breaker: Breaker | undefined;
  readonly whenOpen: 'fail' | 'wait';
  readonly budget: BudgetPort | undefined;
  readonly provider: ProviderRules;
  readonly retry: Retry | undefined;
  readonly deadlineMs: number;
  readonly timeoutMs: number;
  /** Undefined when nothing is hedged. */
  readonly hedge: { readonly lanes: readonly string[]; readonly options: HedgeOptions } | undefined;
  readonly defaultLane: string;
  readonly classify: Classify;
  readonly onRecord: ((record: CallRecord) => void) | undefined;
  readonly name: string | undefined;
  readonly scheduler: SchedulerLike;
  readonly random: () => number;
}

/** @param tell - gets the events of a limiter and a breaker of the caller's own */
export function callerConfig<Q, R, C, P>(rules: ModelCallerOptions<Q, R, C, P>, tell: FlowSink): CallerConfig<Q, R, C, P> {
  if (typeof rules !== 'object' || (rules as unknown) === null) throw new FlowConfigError(NAME, 'options', 'an object', rules);
  notOfEndpoint(rules);
  onlyKnown(NAME, rules, OPTIONS);
  const client = clientOf(rules);
  const d = MODEL_CALLER_DEFAULTS;
  const scheduler = schedulerOption(NAME, 'scheduler', rules.scheduler);
  const classify = requiredFunction(NAME, 'classify', orDefault(rules.classify, classifyError));
  const own = { scheduler, onEvent: withoutEnd(tell) };
  const ownLimiter = rules.limiter === undefined ? newLimiter(rules, own) : shareOf(rules);
  const limiter = ownLimiter ?? sharedLimiter(rules);
  const { lanes } = limiter;
  // What is wrong with it is this caller's option, not one of the policy inside.
  retryOf(NAME, rules.retry);
  return {
    client: {
      ...client,
      estimateTokens: callback(NAME, 'estimateTokens', rules.estimateTokens) ?? client.estimateTokens,
      usage: callback(NAME, 'usage', rules.usage) ?? client.usage,
    },
    parse: callback(NAME, 'parse', rules.parse),
    fixAnswer: fixAnswerOf(rules),
    cache: cacheOf(rules.cache),
    limiter,
    isShared: rules.limiter !== undefined,
    ownLimiter,
    breaker: breakerOf(rules.breaker, { ...own, classify }),
    whenOpen: oneOf('fail', 'wait')(NAME, 'whenOpen', orDefault(rules.whenOpen, 'fail')),
    budget: budgetOption(NAME, 'budget', rules.budget),
    provider: providerOption(NAME, 'provider', rules.provider) ?? ledgerOf(limiter).provider ?? client.provider ?? providers.other,
    retry: rules.retry,
    deadlineMs: durationMs(NAME, 'deadlineMs', orDefault(rules.deadlineMs, d.deadlineMs)),
    timeoutMs: positive(NAME, 'timeoutMs', orDefault(rules.timeoutMs, d.timeoutMs)),
    hedge: hedgeOf(rules.hedge, lanes ?? [DEFAULT_LANE]),
    defaultLane: lanes?.at(-1) ?? DEFAULT_LANE,
    classify,
    onRecord: callback(NAME, 'onRecord', rules.onRecord),
    scheduler,
    name: optional<string>(nonEmpty)(NAME, 'name', rules.name),
    random: requiredFunction(NAME, 'random', orDefault(rules.random, Math.random)),
  };
}

/** What is different for one call. @throws FlowConfigError */
export function checkCall(options: ModelCallOptions): void {
  checkFields(options, CALL);
  text('name', options.name);
}

/** @throws FlowConfigError */
export function checkCallAll(options: ModelCallAllOptions): void {
  checkFields(options, CALL_ALL);
  const { mode, deadlineMs } = options;
  if (mode !== undefined) oneOf('all', 'settle', 'collect')(NAME, 'mode', mode);
  if (deadlineMs !== undefined) durationMs(NAME, 'deadlineMs', deadlineMs);
}

function checkFields(options: ModelCallOptions, names: readonly string[]): void {
  onlyKnown(NAME, options, names, 'call options');
  if (options.signal !== undefined) requiredSignal(NAME, 'signal', options.signal);
  text('lane', options.lane);
  text('key', options.key);
  text('traceId', options.traceId);
}

function text(option: string, value: unknown): void {
  if (value !== undefined && (typeof value !== 'string' || value === ''))
    throw new FlowConfigError(NAME, option, 'a non-empty string', value);
}

/** Their values are not shown: one of them is a key. */
function notOfEndpoint(options: object): void {
  for (const name of ENDPOINT) {
    const { [name]: given } = options as Readonly<Record<string, unknown>>;
    if (name in options) throw new FlowConfigError(NAME, name, ELSEWHERE, undefined, `a ${typeof given}`);
  }
}

function clientOf<Q, R, C, P>(rules: ModelCallerOptions<Q, R, C, P>): Client<Q, R, C> {
  const { call } = rules;
  if (typeof call === 'function') return checkedClient<Q, R, C>({ send: call, stream: rules.stream, model: rules.model }, '');
  if (typeof call !== 'object' || (call as unknown) === null)
    throw new FlowConfigError(NAME, 'call', 'a function, or a client such as `chatCompletions({ … })`', call);
  for (const name of ['stream', 'model'] as const) {
    if (rules[name] !== undefined)
      throw new FlowConfigError(NAME, name, 'absent beside a client in `call`, which has its own', rules[name]);
  }
  onlyKnown(NAME, call, CLIENT, 'call', 'call.');
  return checkedClient(call, 'call.');
}

type GivenClient<Q, R, C> = { readonly [K in keyof ModelClient<Q, R, C>]: ModelClient<Q, R, C>[K] | undefined };

/** @param within - what its fields are part of, with a dot */
function checkedClient<Q, R, C>(given: GivenClient<Q, R, C>, within: string): Client<Q, R, C> {
  const { send, stream, model = 'default', estimateTokens, usage, provider } = given;
  if (typeof model !== 'function') text(`${within}model`, model);
  return {
    send: requiredFunction(NAME, `${within}send`, send as ModelClient<Q, R, C>['send']),
    stream: callback(NAME, `${within}stream`, stream),
    model: typeof model === 'function' ? model : () => model,
    estimateTokens: callback(NAME, `${within}estimateTokens`, estimateTokens),
    usage: callback(NAME, `${within}usage`, usage),
    provider: providerOption(NAME, `${within}provider`, provider),
  };
}

type Own = { readonly scheduler: SchedulerLike; readonly onEvent: FlowSink };

function newLimiter<Q, R, C, P>(rules: ModelCallerRules<Q, R, C, P>, own: Own): Limiter {
  const d = MODEL_CALLER_DEFAULTS;
  const maxQueued = countFromZero(NAME, 'maxQueued', orDefault(rules.maxQueued, d.maxQueued));
  const lanes: readonly LaneOptions[] = orDefault(rules.lanes, d.lanes);
  // The same for lanes.
  checkedLanes(NAME, lanes);
  return createAccount({
    concurrency: count(NAME, 'concurrency', orDefault(rules.concurrency, d.concurrency)),
    requestsPerMinute: startingRate(NAME, 'requestsPerMinute', orDefault(rules.requestsPerMinute, d.requestsPerMinute)),
    tokensPerMinute: startingRate(NAME, 'tokensPerMinute', orDefault(rules.tokensPerMinute, d.tokensPerMinute)),
    maxQueued,
    lanes: lanes.map(({ name, maxQueued: most, overflow, floor, reserve }) => ({
      name,
      ...(most !== undefined && { maxQueued: most }),
      ...(overflow && { overflow }),
      ...(floor !== undefined && { floor }),
      ...(reserve !== undefined && { reserve }),
    })),
    ...own,
  });
}

function sharedLimiter<Q, R, C, P>(rules: ModelCallerRules<Q, R, C, P>): Limiter {
  for (const name of ['requestsPerMinute', 'tokensPerMinute', 'maxQueued', 'lanes'] as const) {
    if (rules[name] !== undefined) throw new FlowConfigError(NAME, name, 'absent when a `limiter` is given', rules[name]);
  }
  return limiterOption(NAME, rules.limiter) as Limiter;
}

/** With a `concurrency` beside the shared limiter, as the presets have one: so many of its slots, and no more. */
function shareOf<Q, R, C, P>(rules: ModelCallerRules<Q, R, C, P>): Limiter | undefined {
  const { concurrency } = rules;
  return concurrency === undefined
    ? undefined
    : childOf(sharedLimiter(rules), { concurrency: count(NAME, 'concurrency', concurrency), learn: fromHeaders() });
}

function breakerOf(
  breaker: ModelCallerRules<never, never, never, never>['breaker'],
  own: Own & { readonly classify: Classify },
): Breaker | undefined {
  if (breaker === undefined) return undefined;
  if (typeof breaker !== 'object' || (breaker as unknown) === null)
    throw new FlowConfigError(NAME, 'breaker', 'a breaker made by createBreaker, or its options', breaker);
  return 'trip' in breaker ? breaker : createBreaker({ ...own, ...breaker });
}

function fixAnswerOf<Q, R, C, P>({ fixAnswer, parse }: ModelCallerRules<Q, R, C, P>): Required<FixAnswerOptions<Q, R>> | undefined {
  if (fixAnswer === undefined) return undefined;
  onlyKnown(NAME, fixAnswer, ['rounds', 'ask'], 'fixAnswer', 'fixAnswer.');
  if (parse === undefined) throw new FlowConfigError(NAME, 'parse', 'given together with `fixAnswer`', undefined);
  const { rounds = 1 } = fixAnswer;
  if (!Number.isSafeInteger(rounds) || rounds < 1) throw new FlowConfigError(NAME, 'fixAnswer.rounds', 'a whole number >= 1', rounds);
  return { rounds, ask: requiredFunction(NAME, 'fixAnswer.ask', fixAnswer.ask) };
}

function cacheOf<Q, P>(cache: ModelCacheOptions<Q, P> | undefined): CacheRules<Q, P> | undefined {
  if (cache === undefined) return undefined;
  onlyKnown(NAME, cache, ['key', 'ttlMs', 'storage', 'timeoutMs'], 'cache', 'cache.');
  const { storage: store = new QuickLRU<string, ModelEntry<P>>({ maxSize: MODEL_CALLER_DEFAULTS.cacheEntries }) } = cache;
  const { get, set, delete: forget } = Object(store) as Partial<AnswerStorage<P>>;
  if (![get, set, forget].every((method) => typeof method === 'function'))
    throw new FlowConfigError(NAME, 'cache.storage', 'an object with `get`, `set` and `delete`', store);
  return {
    store,
    ttlMs: positive(NAME, 'cache.ttlMs', orDefault(cache.ttlMs, Infinity)),
    timeoutMs: positive(NAME, 'cache.timeoutMs', orDefault(cache.timeoutMs, MODEL_CALLER_DEFAULTS.cacheTimeoutMs)),
    key: requiredFunction(NAME, 'cache.key', cache.key),
  };
}

function hedgeOf(hedge: ModelHedgeOptions | undefined, knownLanes: readonly string[]): CallerConfig<never, never, never, never>['hedge'] {
  if (hedge === undefined) return undefined;
  onlyKnown(NAME, hedge, ['delayMs', 'maxHedges', 'maxShare', 'lanes'], 'hedge', 'hedge.');
  const { delayMs, maxHedges, maxShare = MODEL_CALLER_DEFAULTS.hedgeShare, lanes = knownLanes.slice(0, 1) } = hedge;
  if (typeof delayMs !== 'function' && delayMs !== undefined) durationMs(NAME, 'hedge.delayMs', delayMs);
  if (maxHedges !== undefined && (!Number.isSafeInteger(maxHedges) || maxHedges < 0))
    throw new FlowConfigError(NAME, 'hedge.maxHedges', 'a whole number >= 0', maxHedges);
  if (!Array.isArray(lanes)) throw new FlowConfigError(NAME, 'hedge.lanes', 'a list of lanes', lanes);
  for (const lane of lanes as readonly string[]) {
    if (!knownLanes.includes(lane)) throw new FlowConfigError(NAME, 'hedge.lanes', `lanes that there are (${knownLanes.join(', ')})`, lane);
  }
  return {
    lanes: [...(lanes as readonly string[])],
    options: {
      ...(delayMs !== undefined && { delayMs }),
      ...(maxHedges !== undefined && { maxHedges }),
      maxShare: positive(NAME, 'hedge.maxShare', maxShare),
      backend: {},
    },
  };
}
