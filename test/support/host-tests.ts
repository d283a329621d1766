/**
 * Tests that look at the timers and listeners of their process, or have its garbage collected: each file has one for itself, since what a neighbour
 * leaves behind would be found by them, and be gone through at each collection. So have those that load RxJS 5, which gives its process a
 * `Symbol.observable`: copies of RxJS that come later would not know those that were there; and that of the devtools, whose client reads
 * `NODE_ENV` when it is loaded first. All others share a process, and what it has loaded.
 */
export const hostTests = [
  'test/adapters/{fetch,streams-left,streams.regressions}.test.ts',
  'test/interop/rxjs-copies.test.ts',
  'test/cli/run/memory.test.ts',
  'test/frontend/devtools.test.ts',
  'test/kernel/{batch-machine,item-machine-turns,reorder-buffer,ring}.test.ts',
  'test/leaks/*.test.ts',
  'test/listeners/*.test.ts',
  'test/marbles-kit/{leak-check,vitest}.test.ts',
  'test/metrics/planted-secrets.test.ts',
  'test/matrix.test.ts',
  'test/operators/{adaptive-limit,coalesce,from-subscribable,rate-limit,resequence}.test.ts',
  'test/pipelines/create-tool-runner.test.ts',
  'test/schedules/*.test.ts',
];
