import type { Pipeline } from '../preset.js';
import { flow } from './turns.js';
import { recipe } from './turns-plain.js';

export const turnPipeline: Pipeline = {
  flow,
  recipe,
  newestOnly: true,
  fields: ['p0', 'tokens', 'concurrency', 'requestsPerMinute', 'tokensPerMinute', 'failures', 'latencyMs', 'spread', 'seconds', 'seed'],
  sources: async () => ({ flow: (await import('./turns.ts?raw')).default, recipe: (await import('./turns-plain.ts?raw')).default }),
  hasFairness: false,
};
