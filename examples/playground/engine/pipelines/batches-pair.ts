import type { Pipeline } from '../preset.js';
import { flow } from './batches.js';
import { recipe } from './batches-plain.js';

export const batchPipeline: Pipeline = {
  flow,
  recipe,
  newestOnly: false,
  fields: [
    'p0',
    'p1',
    'p2',
    'burst',
    'tokens',
    'windowMs',
    'maxSize',
    'concurrency',
    'requestsPerMinute',
    'tokensPerMinute',
    'poison',
    'failures',
    'latencyMs',
    'spread',
    'seconds',
    'seed',
  ],
  sources: async () => ({ flow: (await import('./batches.ts?raw')).default, recipe: (await import('./batches-plain.ts?raw')).default }),
  hasFairness: true,
};
