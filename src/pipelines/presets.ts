/** Three attempts, after pauses of about 100 and 200 ms. With so few calls at a time the slots are budget enough, so all calls may be retried. */
const SHORT_PAUSES = { maxAttempts: 3, delayMs: 100, maxShare: 1 } as const;

/** Options of `createModelCaller`. The pauses have full jitter: with `jitter: 'none'` they are exactly 100 and 200 ms. */
const modelCaller = {
  /** Most limits of providers allow this. */
  production: { concurrency: 4, timeoutMs: 10_000, deadlineMs: 30_000, retry: SHORT_PAUSES },
  /** For an account with wide limits. */
  highConcurrency: { concurrency: 8, timeoutMs: 8000, deadlineMs: 30_000, retry: SHORT_PAUSES },
  /** For requests of two or three calls that a user waits for. */
  lowLatency: { concurrency: 3, timeoutMs: 5000, deadlineMs: 20_000, retry: SHORT_PAUSES },
  /** For a slow machine. */
  test: { concurrency: 2, timeoutMs: 15_000, deadlineMs: 60_000, retry: SHORT_PAUSES },
} as const;

/**
 * Settings for known situations, as plain data: what JSON makes of one is the same. Those of pipelines (`chat`, `llmProperties`, `paper`) are
 * configurations, for `parseConfig` and for files (`sluice config preset <name>` prints one); the others are options to spread.
 *
 * @beta
 * @example
 * ```ts
 * import { createAccount, createEmbedder, presets } from 'sluice';
 *
 * const embedder = createEmbedder({ ...presets.embeddings, call: async (texts) => texts.map(() => [0, 1]) });
 * const account = createAccount(presets.paper.production.limits);
 * account.snapshot().requestsPerMinute; // => 300
 * ```
 */
export const presets = {
  /** For `createEmbedder`: an API that takes large batches; its default window and lanes fit. */
  embeddings: { maxSize: 2048, maxTokens: 250_000, maxTokensPerText: 8191, concurrency: 4, timeoutMs: 30_000 },
  /** For `createEmbedder`: a model with little room; with `window: fixed(100)` a batch waits for company. */
  embeddingsSmall: { maxSize: 20, maxTokens: 8192, maxTokensPerText: 8192, concurrency: 4, timeoutMs: 30_000 },
  /** For logs that are written in batches: `batch` with `weigh` in bytes, and `backpressure` in front of it. Where none may be lost, `overflow: 'error'`. */
  logs: {
    batch: { maxSize: 100, maxWeight: 1_000_000, maxWaitMs: 5000 },
    backpressure: { maxQueued: 10_000, overflow: 'dropOldest' },
  },
  /** For `createModelCaller`, by situation. */
  modelCaller,
  /** For `createToolRunner`. */
  tools: { concurrency: 5, timeoutMs: 30_000, retry: { maxAttempts: 1 } },
  /** For `coalesce`, with a `merge`: what is shown, one frame at a time. */
  ui: { pace: 'frame' },
  /** Answers that a user waits for. Rates are those of your account. */
  chat: { limits: { concurrency: 4 }, model: { timeoutMs: 60_000, retry: { maxAttempts: 3 } } },
  /** One call for each property of a request, all of them within a total time: `modelCaller` as configurations. */
  llmProperties: {
    production: /* @__PURE__ */ configured(modelCaller.production),
    highConcurrency: /* @__PURE__ */ configured(modelCaller.highConcurrency),
    lowLatency: /* @__PURE__ */ configured(modelCaller.lowLatency),
    test: /* @__PURE__ */ configured(modelCaller.test),
  },
  /** Papers: a call that asks twenty questions, an answer and a grade for each. Stages count for each paper by itself. */
  paper: {
    development: /* @__PURE__ */ paper(1, [2, 1], 5, 2),
    production: /* @__PURE__ */ paper(3, [5, 3], 10, 5),
    highLoad: /* @__PURE__ */ paper(5, [10, 5], 20, 10),
  },
} as const;

function configured<const O extends { readonly concurrency: number }>({ concurrency, ...model }: O) {
  return { limits: { concurrency: concurrency as O['concurrency'] }, model } as const;
}

function paper(papers: number, [answers, grades]: readonly [number, number], requests: number, requestsPerSecond: number) {
  const each = { scope: 'perBatch', allowPartialFailure: true, expect: { itemsPerDocument: 20 } } as const;
  return {
    batches: { concurrency: papers },
    stages: [
      { name: 'generation', concurrency: 1, scope: 'perBatch', answer: 'list' },
      { name: 'answering', concurrency: answers, timeoutMs: 120_000, ...each },
      { name: 'grading', concurrency: grades, timeoutMs: 60_000, ...each },
    ],
    limits: { concurrency: requests, requestsPerMinute: requestsPerSecond * 60, burst: 2 * requestsPerSecond },
  } as const;
}
