import { describe, expect, it } from 'vitest';
import { FlowConfigError, isFlowError } from '../operators/index.js';
import type { MisuseRow, MisuseTable } from './support/misuse.js';
import { misuseTables, operatorOf, reported, say, show } from './support/misuse.js';
import { optionLists } from './support/option-list.js';

const doNothing = (): void => undefined;
const RECORD = {};

/** What people give by mistake: numbers out of range, a number as text, nothing, and things of another shape. */
const GIVEN: readonly unknown[] = [NaN, 0, -1, 1.5, Infinity, 'text', '4', null, true, RECORD, [], doNothing];

/** What of {@link GIVEN} is right after all, by what the error for the others says. */
const RIGHT: Readonly<Record<string, (value: unknown) => boolean>> = {
  'a whole number >= 0': (value) => value === 0,
  'a whole number >= 0 or Infinity': (value) => value === 0 || value === Infinity,
  'a whole number >= 1 or Infinity': (value) => value === Infinity,
  'a whole number >= 2 or Infinity': (value) => value === Infinity,
  'a number of milliseconds >= 0 or Infinity': (value) => typeof value === 'number' && value >= 0,
  'a number >= 0 or Infinity': (value) => typeof value === 'number' && value >= 0,
  'a number > 0 or Infinity': (value) => typeof value === 'number' && value > 0,
  'a number > 0 or Infinity (to stop all calls, use `pause()`)': (value) => typeof value === 'number' && value > 0,
  'a number from 0 to 1': (value) => value === 0,
  'a number from 0 to 0.1': (value) => value === 0,
  'a number from 0.001 to 86400': (value) => value === 1.5,
  'a number from 0 to less than 1': (value) => value === 0,
  'a finite number': (value) => Number.isFinite(value),
  'a finite number >= 0': (value) => value === 0 || value === 1.5,
  'a finite number > 0': (value) => value === 1.5,
  'a whole number': (value) => Number.isInteger(value),
  'a whole number from 0 to 23': (value) => value === 0,
  'a function': (value) => value === doNothing,
  'true or false': (value) => value === true,
  'a non-empty string': (value) => typeof value === 'string',
  'an object': (value) => typeof value === 'object' && value !== null,
  'an array': (value) => Array.isArray(value),
  'an array of settled results': (value) => Array.isArray(value),
  "a list of rates such as perMinute('requests', 600)": (value) => Array.isArray(value),
  'a list of lanes': (value) => Array.isArray(value),
  'a list of objects such as { model, requestsPerMinute }': (value) => Array.isArray(value),
  'a repair such as retryFailed() or robust(), or a list of them': (value) => Array.isArray(value),
  'an object or a function': (value) => Object(value) === value,
  'an object or false': (value) => typeof value === 'object' && value !== null,
  'an Observable, promise or iterable': (value) => typeof value === 'string' || Array.isArray(value),
  'an Iterable, an AsyncIterable or a ReadableStream': (value) => typeof value === 'string' || Array.isArray(value),
  "{ kind: 'natural' }, { kind: 'fixed', ms }, { kind: 'graded', maxMs } or a function": (value) => value === doNothing,
};

function isRight(expected: string, value: unknown): boolean {
  return RIGHT[expected]?.(value) ?? false;
}

/** Options that also take what their error does not name, in favour of a sentence that can be read. */
const ALSO: Readonly<Record<string, readonly unknown[]>> = {
  ...Object.fromEntries(['batchMap', 'batchMapFrom', 'createBatcher'].map((name) => [`${name}.deadlineMs`, [doNothing]])),
  'hedge.delayMs': [doNothing],
  'hedging.delayMs': [doNothing],
  'retryFailed.delayMs': [doNothing],
  ...Object.fromEntries(
    ['batchMap', 'batchMapFrom', 'bulkheadMap', 'createBatcher', 'createLimiter', 'rateLimit'].map((name) => [
      `${name}.maxQueued`,
      [doNothing],
    ]),
  ),
  ...Object.fromEntries(
    ['backpressure', 'batchMap', 'bulkheadMap', 'createBatcher', 'createLimiter', 'rateLimit'].map((name) => [
      `${name}.overflow`,
      [doNothing],
    ]),
  ),
  perKey: [doNothing, RECORD],
  'fairness.priority': [doNothing],
  // An arrow function is no class; nothing but calling it tells.
  observableClass: [doNothing],
};

/** What is refused in another way, and how. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  'partitionSettled.results[0]': 'refused as a whole: `results`',
  'partitionSettled.results[0].status': 'as above',
  'createLimiter.restore.at': 'refused as a whole: `restore`',
  'createLimiter.restore.pausedForMs': 'as above',
  'createLimiter.restore.rates': 'as above',
  'createLimiter.restore.rates[0]': 'as above',
  'createLimiter.restore.rates[0].windowMs': 'as above',
  'createLimiter.restore.rates[0].isStrict': 'as above',
  'createLimiter.restore.rates[0].spent': 'as above',
  'createLimiter.restore.models': 'as above',
  'createLimiter.restore.models[0]': 'as above',
  'createLimiter.restore.models[0].at': 'as above',
  'createLimiter.restore.models[0].pausedForMs': 'as above',
  'createLimiter.restore.models[0].rates': 'as above',
  'createLimiter.restore.models[0].rates[0]': 'as above',
  'createLimiter.restore.models[0].rates[0].windowMs': 'as above',
  'createLimiter.restore.models[0].rates[0].isStrict': 'as above',
  'createLimiter.restore.models[0].rates[0].spent': 'as above',
  'createLimiter.restore.models[0].models': 'as above',
  'createLimiter.restore.models[0].models[0]': 'as above',
  'createLimiter.restore.rates[0].unit':
    'a rate that the limiter does not have is passed over: it may have other rates than when it was saved',
  'createLimiter.restore.models[0].rates[0].unit': 'as above',
  'createLimiter.restore.models[0].model':
    'a model without limits of its own is passed over: an account may have other models than when it was saved',
  'createLimiter.LimiterJob.holder.granted': 'refused as a whole: `holder`',
  'createLimiter.__type.waitsForRoom': 'as below',
  'createLimiter.__type.deadlineMs': 'the job of what `wrap` makes, which is a `LimiterJob`',
  'createLimiter.__type.lane': 'as above',
  'createLimiter.__type.key': 'as above',
  'createLimiter.__type.model': 'as above',
  'createLimiter.__type.cost': 'as above',
  'createLimiter.__type.cost.slots': 'as above',
  'createLimiter.__type.cost.requests': 'as above',
  'createLimiter.__type.cost.tokens': 'as above',
  'createLimiter.__type.cost.inputTokens': 'as above',
  'createLimiter.__type.cost.outputTokens': 'as above',
  'createLimiter.runAsync.work': 'rejects with what `run` throws',
  'createBreaker.runAsync.work': 'rejects with what `run` throws',
  'createBreaker.restore.state': 'refused as a whole: `restore`',
  'createBreaker.restore.at': 'refused as a whole: `restore`',
  'createBreaker.restore.openMs': 'refused as a whole: `restore`',
  'createBreaker.restore.leftMs': 'refused as a whole: `restore`',
  'createBreaker.restore.counted': 'refused as a whole: `restore`',
  'memoryStore.restore.at': 'refused as a whole: `restore`',
  'memoryStore.restore.lostAt': 'as above',
  'memoryStore.restore.scopes': 'as above',
  'toNative.subscribe.observer': 'the class of the platform looks at it',
  'toNative.__type.signal': 'as above',
  'toStore.subscribe.listener': 'its caller is the user interface library, which has one',
  'policy.retry.failed': 'refused as a whole: `retry`',
  'hedge.job.waitsForRoom': 'as below',
  'policy.job.waitsForRoom': 'as for `hedge`',
  'policy.PolicyCallOptions.job.waitsForRoom': 'as for `hedge`',
  'createBatcher.job.key': 'any value is a key',
  'loadFrom.loadSettled': 'refused as a whole: `batcher`',
  'loadFrom.lane': 'checked by the batcher, as for `load`',
  'loadFrom.key': 'as above',
  'loadFrom.signal': 'as above',
  'loadFrom.deadlineMs': 'as above',
  'hedge.job.cost': 'the limiter refuses it when the first attempt asks for its permit, and the result errors',
  'hedge.job.cost.requests': 'as above',
  'hedge.job.cost.tokens': 'as above',
  'hedge.job.cost.inputTokens': 'as above',
  'hedge.job.cost.outputTokens': 'as above',
  'hedge.job.model': 'as above',
  'hedge.job.signal': 'as above',
  'hedge.job.id': 'as above',
  'hedge.job.key': 'as above',
  'hedge.job.cost.slots': 'as above',
  'hedge.job.deadlineMs': 'as above',
  'hedge.job.holder.granted': 'as above',
  'hedge.job.lane': 'as above, with `LaneUnknownError`',
  'hedge.job.holder': 'as above',
  'policy.job.cost': 'as for `hedge`',
  'policy.job.cost.requests': 'as for `hedge`',
  'policy.job.cost.tokens': 'as for `hedge`',
  'policy.job.cost.inputTokens': 'as for `hedge`',
  'policy.job.cost.outputTokens': 'as for `hedge`',
  'policy.job.model': 'as for `hedge`',
  'policy.job.signal': 'as for `hedge`',
  'policy.job.id': 'as above',
  'policy.job.key': 'as above',
  'policy.job.cost.slots': 'as above',
  'policy.job.deadlineMs': 'as above',
  'policy.job.holder.granted': 'as above',
  'policy.job.holder': 'as for `hedge`',
  'policy.job.lane': 'as for `hedge`, with `LaneUnknownError`',
  'policy.PolicyCallOptions.job.cost': 'as for `hedge`',
  'policy.PolicyCallOptions.job.cost.requests': 'as for `hedge`',
  'policy.PolicyCallOptions.job.cost.tokens': 'as for `hedge`',
  'policy.PolicyCallOptions.job.cost.inputTokens': 'as for `hedge`',
  'policy.PolicyCallOptions.job.cost.outputTokens': 'as for `hedge`',
  'policy.PolicyCallOptions.job.model': 'as for `hedge`',
  'policy.PolicyCallOptions.job.signal': 'as for `hedge`',
  'policy.PolicyCallOptions.job.id': 'as above',
  'policy.PolicyCallOptions.job.key': 'as above',
  'policy.PolicyCallOptions.job.cost.slots': 'as above',
  'policy.PolicyCallOptions.job.deadlineMs': 'as above',
  'policy.PolicyCallOptions.job.holder.granted': 'as above',
  'policy.PolicyCallOptions.job.holder': 'as for `hedge`',
  'policy.PolicyCallOptions.job.lane': 'as for `hedge`, with `LaneUnknownError`',
};

/** What takes anything, and why. It must not throw. */
const FREE: Readonly<Record<string, string>> = {
  'classifyError.error': 'whatever was thrown is sorted',
  'classifyError.size': 'its caller is a `classify` of yours, which passes on what it was told',
  'classifyError.attempt': 'as above',
  'classifyError.aborted': 'as above',
  'classifyError.epochMs': 'as above',
  'isFlowError.value': 'whatever was thrown is asked about',
  'isFlowError.code': 'an invalid code is the code of no error',
  'createBatcher.load.item': 'an item may be anything',
  'createBatcher.loadAsync.item': 'an item may be anything',
  'createBatcher.loadSettled.item': 'an item may be anything',
  'createBatcher.clear.item': 'an item may be anything',
  'createBatcher.prime.item': 'an item may be anything',
  'createBatcher.prime.value': 'a value may be anything but an `Error`',
  'createIntake.offer.item': 'an item may be anything',
  'createIntake.tryOffer.item': 'an item may be anything',
  'toStore.initial': 'a snapshot may be anything',
  'toAsyncIterable.throw.error': 'whatever is thrown into the loop ends it',
  'createLimiter.Usage.inputTokens': 'what a provider reports is not ours to refuse: without a usable number the estimate stands',
  'createLimiter.Usage.outputTokens': 'as above',
  'createLimiter.Usage.units': 'as above',
  'createLimiter.Usage.cacheReadTokens':
    'the limiter does not read it: it counts all input alike, and `units` where a provider counts otherwise',
  'createLimiter.Usage.cacheWriteTokens': 'as above',
  'createLimiter.Usage.cacheWrite1hTokens': 'as above',
  'createLimiter.Usage.reasoningTokens': 'as above, of the output',
  'createLimiter.release.error': 'whatever the work failed with, undefined for nothing',
  'createLimiter.releaseAfter.error': 'as above',
  'createLimiter.LimiterJob.key': 'every value is a key',
  'createLimiter.LimiterJob.id': 'every value is an id',
  'createLimiter.move.id': 'as above',
  'createLimiter.remove.id': 'as above',
  'createLimiter.remove.reason': 'whatever is the reason, undefined for none',
  'createLimiter.call.args': 'the arguments of what was wrapped',
  'createLimiter.clear.reason': 'whatever is the reason, undefined for none',
  'createLimiter.release.outcome': 'every other word frees the slot as well',
  'createLimiter.boundedTo.unit': 'any name: a unit that nothing counts was not bounded',
  'createLimiter.ResponseLike.status': 'what a provider answers is not ours to refuse: an invalid status says nothing',
  'createLimiter.ResponseLike.headers': 'as above',
};

const tables = new Map((await misuseTables()).map((table) => [table.operator, table]));
/** What `createLimiter` checks for an account; children and keyed limiters are said with it, under its name. */
const ofLimiters = new Set(optionLists().get('createLimiter'));
/** `robust` says nothing of its own either: its groups are what is said to others. */
const WITH_OTHERS = ['robust', 'childOf', 'keyedLimiter'];
const lists = [...optionLists()].flatMap(([operator, options]) => {
  if (WITH_OTHERS.includes(operator)) return [];
  return [{ operator, options: operator === 'createAccount' ? options.filter((option) => !ofLimiters.has(option)) : options }];
});

/** Throws what is wrong with how the value is taken. */
function problem(table: MisuseTable, option: string, value: unknown): string | undefined {
  const operator = operatorOf(table, option);
  const besides = table.rows.find((row) => row.option === option)?.besides;
  const name = reported(table, option);
  const what = `\`${option}\`: ${show(value)}`;
  const also = (ALSO[`${operator}.${option}`] ?? ALSO[option])?.includes(value) ?? false;
  try {
    say(table, { option, value, ...(besides && { besides }) });
  } catch (error) {
    if (isFlowError(error, 'FLOW_LANE_UNKNOWN')) return undefined;
    if (!(error instanceof FlowConfigError)) return also ? undefined : `${what} ends in ${String(error)}`;
    const isNamed = error.option === name || isPart(error.option, name) || isPart(name, error.option);
    if (error.operator !== operator || !isNamed) return `${what} is blamed on something else: ${error.message}`;
    return error.option === name && (isRight(error.expected, value) || also) ? `${what} is what it should be: ${error.message}` : undefined;
  }
  const expected = table.rows.filter((row) => row.option === option).map((row) => row.expected);
  return also || expected.some((text) => isRight(text, value)) ? undefined : `${what} is taken`;
}

/** Fields of a group that is refused as a whole: `fairness.kind` of `{ kind: 'aging' }`. */
function fieldsOf({ option, value }: MisuseRow): Readonly<Record<string, true>> {
  return Object.fromEntries(Object.keys(Object(value) as object).map((field) => [`${option}.${field}`, true]));
}

/** Whether one option is inside another: `retry.maxMs` in `retry`. */
function isPart(part: string, whole: string): boolean {
  return part.startsWith(`${whole}.`) || part.startsWith(`${whole}[`);
}

describe.each(lists)('$operator', ({ operator, options }) => {
  const checked = options.filter((option) => ![FREE, ELSEWHERE].some((list) => `${operator}.${option}` in list));

  it.runIf(checked.length > 0)('has rows for everything that can be said to it', () => {
    const rows = tables.get(operator)?.rows ?? [];
    const isAsked = (option: string): boolean =>
      // `LaneUnknownError` is for lanes; the sweep below looks at those.
      option.endsWith('.lane') || rows.some((row) => row.option === option || isPart(row.option, option) || option in fieldsOf(row));
    expect(checked.filter((option) => !isAsked(option))).toEqual([]);
  });

  it.runIf(checked.length > 0).each(checked)('rejects each usual mistake in `%s`, unless the value is valid there', (option) => {
    const table = tables.get(operator);
    expect(table && GIVEN.flatMap((value) => problem(table, option, value) ?? [])).toEqual([]);
  });
});

describe('what is not checked here', () => {
  it('exists', () => {
    const all = lists.flatMap(({ operator, options }) => options.map((option) => `${operator}.${option}`));
    expect(Object.keys({ ...FREE, ...ELSEWHERE }).filter((name) => !all.includes(name))).toEqual([]);
  });

  it.each(Object.keys(FREE).filter((name) => tables.get(name.split('.')[0]!)?.calls?.[name.replace(/^\w+\./, '')]))(
    '`%s` throws at nothing',
    (name) => {
      const [operator = '', ...path] = name.split('.');
      for (const value of GIVEN) say(tables.get(operator)!, { option: path.join('.'), value });
    },
  );
});
