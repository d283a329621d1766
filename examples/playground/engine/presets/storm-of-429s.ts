import { batchPipeline } from '../pipelines/batches-pair.js';
import type { Preset } from '../preset.js';
import { BASE } from '../scenario.js';

export const preset: Preset = {
  pipeline: batchPipeline,
  scenario: {
    ...BASE,
    p0: 20,
    p1: 20,
    p2: 20,
    burst: 3,
    requestsPerMinute: 100,
    windowMs: 100,
    maxSize: 50,
    concurrency: 8,
    latencyMs: 300,
  },
  lanes: ['chat', 'agents', 'background'],
  watch: 'The provider takes 100 requests a minute and answers 429 to the rest.',
  differs:
    'The plain recipe knocks again and again, and loses what was refused three times. Sluice knows the rate, waits for it, and fills each call that it may make.',
  shows: ['throttled', 'lost', 'calls'],
  tells: ['throttled', 'lost', 'calls'],
};
