import { createLimiter } from '../../operators/index.js';
import type { MisuseRow } from '../support/misuse.js';
import { badly, wrong } from '../support/misuse.js';

const COUNT = 'a whole number >= 1 or Infinity';
const POSITIVE = 'a number > 0 or Infinity';

/** All rules, as an error lists them. */
export const TEXT_RULES =
  'limiter, concurrency, lanes, maxSize, maxTokens, maxTokensPerText, countTokens, provider, window, maxQueued, overflow, repair, classify, timeoutMs, deadlineMs, onEvent, name, scheduler, random';

/** The same beside a shared limiter. */
const shared = (...rows: readonly MisuseRow[]): MisuseRow[] => rows.map((row) => ({ ...row, besides: { limiter: createLimiter() } }));

/** Bad values of what `createEmbedder` and `limitEmbeddings` share, but for the options of a batcher. */
export const embedderRows: readonly MisuseRow[] = [
  ...badly('maxSize', COUNT, 0, -1, 1.5, NaN, '4', null),
  ...badly('maxTokens', POSITIVE, 0, -1, NaN, '4', null),
  ...badly('maxTokensPerText', POSITIVE, 0, -1, NaN, '4', null),
  ...badly('countTokens', 'a function', 5, null, {}, 'gpt'),
  ...badly('concurrency', COUNT, 0, -1, 1.5, NaN, '4', null),
  ...wrong('requestsPerMinute', 'unknown option `{option}`', 'Use `limiter: createAccount({ … })`.', 60, null),
  ...wrong('tokensPerMinute', 'unknown option `{option}`', 'Use `limiter: createAccount({ … })`.', 60, null),
  ...wrong('burstSeconds', 'unknown option `{option}`', 'Use `limiter: createAccount({ … })`.', 2, null),
  ...badly('provider', 'an object', 0, null, 'yes'),
  ...shared(...wrong('concurrency', '`{option}` cannot be combined with `limiter`', 'Set it on the limiter.', 4)),
];
