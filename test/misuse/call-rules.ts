import { createLimiter, lanes } from '../../operators/index.js';
import type { MisuseRow } from '../support/misuse.js';
import { badly, unknown, wrong } from '../support/misuse.js';

const COUNT = 'a whole number >= 1 or Infinity';
const DURATION = 'a number of milliseconds >= 0 or Infinity';
const POSITIVE = 'a number > 0 or Infinity';

const badCounts = [NaN, 0, -1, 1.5, -Infinity, 2 ** 60, '4', true, {}];
const badDurations = [NaN, -1, -Infinity, '20', true, {}];
const badSizes = [NaN, 0, -1, -Infinity, '8', true, {}];

/** `{ 'retry.maxMs': 0 }` as `{ retry: { maxMs: 0 } }`. */
export function nested(options: unknown): unknown {
  if (typeof options !== 'object' || options === null) return options;
  const out: Record<string, unknown> = {};
  for (const [path, value] of Object.entries(options) as [string, unknown][]) {
    const [group = '', field] = path.split('.');
    out[group] = field === undefined ? value : { ...(out[group] as object | undefined), [field]: value };
  }
  return out;
}

/** Bad values of what all adapters take (`CallRules`). Dotted names are for {@link nested}. */
export const callRuleRows: readonly MisuseRow[] = [
  ...badly('limiter', 'a limiter made by createLimiter or createAccount', {}, 4, null, 'shared'),
  ...wrong('maxRetries', 'unknown option `{option}`', 'Use `retry: { maxAttempts }`.', 2),
  ...badly('retry', 'an object or false', true, NaN, 0, -1, 1.5, Infinity, 'no', null),
  ...badly('retry.maxAttempts', COUNT, ...badCounts),
  ...badly('retry.delayMs', DURATION, ...badDurations),
  ...badly('retry.maxMs', DURATION, ...badDurations),
  ...badly('retry.jitter', "one of 'full', 'equal', 'none'", 'some', true, 0, NaN, {}),
  ...badly('retry.maxShare', POSITIVE, ...badSizes),
  ...badly('retry.maxThrottledMs', DURATION, ...badDurations),
  ...badly('breaker', 'a breaker made by createBreaker', {}, 5, null, 'shared'),
  ...badly('whenOpen', "one of 'fail', 'wait'", 'skip', true, null),
  ...badly('classify', 'a function', 'fatal', null, {}),
  ...badly('deadlineMs', 'a number of milliseconds >= 0 or Infinity', -1, NaN, -Infinity, '1000', null),
  ...badly('timeoutMs', 'a number > 0 or Infinity', 0, -1, NaN, '1000', null),
  ...badly('onEvent', 'a function', console, 'log', null),
  ...badly('scheduler', 'an rxjs scheduler', 5, null, {}, { now: () => 0 }),
  ...badly('random', 'a function', 0.5, null, {}),
];

const limiter = createLimiter({ queue: lanes([{ name: 'user' }, { name: 'normal' }]) });
const withLimiter = (...rows: readonly MisuseRow[]): MisuseRow[] => rows.map((row) => ({ ...row, besides: { limiter } }));

/** Bad values of `job`. */
export const jobRows: readonly MisuseRow[] = [
  ...withLimiter(
    ...badly('job', 'an object', NaN, 0, '', 5, null, 'user'),
    ...badly('job.lane', 'a non-empty string', NaN, 0, '', 5, null, {}),
    ...badly('job.lane', 'a lane of the limiter (user, normal)', 'P7'),
    ...badly('job.key', 'a non-empty string', '', null, {}),
    ...badly('job.model', 'a non-empty string', '', 5, null, {}),
    ...badly('job.name', 'a non-empty string', '', 5, null, {}),
    ...badly('job.cost', 'an object', NaN, 0, 5, 'tokens', null),
    ...unknown('job.tokens', 'lane, key, cost, model, name', 5),
  ),
  ...wrong('job', '`{option}` needs `limiter`', 'Add it, or remove `{option}`.', { lane: 'user' }, () => ({ cost: { tokens: 1 } })),
];

/** The same for those that make jobs of requests (`JobRules`). */
export const jobRuleRows: readonly MisuseRow[] = [
  ...callRuleRows,
  ...jobRows,
  ...badly('provider', 'an object', null, 5, 'openai'),
  ...badly('provider.name', 'a non-empty string', undefined, '', 5),
  ...unknown('provider.rates', 'name, cacheReads, outputCharged, unusedOutput, tokensCharged, refusedInput, failedInput', 5),
];

/** The same for adapters whose calls have a connection of their own (`ConnectionRules`). */
export const connectionRuleRows: readonly MisuseRow[] = [
  ...jobRuleRows,
  ...badly('closeGraceMs', 'a number from 0 to 60000', -1, NaN, Infinity, '50', null),
];

/** The names of them, in the order in which an error lists them; the adapter's own come behind. */
export const CALL_RULES = 'limiter, retry, breaker, whenOpen, classify, deadlineMs, timeoutMs, onEvent, scheduler, random';
