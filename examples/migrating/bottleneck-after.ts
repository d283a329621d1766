import type { Batcher, BatchWork } from '../../operators/index.js';
import { createBatcher, createLimiter, fixed, robust, tokenBucket } from '../../operators/index.js';

/** At most 20 calls in any second, spread out, 5 texts in each. `loadAsync` answers each caller with the vector of their text. */
export function createEmbedder(embed: BatchWork<string, number>): Batcher<string, number> {
  const limiter = createLimiter({ concurrency: 50, rates: [tokenBucket({ unit: 'requests', amount: 20, windowMs: 1000, burst: 1 })] });
  return createBatcher(embed, { limiter, maxSize: 5, window: fixed(50), repair: robust() });
}
