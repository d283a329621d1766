import type { Hints } from './options.js';

const ACCOUNT = 'Use `limiter: createAccount({ … })`.';
const FULL = 'Use `createAccount` of `sluice`.';
const CONCURRENCY = 'Use `concurrency`.';
const RATES = 'Use `createAccount`, or `rates`.';
const WINDOW = 'Use `rates` of `createLimiter`.';

/** For functions that take a `limiter`. */
export const LIMITED_HINTS: Hints = {
  PerMinute: ACCOUNT,
  PerDay: ACCOUNT,
  rpm: ACCOUNT,
  tpm: ACCOUNT,
  account: 'Use `limiter`.',
  maxConcurrent: CONCURRENCY,
  maxConcurrency: CONCURRENCY,
  rates: 'Use `limiter: createLimiter({ rates: […] })`.',
};

/** For functions that take the rates of an account. */
export const RATE_HINTS: Hints = {
  rpm: 'Use `requestsPerMinute`.',
  tpm: 'Use `tokensPerMinute`.',
  requestsPerSecond: WINDOW,
  requestsPerHour: WINDOW,
  tokensPerSecond: WINDOW,
  tokensPerHour: WINDOW,
};

/** For functions that take a `limiter` and `retry`. `retries` and `maxRetries` are what other libraries say. */
export const RETRIED_HINTS: Hints = /* @__PURE__ */ (() => ({ ...LIMITED_HINTS, etries: 'Use `retry: { maxAttempts }`.' }))();

/** For functions that take a `queue`. */
export const QUEUE_HINTS: Hints = {
  lanes: 'Use `queue: lanes([…])`.',
  batchSize: 'Use `maxSize`.',
  maxBatchSize: 'Use `maxSize`.',
  maxTokens: 'Use `maxWeight` with `weigh`.',
  countTokens: 'Use `weigh`.',
  etries: 'Use `repair: retryFailed({ maxAttempts })`.',
};

/** For limiters: what only accounts take. */
export const LIMITER_HINTS: Hints = {
  PerMinute: RATES,
  PerDay: RATES,
  lanes: 'Use `createAccount`, or `queue: lanes([…])`.',
  rpm: RATES,
  tpm: RATES,
  maxConcurrent: CONCURRENCY,
  maxConcurrency: CONCURRENCY,
  models: 'Use `createAccount`, or `childOf`.',
};

/** For accounts: what only limiters take. */
export const ACCOUNT_HINTS: Hints = /* @__PURE__ */ (() => ({
  ...RATE_HINTS,
  rates: 'Use `requestsPerMinute` or `tokensPerMinute`, or `createLimiter`.',
  queue: 'Use `lanes`, or `createLimiter`.',
  maxConcurrent: CONCURRENCY,
  maxConcurrency: CONCURRENCY,
  budget: FULL,
  onRecord: FULL,
  provider: FULL,
}))();
