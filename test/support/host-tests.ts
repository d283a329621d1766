/**
 * Tests that look at the timers and listeners of their process: each file has one for itself, since what a neighbour leaves behind would be found by
 * them. All others share a process, and what it has loaded.
 */
export const hostTests = [
  'test/adapters/fetch.test.ts',
  'test/leaks/*.test.ts',
  'test/listeners/*.test.ts',
  'test/marbles-kit/{leak-check,vitest}.test.ts',
  'test/matrix.test.ts',
  'test/operators/{adaptive-limit,coalesce,rate-limit,resequence}.test.ts',
  'test/pipelines/create-tool-runner.test.ts',
  'test/schedules/*.test.ts',
];
