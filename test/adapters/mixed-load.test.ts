import { afterEach, beforeEach, expect, it } from 'vitest';
import { createAccount } from '../../operators/index.js';
import type { ModelApi } from '../fakes/model-api.js';
import { startModelApi } from '../fakes/model-api.js';
import { mixedLoad } from '../support/mixed-load.js';
import { expectNoUnhandledRejections } from '../support/rejections.js';

const LIMITS = { requestsPerMinute: 3000, tokensPerMinute: 300_000 } as const;
const DURATION_MS = 3000;
const SERVER_BURST_SECONDS = 2;
/** What we save up less than the server is what a busy machine may be late. */
const BURST_SECONDS = 1;

let api: ModelApi;

expectNoUnhandledRejections();

beforeEach(async () => {
  api = await startModelApi({ ...LIMITS, burstSeconds: SERVER_BURST_SECONDS, latencyMs: () => 20 + Math.random() * 80 });
});

afterEach(async () => {
  await api.stop();
});

it('three SDKs behind one limiter use the account and are never refused', { timeout: 60_000 }, async () => {
  const limiter = createAccount({ ...LIMITS, headroom: 1, burstSeconds: BURST_SECONDS });
  let tokens = 0;
  const load = await mixedLoad({ baseUrl: api.baseUrl, limiter, durationMs: DURATION_MS, concurrency: 8, end: 'drain' }, () => {
    tokens = api.tokensCharged;
  });
  expect(api.refused).toBe(0);
  expect(load).toEqual({ asked: load.asked, done: load.asked, lost: 0, unfinished: 0, error: undefined });
  expect(api.completed).toBe(api.requests.length);
  expect(new Set(api.requests.map(({ path }) => path))).toEqual(new Set(['/v1/chat/completions', '/v1/embeddings']));
  expect(limiter.snapshot()).toMatchObject({ executing: 0, queued: 0 });
  // A busy machine may be slow.
  expect(tokens).toBeGreaterThan((0.05 * LIMITS.tokensPerMinute * DURATION_MS) / 60_000);
});
