import { createLimiter } from '../../operators/index.js';
import type { MisuseRow } from '../support/misuse.js';
import { badly } from '../support/misuse.js';

const COUNT = 'a whole number >= 1 or Infinity';
const POSITIVE = 'a number > 0 or Infinity';
const SHARED = 'absent when a `limiter` is given';

/** Rules about tokens and limits, as an error lists them. */
export const TEXT_RULES =
  'maxTokens, maxTokensPerText, countTokens, concurrency, requestsPerMinute, tokensPerMinute, burstSeconds, provider';
/** Rules of the batches, likewise. */
export const BATCH_RULES =
  'limiter, window, maxQueued, overflow, queue, repair, classify, timeoutMs, deadlineMs, onEvent, name, scheduler, random';

/** The same beside a shared limiter. */
const shared = (...rows: readonly MisuseRow[]): MisuseRow[] => rows.map((row) => ({ ...row, besides: { limiter: createLimiter() } }));

/** Bad values of what `createEmbedder` and `limitEmbeddings` share, but for the options of a batcher. */
export const embedderRows: readonly MisuseRow[] = [
  ...badly('maxSize', COUNT, 0, -1, 1.5, NaN, '4', null),
  ...badly('maxTokens', POSITIVE, 0, -1, NaN, '4', null),
  ...badly('maxTokensPerText', POSITIVE, 0, -1, NaN, '4', null),
  ...badly('countTokens', 'a function', 5, null, {}, 'gpt'),
  ...badly('concurrency', COUNT, 0, -1, 1.5, NaN, '4', null),
  ...badly('requestsPerMinute', 'a number > 0 or Infinity (`pause()` or `setLimits` lets nothing pass)', 0, -1, NaN, '60', null),
  ...badly('tokensPerMinute', 'a number > 0 or Infinity (`pause()` or `setLimits` lets nothing pass)', 0, -1, NaN, '60', null),
  ...badly('burstSeconds', 'a number from 0.001 to 86400', 0, -1, NaN, Infinity, '2', null),
  ...badly('provider', 'an object', 0, null, 'yes'),
  ...shared(...badly('concurrency', COUNT, 0, 1.5, null), ...badly('requestsPerMinute', SHARED, 4)),
  ...shared(...badly('tokensPerMinute', SHARED, 4), ...badly('burstSeconds', SHARED, 4)),
];
