import type { SchedulerLike } from 'rxjs';
import { check } from '../../../operators/build.js';
import type { Breaker, FlowSink, HedgeRule, Limiter, LimiterJob, Usage } from '../../../operators/index.js';
import { classifyError, createLimiter, FlowConfigError, lanes } from '../../../operators/index.js';
import type { Ledger } from '../../account/ledger.js';
import { keptLedger } from '../../account/ledger.js';
import type { ProviderRules } from '../../account/providers.js';
import { retryOf } from '../../retry.js';
import { MODEL_CALLER_DEFAULTS } from '../defaults.js';
import { EventChannel } from '../event-channel.js';
import { withoutEnd } from '../without-end.js';
import type { AnswerCaching } from './answer-cache.js';
import type { AnswerFix } from './fix-answer.js';
import { fixAnswerOption } from './fix-answer.js';
import type { ModelCallerOptions, ModelCallOptions, ModelClient } from './model-types.js';
import { NAME } from './name.js';

const CLIENT: readonly string[] = ['send', 'stream', 'model', 'cost', 'usage', 'countTokens', 'provider'];
/** What tells the client of an SDK, and what makes a model client of it. */
const SDK_CLIENTS = [
  ['chat', 'openAIChat(client)` of `sluice/openai'],
  ['messages', 'anthropicChat(client)` of `sluice/anthropic'],
] as const;
/** Options of `chatCompletions`, and fields of a client, that are easily given to the caller itself. */
const HINTS = /* @__PURE__ */ (() => ({
  ...check.retriedHints,
  lane: 'Give it with the call.',
  ...Object.fromEntries(['baseUrl', 'apiKey', 'headers', 'fetch'].map((name) => [name, 'Use `call: chatCompletions({ … })`.'])),
  ...Object.fromEntries(['stream', 'usage', 'cost'].map((name) => [name, `Use \`call: { send, ${name} }\`.`])),
}))();
const CALL: readonly string[] = ['lane', 'key', 'signal', 'traceId', 'name', 'deadlineMs'];

/** What sends the requests, checked. */
export interface Client<Q, R, C> {
  readonly send: ModelClient<Q, R, C>['send'];
  readonly stream: ModelClient<Q, R, C>['stream'];
  readonly model: (request: Q) => string;
  readonly cost: ((request: Q) => number | Usage) | undefined;
  readonly usage: ((answer: R | C) => Usage | undefined) | undefined;
  readonly countTokens: ((text: string) => number) | undefined;
  readonly provider: ProviderRules | undefined;
}

/** The options, checked and with their defaults. */
export type CallerConfig<Q, R, C, P> = ReturnType<typeof callerConfig<Q, R, C, P>>;

export function callerConfig<Q, R, C, P>(options: ModelCallerOptions<Q, R, C, P>) {
  const { deadlineMs, timeoutMs } = MODEL_CALLER_DEFAULTS;
  const rules = check.options(
    NAME,
    options,
    { deadlineMs, timeoutMs, whenOpen: 'fail', classify: classifyError, random: Math.random },
    {
      limiter: check.unchecked,
      concurrency: check.optional(check.count),
      maxQueued: check.optional(check.countFromZero),
      lanes: check.unchecked,
      parse: check.callback,
      fixAnswer: fixAnswerOption<Q, R>,
      cache: check.madeBy<AnswerCaching<Q> | undefined>('open', '`answerCache({ … })`', undefined),
      retry: (_operator, _option, retry: ModelCallerOptions<Q, R, C, P>['retry']) => retryOf(NAME, retry),
      breaker: check.madeBy<Breaker | undefined>('trip', '`createBreaker({ … })`', undefined),
      whenOpen: check.oneOf('fail', 'wait'),
      budget: check.unchecked,
      provider: check.unchecked,
      deadlineMs: check.durationMs,
      timeoutMs: check.positive,
      hedge: check.madeBy<HedgeRule | undefined>('hedged', '`hedging({ … })`', undefined),
      classify: check.requiredFunction,
      onRecord: check.unchecked,
      onEvent: check.listener,
      name: check.optional(check.nonEmpty),
      scheduler: check.scheduler,
      random: check.requiredFunction,
      call: check.unchecked,
      model: check.unchecked,
    },
    '',
    HINTS,
  );
  const { parse, fixAnswer, scheduler } = rules;
  const client = clientOf<Q, R, C, P>(options);
  const channel = new EventChannel(rules.onEvent);
  if (parse === undefined) check.needs(NAME, 'fixAnswer', fixAnswer, '`parse`');
  const { limiter, ownLimiter } = rules.limiter === undefined ? newLimiter(options, scheduler, channel.tell) : sharedLimiter(options);
  const { lanes: knownLanes } = limiter;
  return {
    ...rules,
    fixAnswer: fixAnswer as AnswerFix<Q, R> | undefined,
    retry: rules.retry as unknown as ReturnType<typeof retryOf>,
    channel,
    client,
    limiter,
    isShared: rules.limiter !== undefined,
    ownLimiter,
    ledger: ledgerFor(options, limiter, client),
    lanes: knownLanes,
    defaultLane: knownLanes?.at(-1) ?? check.defaultLane,
  };
}

/** What is different for one call. @throws FlowConfigError */
export function checkCall(options: ModelCallOptions): void {
  check.onlyKnown(NAME, options, CALL, 'call options');
  const { signal, deadlineMs } = options;
  if (signal !== undefined) check.requiredSignal(NAME, 'signal', signal);
  if (deadlineMs !== undefined) check.durationMs(NAME, 'deadlineMs', deadlineMs);
  for (const option of ['lane', 'key', 'traceId', 'name'] as const)
    if (options[option] !== undefined) check.nonEmpty(NAME, option, options[option]);
}

function clientOf<Q, R, C, P>(rules: ModelCallerOptions<Q, R, C, P>): Client<Q, R, C> {
  const { call } = rules;
  if (typeof call === 'function') return checkedClient<Q, R, C>({ send: call, model: rules.model }, '');
  if (typeof call !== 'object' || (call as unknown) === null)
    throw new FlowConfigError(NAME, 'call', 'a function, or a client such as `chatCompletions({ … })`', call);
  check.excludes(NAME, 'model', rules.model, 'a client in `call`', 'Remove it: the client has its own `model`.');
  for (const [field, made] of SDK_CLIENTS) {
    if (field in call && !('send' in call)) throw check.misused(NAME, 'call', '`call` is a client of an SDK', `Pass \`${made}\`.`);
  }
  check.onlyKnown(NAME, call, CLIENT, 'call', 'call.', HINTS);
  return checkedClient(call, 'call.');
}

type GivenClient<Q, R, C> = { readonly [K in keyof ModelClient<Q, R, C>]: ModelClient<Q, R, C>[K] | undefined };

/** @param within - what its fields are part of, with a dot */
function checkedClient<Q, R, C>(given: GivenClient<Q, R, C>, within: string): Client<Q, R, C> {
  const { send, stream, model = 'default', cost, usage, countTokens, provider } = given;
  if (typeof model !== 'function') check.nonEmpty(NAME, `${within}model`, model);
  return {
    send: check.requiredFunction(NAME, `${within}send`, send as ModelClient<Q, R, C>['send']),
    stream: check.callback(NAME, `${within}stream`, stream),
    model: typeof model === 'function' ? model : () => model,
    cost: check.callback(NAME, `${within}cost`, cost),
    usage: check.callback(NAME, `${within}usage`, usage),
    countTokens: check.callback(NAME, `${within}countTokens`, countTokens),
    provider,
  };
}

/** Slots and lanes. Rates, and what they learn, are an account's. */
function newLimiter<Q, R, C, P>(rules: ModelCallerOptions<Q, R, C, P>, scheduler: SchedulerLike, tell: FlowSink) {
  const { concurrency, maxQueued, lanes: names } = { ...MODEL_CALLER_DEFAULTS, ...withoutUndefined(rules) };
  const queue = lanes(names, { key: ({ key }: LimiterJob) => key, operator: NAME });
  const limiter = createLimiter({ concurrency, maxQueued, queue, scheduler, onEvent: withoutEnd(tell) });
  return { limiter, ownLimiter: limiter };
}

function withoutUndefined<O extends object>(options: O): O {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as O;
}

/** A limiter that was given, with its own limits; of an account a part, when there is a `concurrency` as presets have one. */
function sharedLimiter<Q, R, C, P>(rules: ModelCallerOptions<Q, R, C, P>): { readonly limiter: Limiter; readonly ownLimiter?: Limiter } {
  for (const name of ['maxQueued', 'lanes'] as const) check.excludes(NAME, name, rules[name], '`limiter`', 'Set it on the limiter.');
  const { concurrency } = rules;
  const limiter = check.requiredLimiter(NAME, 'limiter', rules.limiter as Limiter);
  const ledger = keptLedger(limiter);
  if (ledger === undefined)
    check.excludes(NAME, 'concurrency', concurrency, 'this limiter', 'Use `limiter: childOf(limiter, { concurrency })`.');
  if (ledger === undefined || concurrency === undefined) return { limiter };
  const ownLimiter = ledger.part(limiter, concurrency);
  return { limiter: ownLimiter, ownLimiter };
}

/** The ledger of the account, with what these calls write down besides. */
function ledgerFor<Q, R, C, P>(rules: ModelCallerOptions<Q, R, C, P>, limiter: Limiter, client: Client<Q, R, C>): Ledger | undefined {
  const { budget, onRecord, provider } = rules;
  const ledger = keptLedger(limiter);
  if (ledger) return ledger.forPipeline(NAME, { budget, onRecord, provider }, client.provider);
  for (const [option, value] of Object.entries({ budget, onRecord, provider }))
    check.needs(NAME, option, value, 'an account', `Use \`limiter: createAccount({ ${option} })\` of \`sluice\`.`);
  return undefined;
}
