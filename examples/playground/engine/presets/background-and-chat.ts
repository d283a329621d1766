import { batchPipeline } from '../pipelines/batches-pair.js';
import type { Preset } from '../preset.js';
import { BASE } from '../scenario.js';

export const preset: Preset = {
  pipeline: batchPipeline,
  scenario: { ...BASE, p0: 6, p2: 150, tokens: 60, concurrency: 2, latencyMs: 300, windowMs: 50, maxSize: 10 },
  lanes: ['chat', '–', 'background'],
  watch: 'A person chats while an index is being built through the same two slots.',
  differs:
    'The plain queue serves whoever came first, so the person waits behind the index. Sluice lets the urgent lane lead the next call, and the background rides along.',
  shows: ['p99Ms', 'p50Ms', 'calls'],
  tells: ['p50Ms', 'p99Ms'],
};
