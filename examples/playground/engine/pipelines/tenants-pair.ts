import type { Pipeline } from '../preset.js';
import { flow } from './tenants.js';
import { recipe } from './tenants-plain.js';

export const tenantPipeline: Pipeline = {
  flow,
  recipe,
  newestOnly: false,
  fields: ['p0', 'p1', 'p2', 'burst', 'concurrency', 'latencyMs', 'spread', 'slowdown', 'seconds', 'seed'],
  sources: async () => ({ flow: (await import('./tenants.ts?raw')).default, recipe: (await import('./tenants-plain.ts?raw')).default }),
  hasFairness: false,
};
