import { of } from 'rxjs';
import { createLimiter } from '../../operators/index.js';
import { createAccount } from '../../src/account/create-account.js';
import { chatCompletions, createModelCaller } from '../../src/pipelines/create-model-caller.js';
import type { MisuseRow, MisuseTable } from '../support/misuse.js';
import { badly, misspelt, unknown, wrong } from '../support/misuse.js';

const rules =
  'limiter, concurrency, maxQueued, lanes, parse, fixAnswer, cache, retry, breaker, whenOpen, budget, provider, deadlineMs, timeoutMs, hedge, classify, onRecord, onEvent, name, scheduler, random';
const call = (request: string) => of(request);
const caller = () => createModelCaller({ call });

/** With a fake client unless one is given; `retry.x`, `fixAnswer.x` and `lanes[0].x` are put where they belong. */
const create = (options: Readonly<Record<string, unknown>>): unknown => {
  const given: Record<string, unknown> = {};
  if (typeof options !== 'object' || (options as unknown) === null) return createModelCaller(options as never);
  for (const [name, value] of Object.entries(options)) {
    const [group = '', field] = name.split('.');
    if (group === 'lanes[0]') given['lanes'] = [field === undefined ? value : { name: 'user', [field]: value }];
    else if (field === undefined) given[name] = value;
    else given[group] = { ...(group === 'call' && { send: call }), [field]: value };
  }
  return createModelCaller({ call, ...given } as never);
};

/** The same over a client. */
const overClient = (...rows: readonly MisuseRow[]): MisuseRow[] =>
  rows.map((row) => ({ ...row, besides: { call: chatCompletions({ baseUrl: 'http://127.0.0.1/v1', model: 'm' }) } }));
/** The same with something that reads answers. */
const parsing = (...rows: readonly MisuseRow[]): MisuseRow[] => rows.map((row) => ({ ...row, besides: { parse: Number } }));
/** The same under an account. */
const underAccount = (...rows: readonly MisuseRow[]): MisuseRow[] => rows.map((row) => ({ ...row, besides: { limiter: createAccount() } }));
/** The same beside a shared limiter. */
const shared = (...rows: readonly MisuseRow[]): MisuseRow[] => rows.map((row) => ({ ...row, besides: { limiter: createLimiter() } }));

export const rows: MisuseTable = {
  operator: 'createModelCaller',
  create: create,
  calls: {
    'call.call options': (value) => caller().call('a', value),
    'ModelCallOptions.lanes': (value) => caller().call('a', { lanes: value } as never),
    'ModelCallOptions.lane': (value) => caller().call('a', { lane: value }),
    'ModelCallOptions.key': (value) => caller().call('a', { key: value }),
    'ModelCallOptions.signal': (value) => caller().call('a', { signal: value }),
    'ModelCallOptions.traceId': (value) => caller().call('a', { traceId: value }),
    'ModelCallOptions.name': (value) => caller().call('a', { name: value }),
    'ModelCallOptions.deadlineMs': (value) => caller().call('a', { deadlineMs: value }),
    'drain.drain options': (value) => caller().drain(value),
    'DrainOptions.timeoutMs': (value) => caller().drain({ timeoutMs: value }),
    'shutdownOn.signal': (value) => caller().shutdownOn(value),
  },
  rows: [
    ...badly('call', 'a function, or a client such as `chatCompletions({ … })`', undefined, null, 'fetch', 5),
    ...badly('call.send', 'a function', undefined, null, 'fetch', {}),
    ...wrong('call.baseUrl', 'unknown option `{option}`', 'Use `call: chatCompletions({ … })`.', 'http://host/v1'),
    ...['stream', 'usage', 'cost'].flatMap((option) =>
      wrong(option, 'unknown option `{option}`', `Use \`call: { send, ${option} }\`.`, call, undefined),
    ),
    ...badly('call.stream', 'a function', null, 'fetch', {}),
    ...badly('call.cost', 'a function', 5, null, {}),
    ...badly('call.usage', 'a function', 5, null, {}),
    ...badly('model', 'a non-empty string', '', 5, null, {}),
    ...['baseUrl', 'apiKey', 'headers', 'fetch'].flatMap((option) =>
      wrong(option, 'unknown option `{option}`', 'Use `call: chatCompletions({ … })`.', 'http://host/v1', undefined),
    ),
    ...overClient(
      ...wrong('model', '`{option}` cannot be combined with a client in `call`', 'Remove it: the client has its own `{option}`.', 'm'),
    ),
    ...unknown('priority', `${rules}, call, model`, 2),
    ...misspelt('maxRetry', 'retry', 2),
    ...badly('limiter', 'a limiter made by createLimiter or createAccount', null, 4, {}),
    ...badly('concurrency', 'a whole number >= 1 or Infinity', 0, -1, 1.5, NaN, '4', null),
    ...['requestsPerMinute', 'tokensPerMinute', 'rpm', 'tpm'].flatMap((option) =>
      wrong(option, 'unknown option `{option}`', 'Use `limiter: createAccount({ … })`.', 4),
    ),
    ...badly('maxQueued', 'a whole number >= 0 or Infinity', -1, 1.5, NaN, '4', null),
    ...badly('lanes', 'a list of at least one lane or name', [], {}, 'user', null),
    ...badly('lanes[0]', 'an object', null, 5),
    ...badly('lanes[0].floor', 'a number from 0 to 1', -0.1, 1.5, NaN, '0.1', null),
    ...shared(
      ...badly('concurrency', 'a whole number >= 1 or Infinity', 0, 1.5, null),
      ...wrong('concurrency', '`{option}` cannot be combined with this limiter', 'Use `limiter: childOf(limiter, { concurrency })`.', 4),
      ...wrong('maxQueued', '`{option}` cannot be combined with `limiter`', 'Set it on the limiter.', 4),
    ),
    ...shared(...wrong('lanes', '`{option}` cannot be combined with `limiter`', 'Set it on the limiter.', [{ name: 'user' }])),
    ...underAccount(...badly('budget', 'a budget made by createBudget', null, 5, {}, { usd: 5 })),
    ...['budget', 'onRecord', 'provider'].flatMap((option) =>
      wrong(option, '`{option}` needs an account', 'Use `limiter: createAccount({ {option} })` of `sluice`.', 5),
    ),
    ...badly('parse', 'a function', 5, null, {}),
    ...badly('retry.maxAttempts', 'a whole number >= 1 or Infinity', 0, -1, 1.5, NaN, '3', null),
    ...badly('retry.delayMs', 'a number of milliseconds >= 0 or Infinity', -1, NaN, '3', null),
    ...badly('retry.jitter', "one of 'full', 'equal', 'none'", 'some', true, null),
    ...unknown('retry.maxRetry', 'maxAttempts, delayMs, maxMs, jitter, maxShare, maxThrottledMs', 2),
    ...badly('breaker', '`createBreaker({ … })`', null, true, 5, { opens: { inARow: 5 } }),
    ...badly('whenOpen', "one of 'fail', 'wait'", 'skip', true, null),
    ...badly('deadlineMs', 'a number of milliseconds >= 0 or Infinity', -1, NaN, '5', null),
    ...badly('timeoutMs', 'a number > 0 or Infinity', 0, -1, NaN, '5', null),
    ...badly('hedge', '`hedging({ … })`', null, true, 50, { delayMs: 50 }),
    ...badly('classify', 'a function', 5, null, {}),
    ...underAccount(...badly('onRecord', 'a function', 5, null, {})),
    ...badly('onEvent', 'a function', console, 'log', null),
    ...badly('scheduler', 'an rxjs scheduler', 5, null, {}),
    ...badly('random', 'a function', 0.5, null),
    ...badly('name', 'a non-empty string', '', 5, null),
    ...badly('call.call options', 'an object', null, 5, 'user'),
    ...misspelt('ModelCallOptions.lanes', 'lane', ['user']),
    ...badly('ModelCallOptions.lane', 'a non-empty string', '', 5, null),
    ...badly('ModelCallOptions.key', 'a non-empty string', '', 5, null, {}),
    ...badly('ModelCallOptions.signal', 'an AbortSignal', null, 5, {}, new AbortController()),
    ...badly('ModelCallOptions.traceId', 'a non-empty string', '', 5, null),
    ...badly('ModelCallOptions.name', 'a non-empty string', '', 5, null),
    ...badly('ModelCallOptions.deadlineMs', 'a number of milliseconds >= 0 or Infinity', -1, NaN, '5', null),
    ...badly('call.countTokens', 'a function', 5, null, {}),
    ...badly('fixAnswer', 'an object', null, 5, true),
    ...unknown('fixAnswer.times', 'rounds, ask', 2),
    ...wrong('fixAnswer', '`{option}` needs `parse`', 'Add it, or remove `{option}`.', { ask: String }),
    ...parsing(
      ...badly('fixAnswer.ask', 'a function', undefined, null, 'again'),
      ...badly('fixAnswer.rounds', 'a whole number >= 1', 0, -1, 1.5, NaN, Infinity, '2', null),
    ),
    ...badly('cache', '`answerCache({ … })`', null, 5, true, { key: String }),
    ...badly('drain.drain options', 'an object', null, 5, 'now'),
    ...badly('DrainOptions.timeoutMs', 'a number of milliseconds >= 0 or Infinity', -1, NaN, '5', null),
    ...badly('shutdownOn.signal', 'an AbortSignal', undefined, NaN, 'text', null, {}),
  ],
};
