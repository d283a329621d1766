import { turnPipeline } from '../pipelines/turns-pair.js';
import type { Preset } from '../preset.js';
import { BASE } from '../scenario.js';

export const preset: Preset = {
  pipeline: turnPipeline,
  scenario: { ...BASE, p0: 1.2, latencyMs: 500, requestsPerMinute: 600 },
  lanes: ['questions', '–', '–'],
  watch: 'A question makes an agent ask its model, search, and ask the model again; a newer question makes the rest of it pointless.',
  differs:
    'The plain async function goes on to its end for nobody. Sluice ends the turn: the call under way is aborted and the ones after it are never made.',
  shows: ['wasted', 'calls', 'tokens'],
  tells: ['calls', 'wasted', 'tokens'],
};
