import { describe, expect, it } from 'vitest';
import { runAgents } from '../../examples/many-processes/demo.js';

const SMALL = { agents: 4, calls: 5, tokens: 4000, windowMs: 2000, cost: 500 };

describe('agents in processes of their own, with one key at a real server', () => {
  it('are never refused, and lose no streamed call, over the store of their machine', { timeout: 60_000 }, async () => {
    const { answered, fullest, lost, reasons, refused } = await runAgents({ ...SMALL, store: 'local' });
    expect(reasons).toEqual([]);
    expect({ answered, lost, refused }).toEqual({ answered: 20, lost: 0, refused: 0 });
    expect(fullest).toBeLessThanOrEqual(1);
  });

  it('are refused where each keeps to the limit for itself', { timeout: 60_000 }, async () => {
    const { lost, refused } = await runAgents({ ...SMALL, store: 'none' });
    expect(lost).toBe(0);
    expect(refused).toBeGreaterThan(0);
  });
});
