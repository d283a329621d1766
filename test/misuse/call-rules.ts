import type { MisuseRow } from '../support/misuse.js';
import { badly } from '../support/misuse.js';
import { gatedRows } from './gated-options.js';

/** Bad values of what all adapters take (`CallRules`). Dotted names are for `nested` of gated-options. */
export const callRuleRows: readonly MisuseRow[] = [
  ...badly('limiter', 'a limiter made by createLimiter', {}, 4, null, 'shared'),
  ...gatedRows.filter(({ option }) => option.split('.')[0] === 'retry'),
  ...badly('breaker', 'a breaker made by createBreaker', {}, 5, null, 'shared'),
  ...badly('classify', 'a function', 'fatal', null, {}),
  ...badly('deadlineMs', 'a number of milliseconds >= 0 or Infinity', -1, NaN, -Infinity, '1000', null),
  ...badly('attemptTimeoutMs', 'a number > 0 or Infinity', 0, -1, NaN, '1000', null),
  ...badly('onEvent', 'a function', console, 'log', null),
  ...badly('scheduler', 'an rxjs scheduler', 5, null, {}, { now: () => 0 }),
  ...badly('random', 'a function', 0.5, null, {}),
];

/** The names of them, in the order in which an error lists them; the adapter's own come behind. */
export const CALL_RULES = 'limiter, retry, breaker, classify, deadlineMs, attemptTimeoutMs, onEvent, scheduler, random';
