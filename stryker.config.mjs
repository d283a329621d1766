/** Mutation tests of the kernels: `npm run mutation`; of one alone: `npm run mutation -- --mutate operators/kernel/queues/line.ts`. */
export default {
  testRunner: 'vitest',
  vitest: { configFile: 'test/kernel/vitest.config.ts', related: false },
  mutate: ['operators/kernel/*/*.ts', '!operators/kernel/index.ts'],
  // Copies what the kernels' tests read, and nothing else.
  ignorePatterns: [
    '**',
    '!operators/**',
    '!src/async-context.ts',
    '!test',
    '!test/kernel/**',
    '!test/limiter/**',
    '!test/support/*.ts',
    '!marbles/**',
  ],
  coverageAnalysis: 'perTest',
  // A runner keeps a core busy.
  concurrency: 1,
  incremental: true,
  incrementalFile: '.stryker-incremental/results.json',
  tempDirName: '.stryker-tmp',
  reporters: ['clear-text', 'json'],
  clearTextReporter: { allowColor: false, allowEmojis: false, reportTests: false },
  jsonReporter: { fileName: '.stryker-incremental/report.json' },
  thresholds: { high: 95, low: 90, break: 90 },
};
