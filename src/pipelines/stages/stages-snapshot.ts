import type { Limiter } from '../../../operators/index.js';
import type { StageLevel } from './stage-level.js';
import { hasLimit } from './stage-permits.js';
import type { StageState, StagesSnapshot } from './stages-types.js';

/** Documents at one moment. */
type Documents = Pick<StagesSnapshot['documents'], 'concurrency' | 'queued' | 'executing' | 'done' | 'failed' | 'meanMs'>;

export function stagesSnapshot(documents: Documents, levels: readonly StageLevel[], limiter: Limiter): StagesSnapshot {
  const { concurrency, heldBySlot: full } = limiter.snapshot();
  const stages: [name: string, state: StageState][] = [];
  const requests = { concurrency, queued: 0, heldByRate: 0, heldBySlot: 0, executing: 0 };
  for (const level of levels) {
    const { config, name, concurrency: most, executing, admitted, done, failed, meanMs } = level;
    const queued = level.waiting + level.pending;
    // Without slots of its own nothing waits for them.
    const eligible = !hasLimit(config) && !config.local ? queued : level.eligible;
    const heldByRate = full > 0 || config.local ? 0 : eligible;
    const waiting = { queued, heldByRate, heldBySlot: queued - heldByRate };
    stages.push([name, { concurrency: most, ...waiting, executing, admitted, done, failed, meanMs }]);
    if (config.local) continue;
    requests.queued += eligible;
    requests.heldByRate += heldByRate;
    requests.heldBySlot += eligible - heldByRate;
    requests.executing += executing;
  }
  return { documents: { ...documents, heldByRate: 0, heldBySlot: documents.queued }, stages: Object.fromEntries(stages), requests };
}
