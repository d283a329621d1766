import { newestPipeline } from '../pipelines/newest-pair.js';
import type { Preset } from '../preset.js';
import { BASE } from '../scenario.js';

export const preset: Preset = {
  pipeline: newestPipeline,
  scenario: { ...BASE, p0: 2, latencyMs: 900, requestsPerMinute: 600 },
  lanes: ['questions', '–', '–'],
  watch: 'Somebody asks again before the answer is there, about twice a second. Only the newest answer is shown.',
  differs:
    'The plain switchMap hides the old answers; their calls run on and are paid for. Sluice aborts them at the provider: watch them fade.',
  shows: ['wasted', 'calls', 'answered'],
  tells: ['wasted'],
};
