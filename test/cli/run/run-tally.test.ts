import { expect, it } from 'vitest';
import { FailureReasons } from '../../../src/cli/run/failure-reasons.js';
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

it('knows the speed by rows that came out of the stages: of the last minute, or of the whole run where they take longer', () => {
  const tally = new RunTally(0);
  tally.begin(60_000);
  expect(tally.look(60_500).rowsPerMinute).toBe(0);
  tally.finished = 6;
  expect(tally.look(90_000).rowsPerMinute).toBe(12);
  expect(tally.look(180_000).rowsPerMinute).toBe(3);
});

it('counts reasons of failures up to fifty texts, and the rest as other reasons', () => {
  const reasons = new FailureReasons();
  expect(reasons.snapshot()).toEqual({ reasons: [], otherReasons: 0 });
  for (let i = 0; i < 100; i++) reasons.add(`reason ${String(i)}`);
  for (let i = 0; i < 4; i++) reasons.add('reason 1');
  for (let i = 0; i < 3; i++) reasons.add('reason 99');
  reasons.add('reason 7');
  expect(reasons.snapshot()).toEqual({
    reasons: [
      { reason: 'reason 1', count: 5 },
      { reason: 'reason 7', count: 2 },
      { reason: 'reason 0', count: 1 },
    ],
    otherReasons: 100,
  });
  expect(reasons.last).toBe('reason 7');
});
