import type { MisuseRow } from '../support/misuse.js';
import { badly, unknown } from '../support/misuse.js';
import { batchRows } from './batch-options.js';
import { callRuleRows, jobRows } from './call-rules.js';

/** As an error lists them. */
export const EMBEDDING_RULES =
  'limiter, concurrency, retry, split, classify, onEvent, scheduler, random, job, provider, countTokens, deadlineMs, timeoutMs';

/** Bad values of what both ways to embed through the AI SDK share. Dotted names are for `nested`. */
export const embeddingRows: readonly MisuseRow[] = [
  ...callRuleRows.filter(({ option }) => option !== 'breaker' && option !== 'whenOpen'),
  ...batchRows.filter(({ option }) => option === 'concurrency'),
  ...badly('split', 'an object or false', true, NaN, 0, -1, 1.5, Infinity, 'no', null),
  ...unknown('split.factor', 'parts, maxCalls, strategy', 3),
  ...jobRows,
  ...badly('countTokens', 'a function', NaN, 0, 'tokens', null, {}),
];
