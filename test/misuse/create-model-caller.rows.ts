import { of } from 'rxjs';
import { createLimiter } from '../../operators/index.js';
import { chatCompletions, createModelCaller } from '../../src/pipelines/create-model-caller.js';
import type { MisuseRow, MisuseTable } from '../support/misuse.js';
import { badly } from '../support/misuse.js';

const rules =
  'limiter, concurrency, requestsPerMinute, tokensPerMinute, maxQueued, lanes, estimateTokens, usage, parse, fixAnswer, cache, retry, breaker, whenOpen, budget, provider, deadlineMs, timeoutMs, hedge, classify, onRecord, onEvent, name, scheduler, random';
const call = (request: string) => of(request);
const caller = () => createModelCaller({ call });

/** With a fake client unless one is given; `retry.x`, `hedge.x` and `lanes[0].x` are put where they belong. */
const create = (options: Readonly<Record<string, unknown>>): unknown => {
  const given: Record<string, unknown> = {};
  if (typeof options !== 'object' || (options as unknown) === null) return createModelCaller(options as never);
  for (const [name, value] of Object.entries(options)) {
    const [group = '', field] = name.split('.');
    if (group === 'lanes[0]') given['lanes'] = [field === undefined ? value : { name: 'user', [field]: value }];
    else if (field === undefined) given[name] = value;
    else given[group] = { [field]: value };
  }
  return createModelCaller({ call, ...given } as never);
};

/** The same over a client. */
const overClient = (...rows: readonly MisuseRow[]): MisuseRow[] =>
  rows.map((row) => ({ ...row, besides: { call: chatCompletions({ baseUrl: 'http://127.0.0.1/v1', model: 'm' }) } }));
/** The same with something that reads answers. */
const parsing = (...rows: readonly MisuseRow[]): MisuseRow[] => rows.map((row) => ({ ...row, besides: { parse: Number } }));
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
    'callAll.requests': (value) => caller().callAll(value),
    'ModelCallAllOptions.mode': (value) => caller().callAll({}, { mode: value }),
    'ModelCallAllOptions.deadlineMs': (value) => caller().callAll({}, { deadlineMs: value }),
    'drain.drain options': (value) => caller().drain(value),
    'DrainOptions.timeoutMs': (value) => caller().drain({ timeoutMs: value }),
    'shutdownOn.signal': (value) => caller().shutdownOn(value),
  },
  rows: [
    ...badly('call', 'a function, or a client such as `chatCompletions({ … })`', undefined, null, 'fetch', 5),
    ...badly('call.send', 'a function', undefined, null, 'fetch', {}),
    ...badly('call.baseUrl', 'absent (known options: send, stream, model, estimateTokens, usage, provider)', 'http://host/v1'),
    ...badly('stream', 'a function', null, 'fetch', {}),
    ...badly('model', 'a non-empty string', '', 5, null, {}),
    ...['baseUrl', 'apiKey', 'headers', 'fetch'].flatMap((option) =>
      badly(option, 'absent (an option of `call: chatCompletions({ … })`)', 'http://host/v1', undefined),
    ),
    ...overClient(
      ...badly('stream', 'absent beside a client in `call`, which has its own', call),
      ...badly('model', 'absent beside a client in `call`, which has its own', 'm'),
    ),
    ...badly('maxRetry', `absent (known options: ${rules}, call, stream, model)`, 2),
    ...badly('limiter', 'a limiter made by createLimiter', null, 4, {}),
    ...badly('concurrency', 'a whole number >= 1 or Infinity', 0, -1, 1.5, NaN, '4', null),
    ...badly('requestsPerMinute', 'a number > 0 or Infinity (`pause()` or `setLimits` lets nothing pass)', 0, -1, NaN, '4', null),
    ...badly('tokensPerMinute', 'a number > 0 or Infinity (`pause()` or `setLimits` lets nothing pass)', 0, -1, NaN, '4', null),
    ...badly('maxQueued', 'a whole number >= 0 or Infinity', -1, 1.5, NaN, '4', null),
    ...badly('lanes', 'a list of at least one lane', [], {}, 'user', null),
    ...badly('lanes[0]', 'an object', null, 'user', 5),
    ...badly('lanes[0].floor', 'a number from 0 to 1', -0.1, 1.5, NaN, '0.1', null),
    ...shared(
      ...badly('concurrency', 'a whole number >= 1 or Infinity', 0, 1.5, null),
      ...badly('requestsPerMinute', 'absent when a `limiter` is given', 4),
    ),
    ...shared(
      ...badly('tokensPerMinute', 'absent when a `limiter` is given', 4),
      ...badly('maxQueued', 'absent when a `limiter` is given', 4),
    ),
    ...shared(...badly('lanes', 'absent when a `limiter` is given', [{ name: 'user' }])),
    ...badly('budget', 'a budget made by createBudget', null, 5, {}, { usd: 5 }),
    ...badly('estimateTokens', 'a function', 5, null, {}),
    ...badly('usage', 'a function', 5, null, {}),
    ...badly('parse', 'a function', 5, null, {}),
    ...badly('retry.maxAttempts', 'a whole number >= 1 or Infinity', 0, -1, 1.5, NaN, '3', null),
    ...badly('retry.initialMs', 'a number of milliseconds >= 0 or Infinity', -1, NaN, '3', null),
    ...badly('retry.jitter', "one of 'full', 'equal', 'none'", 'some', true, null),
    ...badly('retry.maxRetry', 'absent (known options: maxAttempts, initialMs, factor, maxMs, jitter, maxShare, maxThrottledMs)', 2),
    ...badly('breaker', 'a breaker made by createBreaker, or its options', null, true, 5),
    ...badly('whenOpen', "one of 'fail', 'wait'", 'skip', true, null),
    ...badly('deadlineMs', 'a number of milliseconds >= 0 or Infinity', -1, NaN, '5', null),
    ...badly('timeoutMs', 'a number > 0 or Infinity', 0, -1, NaN, '5', null),
    ...badly('hedge', 'an object', null, true, 50),
    ...badly('hedge.delayMs', 'a number of milliseconds >= 0 or Infinity', -1, NaN, '5', null),
    ...badly('hedge.maxHedges', 'a whole number >= 0', -1, 1.5, NaN, Infinity, '1', null),
    ...badly('hedge.maxShare', 'a number > 0 or Infinity', 0, -1, NaN, '1', null),
    ...badly('hedge.lanes', 'a list of lanes', 'user', {}, null),
    ...badly('classify', 'a function', 5, null, {}),
    ...badly('onRecord', 'a function', 5, null, {}),
    ...badly('onEvent', 'a function', console, 'log', null),
    ...badly('scheduler', 'an rxjs scheduler', 5, null, {}),
    ...badly('random', 'a function', 0.5, null),
    ...badly('name', 'a non-empty string', '', 5, null),
    ...badly('call.call options', 'an object', null, 5, 'user'),
    ...badly('ModelCallOptions.lanes', 'absent (known options: lane, key, signal, traceId, name)', ['user']),
    ...badly('ModelCallOptions.lane', 'a non-empty string', '', 5, null),
    ...badly('ModelCallOptions.key', 'a non-empty string', '', 5, null, {}),
    ...badly('ModelCallOptions.signal', 'an AbortSignal', null, 5, {}, new AbortController()),
    ...badly('ModelCallOptions.traceId', 'a non-empty string', '', 5, null),
    ...badly('ModelCallOptions.name', 'a non-empty string', '', 5, null),
    ...badly('callAll.requests', 'an object', null, undefined, 5, 'a'),
    ...badly('fixAnswer', 'an object', null, 5, true),
    ...badly('fixAnswer.times', 'absent (known options: rounds, ask)', 2),
    { option: 'parse', value: undefined, expected: 'given together with `fixAnswer`', besides: { fixAnswer: { ask: String } } },
    ...parsing(
      ...badly('fixAnswer.ask', 'a function', undefined, null, 'again'),
      ...badly('fixAnswer.rounds', 'a whole number >= 1', 0, -1, 1.5, NaN, Infinity, '2', null),
    ),
    ...badly('cache', 'an object', null, 5, true),
    ...badly('cache.maxEntries', 'absent (known options: key, ttlMs, storage, timeoutMs)', 5),
    ...badly('cache.key', 'a function', undefined, null, 'key'),
    ...badly('cache.ttlMs', 'a number > 0 or Infinity', 0, -1, NaN, '5', null),
    ...badly('cache.timeoutMs', 'a number > 0 or Infinity', 0, -1, NaN, '5', null),
    ...badly('cache.storage', 'an object with `get`, `set` and `delete`', null, 5, {}, { get: String, set: String }),
    ...badly('ModelCallAllOptions.mode', "one of 'all', 'settle', 'collect'", 'any', null, 5),
    ...badly('ModelCallAllOptions.deadlineMs', 'a number of milliseconds >= 0 or Infinity', -1, NaN, '5', null),
    ...badly('drain.drain options', 'an object', null, 5, 'now'),
    ...badly('DrainOptions.timeoutMs', 'a number of milliseconds >= 0 or Infinity', -1, NaN, '5', null),
    ...badly('shutdownOn.signal', 'an AbortSignal', undefined, NaN, 'text', null, {}),
  ],
};
