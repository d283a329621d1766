import { defineConfig } from 'vitest/config';

// For `npm run mutation`: the kernels' own tests and nothing else, without type tests.
export default defineConfig({
  test: {
    environment: 'node',
    // Every mutant runs them all: what grows fastest stops a little earlier.
    env: { SLUICE_MUTATION: '1' },
    include: ['test/kernel/*.test.ts'],
    setupFiles: ['test/kernel/fixed-seed.ts'],
    // A kernel with all its mutants inside is slow; the one that never ends is Stryker's business.
    testTimeout: 60_000,
  },
});
