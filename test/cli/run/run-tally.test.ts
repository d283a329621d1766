import { expect, it } from 'vitest';
import { RunTally } from '../../../src/cli/run/run-tally.js';

it('counts results per minute of the last minute, and of the whole run at its end', () => {
  const tally = new RunTally(0);
  expect(tally.look(500).resultsPerMinute).toBe(0);
  tally.items.written = 10;
  // A single result in the first moment is no rate.
  expect(tally.look(600).resultsPerMinute).toBe(600);
  expect(tally.look(30_000).resultsPerMinute).toBe(20);
  for (let atMs = 31_000; atMs <= 120_000; atMs += 100) {
    if (atMs % 1000 === 0) tally.items.written += 2;
    tally.look(atMs);
  }
  expect(tally.look(120_000).resultsPerMinute).toBeCloseTo(120, -1);
  expect(tally.look(240_000).resultsPerMinute).toBeLessThan(2);
  expect(tally.totals(240_000).resultsPerMinute).toBe((10 + 2 * 90) / 4);
});
