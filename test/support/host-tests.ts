/**
 * Tests that look at the timers and listeners of their process, or have its garbage collected: each file has one for itself, since what a neighbour
 * leaves behind would be found by them, and be gone through at each collection. All others share a process, and what it has loaded.
 */
export const hostTests = [
  'test/adapters/{fetch,streams-left,streams.regressions}.test.ts',
  'test/cli/run/memory.test.ts',
  'test/leaks/*.test.ts',
  'test/listeners/*.test.ts',
  'test/marbles-kit/{leak-check,vitest}.test.ts',
  'test/metrics/planted-secrets.test.ts',
  'test/matrix.test.ts',
  'test/operators/{adaptive-limit,coalesce,rate-limit,resequence}.test.ts',
  'test/pipelines/create-tool-runner.test.ts',
  'test/schedules/*.test.ts',
];
