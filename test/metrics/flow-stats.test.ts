import { expect, it } from 'vitest';
import type { FlowEvent } from '../../operators/index.js';
import { FlowStats } from '../../src/metrics/flow-stats.js';

const call = { operator: 'batchMap', lane: 'default', batchId: 'b0', size: 5, attempt: 1 } as const;
const formed = { type: 'batchFormed', operator: 'batchMap', lane: 'default', weight: 5, waitMs: 0 } as const;

function totals(...events: FlowEvent[]): ReturnType<FlowStats['totals']> {
  const stats = new FlowStats(10);
  for (const event of events) stats.add(event);
  return stats.totals();
}

it('is empty before anything happened', () => {
  expect(totals()).toEqual({ calls: 0, throttled: 0, retries: 0, splits: 0, fulfilled: 0, rejected: 0, meanFill: 0 });
});

it('counts every call, but fills only by fresh batches', () => {
  const sum = totals(
    { ...formed, reason: 'size', size: 10 },
    { ...formed, reason: 'time', size: 5 },
    { ...formed, reason: 'retry', size: 1 },
    { ...formed, reason: 'split', size: 1 },
    { type: 'attemptStarted', ...call, weight: 5, splitDepth: 0, executing: 1 },
    { type: 'attemptEnded', ...call, outcome: 'throttled', latencyMs: 3 },
    { type: 'attemptEnded', ...call, outcome: 'ok', latencyMs: 3 },
    { type: 'retryScheduled', operator: 'batchMap', lane: 'default', class: 'throttled', size: 5, attempt: 2, delayMs: 9 },
    { type: 'split', operator: 'batchMap', lane: 'default', size: 4, parts: 4, depth: 1 },
    { type: 'blamed', operator: 'batchMap', lane: 'default', size: 4, blamed: 1, round: 1 },
  );
  expect(sum).toMatchObject({ calls: 1, throttled: 1, retries: 1, splits: 2, meanFill: 0.75 });
});

it('tells answers from failures', () => {
  const settled = { type: 'settled', operator: 'batchMap', lane: 'default', attempts: 1, totalMs: 4 } as const;
  const sum = totals({ ...settled, outcome: 'fulfilled' }, { ...settled, outcome: 'fulfilled' }, { ...settled, outcome: 'rejected' });
  expect(sum).toMatchObject({ fulfilled: 2, rejected: 1 });
});
