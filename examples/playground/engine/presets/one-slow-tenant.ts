import { tenantPipeline } from '../pipelines/tenants-pair.js';
import type { Preset } from '../preset.js';
import { BASE } from '../scenario.js';

export const preset: Preset = {
  pipeline: tenantPipeline,
  scenario: { ...BASE, p0: 4, p1: 4, p2: 4, concurrency: 8, latencyMs: 250, slowdown: 12 },
  lanes: ['tenant A', 'tenant B', 'slow tenant'],
  watch: 'Three tenants share eight slots; the calls of one take twelve times as long.',
  differs:
    'In the plain queue the slow calls take all slots sooner or later, and everybody waits. Sluice gives no tenant more than half of them.',
  shows: ['p50Ms', 'p99Ms', 'answered'],
  tells: ['p50Ms', 'p99Ms'],
};
