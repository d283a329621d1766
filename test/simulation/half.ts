import { describe, expect, it } from 'vitest';
import { sized } from '../support/deep.js';
import { FAULTS } from './plan.js';
import { runSeeds } from './run-seeds.js';

const { SLUICE_SEED, SLUICE_SEEDS } = process.env;

/** A little more than the next line asks for, because in a few schedules something ends `batchMap` before it has seen all its items. */
const DEFAULT_SEEDS = sized(1_080, 10_800);
const LONG_ENOUGH = sized(980, 10_000);

/** Simulates the even or the odd seeds: each half is a test file of its own, so that two cores share the work. */
export function simulateHalf(half: 0 | 1): void {
  describe(`the whole pipeline under faults, ${half === 0 ? 'even' : 'odd'} seeds`, () => {
    it('settles every accepted item exactly once, whatever happens', { timeout: 600_000 }, async () => {
      const tally = await runSeeds(seeds(half));
      if (tally.failure !== undefined) expect.fail(tally.failure);
      expect(tally.schedules).toBe(seeds(half).length);
      if (SLUICE_SEED !== undefined || SLUICE_SEEDS !== undefined) return;
      const rare = FAULTS.filter((fault) => (tally.strikes.get(fault) ?? 0) < tally.schedules / 5);
      expect(rare, 'faults that struck in less than a fifth of the schedules').toEqual([]);
      expect(tally.long, 'schedules in which batchMap got fifty items').toBeGreaterThanOrEqual(LONG_ENOUGH / 2);
      expect(tally.fulfilled, 'items with a result').toBeGreaterThan(tally.rejected);
    });
  });
}

function seeds(half: 0 | 1): number[] {
  const all =
    SLUICE_SEED === undefined ? Array.from({ length: Number(SLUICE_SEEDS ?? DEFAULT_SEEDS) }, (_, i) => i + 1) : [Number(SLUICE_SEED)];
  return all.filter((seed) => seed % 2 === half);
}
