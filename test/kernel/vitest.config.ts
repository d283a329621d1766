import { join } from 'node:path';
import { defineConfig } from 'vitest/config';

/** Those that are about the mutated kernel: the others need not run for each of its mutants. */
const tests = process.env['SLUICE_KERNEL_TESTS']?.split(',') ?? ['*.test.ts'];

// For `npm run mutation`: the kernels' own tests and nothing else, without type tests.
export default defineConfig({
  resolve: { alias: { '#async-context': join(import.meta.dirname, '../../operators/shell/calls/async-context.ts') } },
  test: {
    environment: 'node',
    // Every mutant runs them all: what grows fastest stops a little earlier.
    env: { SLUICE_MUTATION: '1' },
    include: tests.map((test) => join('test/kernel', test)),
    // Counts the steps of another process, which knows of no mutant.
    exclude: ['test/kernel/growth.test.ts'],
    setupFiles: ['test/kernel/fixed-seed.ts'],
    // A kernel with all its mutants inside is slow; the one that never ends is Stryker's business.
    testTimeout: 60_000,
  },
});
