import type { Pipeline } from '../preset.js';
import { flow } from './newest.js';
import { recipe } from './newest-plain.js';

export const newestPipeline: Pipeline = {
  flow,
  recipe,
  newestOnly: true,
  fields: ['p0', 'tokens', 'concurrency', 'requestsPerMinute', 'tokensPerMinute', 'failures', 'latencyMs', 'spread', 'seconds', 'seed'],
  sources: async () => ({ flow: (await import('./newest.ts?raw')).default, recipe: (await import('./newest-plain.ts?raw')).default }),
  hasFairness: false,
};
