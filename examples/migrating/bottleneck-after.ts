import type { Batcher, BatchWork } from '../../operators/index.js';
import { createBatcher, createLimiter, fixed, robust } from '../../operators/index.js';

/** At most 20 calls in any second, spread out, 5 texts in each. `loadAsync` answers each caller with the vector of his text. */
export function createEmbedder(embed: BatchWork<string, number>): Batcher<string, number> {
  const limiter = createLimiter({ concurrency: 50, requestsPerMinute: 1200, burstSeconds: 0.05 });
  return createBatcher(embed, { limiter, maxSize: 5, window: fixed(50), repair: robust() });
}
