import { describe, expect, it } from 'vitest';
import type { StoreCase } from '../../bench/store-model.js';
import { runStoreCase } from '../../bench/store-model.js';

const TEN_SECONDS = { windowMs: 10_000, tokens: 200_000, latencyMs: 0.5, serviceMs: 0.1, runMs: 25_000 };

const CASES: Readonly<Record<string, StoreCase>> = {
  '3 processes': { ...TEN_SECONDS, processes: 3 },
  '8 processes': { ...TEN_SECONDS, processes: 8 },
  '32 processes': { ...TEN_SECONDS, processes: 32, depth: 20 },
  'a store that is far away': { ...TEN_SECONDS, processes: 8, latencyMs: 20 },
  'answers that are lost': { ...TEN_SECONDS, processes: 8, lost: 0.02 },
  'two shards': { ...TEN_SECONDS, processes: 8, shards: 2 },
};

describe('processes that share a token bucket, in virtual time', () => {
  it.each(Object.entries(CASES))('%s fill it, and no window has more', (_, of) => {
    const { fullest, messagesPerCall, use, userP50, userP99 } = runStoreCase(of);
    expect(fullest).toBeLessThanOrEqual(1);
    // A fiftieth is kept for urgent calls, which take a fraction of it.
    expect(use).toBeGreaterThanOrEqual(of.lost === undefined ? 0.94 : 0.85);
    expect(messagesPerCall).toBeLessThanOrEqual(1.2);
    if (of.lost !== undefined) return;
    expect(userP50).toBeLessThanOrEqual(2 * of.latencyMs + 10);
    expect(userP99).toBeLessThanOrEqual(2 * of.latencyMs + 50 * (of.shards ?? 1));
  });

  it('keep to it when the clock of the store is set forward and back', () => {
    const { fullest, use } = runStoreCase({ ...TEN_SECONDS, processes: 8, clockStepMs: 100 });
    expect(fullest).toBeLessThanOrEqual(1.02);
    expect(use).toBeGreaterThanOrEqual(0.9);
  });
});
