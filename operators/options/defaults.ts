/**
 * What an option is when it is left out: numbers, words and flags of every operator, in one table. One constant each, so that a bundle holds only those that
 * it uses. Defaults that are values of their own (`queue`, `classify`, `random`, `scheduler`) stand where they are checked.
 */

export const BATCH = { maxSize: 16, maxWaitMs: 20, maxWeight: Infinity, onSourceError: 'flush' } as const;

/** Of `batchMap`, `batchMapFrom` and `createBatcher`. */
export const GATED_BATCHES = {
  maxSize: 20,
  maxWeight: 8192,
  oversize: 'alone',
  maxQueued: Infinity,
  overflow: 'error',
  timeoutMs: 30_000,
  deadlineMs: Infinity,
} as const;

export const BATCH_MAP = { onSourceError: 'abort' } as const;
/** What is pulled has a bound. */
export const BATCH_MAP_FROM = { maxQueued: 80 } as const;

/** Of `bulkheadMap` and `settleAll`. */
export const ITEMS = {
  maxQueued: Infinity,
  overflow: 'error',
  errors: 'settle',
  timeoutMs: Infinity,
  deadlineMs: Infinity,
  onSourceError: 'abort',
} as const;

/** Calls at a time where neither `concurrency` nor a limiter is given. */
export const CONCURRENCY = { batches: 4, bulkheadMap: 10, settleAll: 4 } as const;

/** Cancelled work that still runs keeps its slot at most this long, in ms. */
export const ABORT_GRACE_MS = 1000;

/** Longest that a batch which is not full is held without a `window`, as by `graded(100)`. */
export const LONGEST_WINDOW_MS = 100;

export const BACKPRESSURE = { maxQueued: 1000, overflow: 'error', maxWeight: Infinity, onSourceError: 'abort' } as const;
export const CONFLATE_WHILE_BUSY = { overflow: 'error', maxWeight: Infinity, onSourceError: 'abort' } as const;
export const RATE_LIMIT = { maxQueued: 1000, overflow: 'error', onSourceError: 'abort' } as const;
export const RESEQUENCE = { maxQueued: 1000, maxWaitMs: Infinity, onGap: 'error', onSourceError: 'abort' } as const;
export const COALESCE = { pace: 'time', maxSize: 1000, maxWeight: Infinity, onSourceError: 'flush' } as const;
export const TO_STORE = { pace: 'time', keepAliveMs: 0 } as const;
/** `maxWaitMs` of both with `pace: 'time'`. */
export const PACE_WAIT_MS = { coalesce: 16, toStore: 0 } as const;
/** And beside frames: longer than the time between two of them even on a slow screen, or the time would always be first. */
export const FRAME_WAIT_MS = 100;
/** Of `toAsyncIterable` and `toReadableStream`. */
export const PULLED = { maxQueued: 1000, overflow: 'error' } as const;
export const SWITCH_LATEST = { errors: 'propagate', onSourceError: 'abort' } as const;
export const SPECULATE = { ttlMs: 30_000, concurrency: 1, maxQueued: 1000 } as const;

export const MERGE_LANES = {
  maxSize: 16,
  maxWeight: Infinity,
  maxQueued: Infinity,
  overflow: 'error',
  errors: 'propagate',
  onSourceError: 'flush',
} as const;
/** How long the first lane waits, the second, and all others. */
export const MERGE_LANES_WAIT_MS = [0, 50, 500] as const;

/** Of a lane. */
export const LANE = { share: 1, piggyback: true } as const;

export const CREATE_INTAKE = { maxQueued: 16 } as const;

export const CREATE_LIMITER = {
  concurrency: Infinity,
  headroom: 0.9,
  maxQueued: Infinity,
  overflow: 'error',
  refunds: true,
  enforce: true,
  abortGraceMs: ABORT_GRACE_MS,
} as const;
export const KEYED_LIMITER = { maxKeys: 10_000 } as const;
/** Of a rate, in an account as well: what comes in within so many seconds may be saved up. */
export const BURST_SECONDS = 2;
export const ADAPTIVE_LIMIT = { min: 1, max: 64 } as const;

export const POLICY = {
  deadlineMs: Infinity,
  timeoutMs: 30_000,
  silenceMs: Infinity,
  idempotent: true,
  resumable: false,
  whenOpen: 'fail',
} as const;
/** In pipelines `maxShare` is theirs. */
export const RETRY_FAILED = { maxAttempts: 3, delayMs: 200, maxMs: 20_000, jitter: 'full' } as const;
export const DIVIDE_AND_CONQUER = { parts: 4, maxCalls: Infinity } as const;
export const HEDGE = { maxAttempts: 2, maxShare: Infinity } as const;

export const CREATE_BREAKER = { openMs: 5000 } as const;
export const BREAKER_OPENS = { minCalls: 10, windowMs: 30_000, inARow: Infinity } as const;
/** Unless `inARow` is given. */
export const BREAKER_OPENS_SHARE = 0.5;
export const BREAKER_CLOSES = { probes: 1, share: 1 } as const;

export const LRU_CACHE = { ttlMs: Infinity } as const;
