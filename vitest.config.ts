import { defineConfig } from 'vitest/config';

// `.ci/run` names a file here to read the counts from; people only get the usual report.
const countsFile = process.env['SLUICE_TEST_COUNTS'];

export default defineConfig({
  test: {
    environment: 'node',
    // Simulations and the real model keep a core busy each.
    maxWorkers: 2,
    include: ['test/**/*.test.ts'],
    typecheck: { enabled: true, include: ['test/**/*.test-d.ts'], tsconfig: './tsconfig.json' },
    reporters: countsFile === undefined ? ['default'] : ['default', ['json', { outputFile: countsFile }]],
    coverage: {
      provider: 'v8',
      include: ['operators/**', 'src/**', 'marbles/**'],
      reporter: ['text-summary', 'json-summary', 'lcov'],
    },
  },
});
