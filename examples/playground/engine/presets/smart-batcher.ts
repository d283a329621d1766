import { batchPipeline } from '../pipelines/batches-pair.js';
import type { Preset } from '../preset.js';
import { BASE } from '../scenario.js';

export const preset: Preset = {
  pipeline: batchPipeline,
  scenario: { ...BASE, p0: 60, burst: 4, tokens: 400, concurrency: 4, latencyMs: 600 },
  lanes: ['texts', '–', '–'],
  watch: 'Texts to embed come in bursts. A call takes 20 texts and 8,192 tokens at most, and no text should be held longer than 100 ms.',
  differs:
    'The plain window seals a batch before a call is free, and counts items only: what is too heavy is refused whole, three times, and lost. Sluice lets batches grow while all calls are busy, and weighs them.',
  shows: ['lost', 'calls', 'p99Ms', 'tokens'],
  tells: ['calls', 'lost', 'p99Ms'],
};
