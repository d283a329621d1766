import { batchPipeline } from '../pipelines/batches-pair.js';
import type { Preset } from '../preset.js';
import { BASE } from '../scenario.js';

export const preset: Preset = {
  pipeline: batchPipeline,
  scenario: { ...BASE, p0: 30, poison: 2, windowMs: 400, latencyMs: 300 },
  lanes: ['prompts', '–', '–'],
  watch: 'Two prompts of a hundred are refused, and a call that holds one fails as a whole, without a word about which it was.',
  differs:
    'The plain recipe sends the whole batch again and then gives it up, the good prompts with it. Sluice splits it until the bad one stands alone, at the price of some calls: open a split.',
  shows: ['lost', 'answered', 'refused', 'calls'],
  tells: ['lost'],
};
