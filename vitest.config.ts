import { join } from 'node:path';
import { playwright } from '@vitest/browser-playwright';
import { configDefaults, defineConfig } from 'vitest/config';
import { hostTests } from './test/support/host-tests.js';

// `.ci/run` names a file here to read the counts from; people only get the usual report.
const countsFile = process.env['SLUICE_TEST_COUNTS'];

/** What the package's `imports` say once it is built. */
const asyncContext = (file: string) => ({ alias: { '#async-context': join(import.meta.dirname, file) } });

/** What takes minutes: `npm run test:deep`. */
const deepTests = 'test/deep/**/*.test.ts';
/** Of these `npm test` runs a part (`test/support/deep.ts`). */
const sizedTests = [
  'test/adapters/{ag-ui-coalesce,mcp}.test.ts',
  'test/cli/run/{kill,memory}.test.ts',
  'test/examples/{embedding-job,model-server,playground}.test.ts',
  'test/frontend/agent-turn.schedules.test.ts',
  'test/inspector/flow-model.test.ts',
  'test/kernel/{divide-plan,bad-item-search}.test.ts',
  'test/leaks/leaks.test.ts',
  'test/listeners/listeners.test.ts',
  'test/matrix.test.ts',
  'test/limiter/{child,model}.test.ts',
  'test/cli/{budget-file,inspect-report}.test.ts',
  'test/pipelines/{budget.property,budget-use,model-cache,tool-guard.property}.test.ts',
  'test/pipelines/create-stages.simulation.test.ts',
  'test/operators/{divide-retry.exhaustive,own-slots,racing.random,slots.random}.test.ts',
  'test/web/{inspector,playground,soak}.test.ts',
];

const browserTests = 'test/browser/**/*.test.ts';
/** Whole pages with frameworks, against a server; they drive a Chromium of their own. */
const webTests = 'test/web/**/*.test.ts';

/** What `.ci/run` sees fail once is asked once more, and told either way: a machine that others use as well is late now and then. */
const again = { retry: countsFile === undefined ? 0 : 1 };

/** A busy machine makes everything late; what hangs is found all the same. */
const patience = { ...again, testTimeout: 30_000, hookTimeout: 30_000 };

export default defineConfig({
  test: {
    // One more than the least number of cores: some files wait for processes and timers.
    maxWorkers: 3,
    reporters: countsFile === undefined ? ['default'] : ['default', ['json', { outputFile: countsFile }]],
    coverage: {
      provider: 'v8',
      include: ['operators/**', 'src/**', 'marbles/**'],
      reporter: ['text-summary', 'json-summary', 'lcov'],
    },
    projects: [
      {
        resolve: asyncContext('src/async-context.ts'),
        test: {
          ...patience,
          name: 'node',
          environment: 'node',
          // The sources are loaded once for each worker, not for each file: a third of the time.
          isolate: false,
          include: ['test/**/*.test.ts'],
          exclude: [...configDefaults.exclude, browserTests, webTests, deepTests, ...hostTests],
        },
      },
      {
        resolve: asyncContext('src/async-context.ts'),
        test: { ...patience, name: 'host', environment: 'node', include: hostTests },
      },
      {
        // Compiles what the type tests import, each time it runs at all.
        test: {
          name: 'types',
          include: [],
          typecheck: {
            enabled: true,
            only: true,
            include: ['test/types/*.test-d.ts'],
            tsconfig: './tsconfig.types.json',
            checker: join(import.meta.dirname, 'node_modules/typescript7/bin/tsc'),
          },
        },
      },
      {
        // The oldest that the peer ranges let in, and what Node 20 gets from npm.
        resolve: {
          alias: {
            ...asyncContext('src/async-context.ts').alias,
            '@ai-sdk/openai': 'ai-openai3',
            '@ai-sdk/openai-compatible': 'openai-compatible2',
            '@anthropic-ai/sdk': 'anthropic0',
            ai: 'ai6',
            openai: 'openai6',
          },
        },
        test: { ...patience, name: 'older', environment: 'node', include: ['test/adapters/{ai-sdk,anthropic,openai}.test.ts'] },
      },
      {
        resolve: asyncContext('src/async-context.ts'),
        test: { ...patience, name: 'deep', environment: 'node', env: { SLUICE_DEEP: '1' }, include: [deepTests, ...sizedTests] },
      },
      {
        // One file at a time: frames that are late because of a neighbour say nothing.
        resolve: asyncContext('src/async-context.ts'),
        test: { ...again, name: 'web', environment: 'node', include: [webTests], fileParallelism: false, testTimeout: 60_000 },
      },
      {
        resolve: asyncContext('operators/shell/async-context.ts'),
        // All that the tests import; one that is found on the way would be prepared then, and the page loaded anew.
        optimizeDeps: { noDiscovery: true, include: ['react', 'react-dom/client', 'rxjs', 'rxjs/testing'] },
        test: {
          ...patience,
          name: 'browser',
          include: [browserTests],
          globalSetup: 'test/browser/find-chromium.ts',
          browser: {
            enabled: true,
            headless: true,
            screenshotFailures: false,
            instances: [{ browser: 'chromium' }],
            provider: playwright({
              launchOptions: {
                // Read when the browser is started: the global setup has found it by then.
                get executablePath() {
                  return process.env['CHROMIUM_PATH'] ?? '';
                },
                timeout: 30_000,
                args: ['--disable-gpu'],
              },
            }),
          },
        },
      },
    ],
  },
});
