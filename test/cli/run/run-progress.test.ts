import { expect, it } from 'vitest';
import { type ProgressFacts, progressOf } from '../../../src/cli/run/run-progress.js';

const facts: ProgressFacts = {
  ...{ read: 200, share: 0.2, isRead: false, count: undefined, earlier: 0, earlierToCome: 0 },
  ...{ taken: 200, finished: 100, limit: Infinity, rowsPerMinute: 0 },
};

it('is the part of the rows that are over, not of the rows that were read', () => {
  expect(progressOf(facts)).toEqual({ finished: 100, total: 1000, isEstimate: true, share: 0.1, etaMs: undefined });
  const read = { ...facts, read: 1000, share: 1, isRead: true, taken: 1000 };
  expect(progressOf(read)).toMatchObject({ finished: 100, total: 1000, isEstimate: false, share: 0.1 });
  expect(progressOf({ ...read, finished: 1000 })).toMatchObject({ share: 1 });
});

it('has a time by rows per minute', () => {
  expect(progressOf({ ...facts, rowsPerMinute: 90 }).etaMs).toBe(600_000);
});

it('goes no further than `--limit`', () => {
  expect(progressOf({ ...facts, limit: 300, rowsPerMinute: 100 })).toEqual({
    ...{ finished: 100, total: 300, isEstimate: false, share: 1 / 3, etaMs: 120_000 },
  });
  expect(progressOf({ ...facts, limit: 5000 })).toMatchObject({ total: 1000, isEstimate: true });
});

it('counts rows of earlier runs as over, also those that were not read yet', () => {
  const resumed = { ...facts, earlier: 150, earlierToCome: 250, taken: 50, finished: 20, rowsPerMinute: 58 };
  expect(progressOf(resumed)).toMatchObject({ finished: 420, total: 1000, share: 0.42, etaMs: 600_000 });
  expect(progressOf({ ...resumed, limit: 100 })).toMatchObject({ finished: 420, total: 500 });
  // Rows that have left the input do not come any more.
  expect(progressOf({ ...resumed, earlierToCome: 5000 })).toMatchObject({ total: 1000 });
  expect(progressOf({ ...resumed, read: 200, isRead: true, earlierToCome: 5000 })).toMatchObject({ finished: 170, total: 200 });
});

it('knows the count of a folder, and nothing before anything was read', () => {
  expect(progressOf({ ...facts, count: 900 })).toMatchObject({ total: 900, isEstimate: false });
  expect(progressOf({ ...facts, read: 0, share: 0, taken: 0, finished: 0 })).toMatchObject({ total: undefined, share: 0 });
  expect(progressOf({ ...facts, read: 0, share: 1, isRead: true, taken: 0, finished: 0 })).toMatchObject({ total: 0, share: 1 });
});
