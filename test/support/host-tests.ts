/**
 * Tests that look at the timers and listeners of their process, or have its garbage collected: what hundreds of other files leave behind would be found by
 * them, and be gone through at each collection. They share processes with each other alone.
 */
export const hostTests = [
  'test/kernel/{backlog,batch-machine,chain,item-machine-turns,ordered-values,reorder-buffer}.test.ts',
  'test/leaks/*.test.ts',
  'test/listeners/*.test.ts',
  'test/marbles-kit/{leak-check,vitest}.test.ts',
  'test/matrix.test.ts',
  'test/operators/{adaptive-limit,batch-map,batch-map-from,batch.traps,coalesce,create-batcher,rate-limit,resequence,shutdown}.test.ts',
  'test/pipelines/{create-tool-runner,model-cache}.test.ts',
  'test/schedules/*.test.ts',
  'test/traps/copied-{parallel-tools,timeouts,tool-runner}.test.ts',
];

/**
 * Each has a process for itself: those that look at what becomes of sockets; those that load RxJS 5, which gives its process a
 * `Symbol.observable`: copies of RxJS that come later would not know those that were there; that of the devtools, whose client reads
 * `NODE_ENV` when it is loaded first; and that of the composition, which replaces operators and loads the sources anew for each job.
 */
export const aloneTests = [
  'test/composition/*.test.ts',
  'test/adapters/{fetch,stream-permits,streams-left}.test.ts',
  'test/frontend/devtools.test.ts',
  'test/interop/rxjs-copies.test.ts',
  'test/operators/from-subscribable.test.ts',
];
