// The default of every option of a pipeline, in one table. Those of operators are in `operators/options/defaults.ts`.
import type { NamedLanes } from '../../operators/index.js';
import { graded } from '../../operators/index.js';

export const MODEL_CALLER_DEFAULTS = {
  concurrency: 4,
  maxQueued: 1000,
  lanes: ['user', 'normal', 'background'] as NamedLanes,
  deadlineMs: Infinity,
  timeoutMs: 30_000,
} as const;

/** The rest are those of `createBatcher`, `timeoutMs` among them. */
export const EMBEDDER_DEFAULTS = /* @__PURE__ */ (() => ({
  maxSize: 2048,
  maxTokens: 250_000,
  maxTokensPerText: 8191,
  concurrency: 4,
  maxQueued: 10_000,
  window: graded(50),
  // A question must not wait for a thousand background texts to be embedded beside it.
  lanes: [{ name: 'user', maxWaitMs: 0, piggyback: false }, { name: 'normal', maxWaitMs: 20 }, 'background'] as const,
}))();

/** `maxQueued` counts for each tool. */
export const TOOL_RUNNER_DEFAULTS = {
  concurrency: 5,
  timeoutMs: 30_000,
  maxQueued: 1000,
  maxResultChars: Infinity,
  abortGraceMs: 1000,
} as const;

/** `documents` at a time; `maxQueued` counts under `scheduling: 'priority'`. */
export const STAGES_DEFAULTS = {
  documents: 4,
  maxQueued: 100,
  timeoutMs: 120_000,
} as const;
