import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { playwright } from '@vitest/browser-playwright';
import { configDefaults, defineConfig } from 'vitest/config';
import type { TestSpecification } from 'vitest/node';
import { BaseSequencer } from 'vitest/node';
import { aloneTests, hostTests } from './test/support/host-tests.js';

// `.ci/run` names a file here to read the counts from; people only get the usual report.
const countsFile = process.env['SLUICE_TEST_COUNTS'];

/** What the package's `imports` say once it is built. */
const asyncContext = (file: string) => ({ alias: { '#async-context': join(import.meta.dirname, file) } });

/** What takes minutes: `npm run test:deep`. */
const deepTests = 'test/deep/**/*.test.ts';
/** Of these `npm test` runs a part: all that ask `test/support/deep.ts`, by themselves or in what they import. */
const sizedTests = [
  ...readdirSync(join(import.meta.dirname, 'test'), { recursive: true, encoding: 'utf8' })
    .map((name) => `test/${name}`)
    .filter((name) => name.endsWith('.test.ts') && readFileSync(join(import.meta.dirname, name), 'utf8').includes("/support/deep.js'")),
  'test/matrix.test.ts',
];

/** What pages, examples and tables say, compiled, run and compared: `npm run check:docs`. They load compilers and a real model. */
const docsTests = ['test/docs.test.ts', 'test/misuse-complete.test.ts', 'test/examples/*.test.ts', 'test/package/**/*.test.ts'];

/** Tests of the limiter that are about what is granted. Others are about how exactly a rate of one process is used, or wait for days, in which a store is asked twice a second. */
const sharedRateTests = [
  ...['bare-permits', 'bidders', 'child', 'control', 'enforce', 'key-cost', 'keys', 'learning'],
  ...['models', 'pauses', 'ranked', 'reentry', 'releases', 'sliding', 'starting-rates', 'units', 'usage-and-nesting', 'values', 'work'],
].map((name) => `test/limiter/${name}.test.ts`);

const browserTests = 'test/browser/**/*.test.ts';
/** Whole pages with frameworks, against a server, in one Chromium. */
const webTests = 'test/web/*.test.ts';
/** Those that count frames for a minute, and look at the heap meanwhile: a part of `npm run test:deep`. */
const framesTests = 'test/web/frames/*.test.ts';

/** A page mostly waits: each goes behind a file that reckons. Together they would leave half of the machine idle, or make each other late. */
class PagesBetween extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const pages = sorted.filter(({ project }) => project.name === 'web');
    const alone = sorted.filter(({ project }) => project.name === 'alone' || project.name === 'older');
    // One after the other, since a process is handed on to the next file of its project only.
    const sharing = sorted.filter((file) => !pages.includes(file) && !alone.includes(file));
    return [...alone.flatMap((file) => [file, ...pages.splice(0, 1)]), ...pages, ...sharing];
  }
}

/** What `.ci/run` sees fail once is asked once more, and told either way: a machine that others use as well is late now and then. */
const again = { retry: process.env['CI'] === undefined ? 0 : 1 };

/** A busy machine makes everything late; what hangs is found all the same. */
const patience = { ...again, testTimeout: 30_000, hookTimeout: 30_000 };

export default defineConfig({
  test: {
    // One more than the least number of cores: some files wait for processes and timers.
    maxWorkers: 3,
    sequence: { sequencer: PagesBetween },
    // What one project, or the run before, has compiled is not compiled again: its key is the text.
    experimental: { fsModuleCache: true },
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
          globalSetup: 'test/shared/support/find-redis.ts',
          // The sources are loaded once for each worker, not for each file: a third of the time.
          isolate: false,
          include: ['test/**/*.test.ts'],
          exclude: [...configDefaults.exclude, browserTests, webTests, framesTests, deepTests, ...docsTests, ...hostTests, ...aloneTests],
        },
      },
      {
        // The tests of the limiter again, with every rate shared at a store: a part of `npm run test:deep`.
        resolve: {
          alias: [
            { find: '#async-context', replacement: join(import.meta.dirname, 'src/async-context.ts') },
            {
              find: /^\.\.\/\.\.\/operators\/index\.js$/,
              replacement: join(import.meta.dirname, 'test/shared/support/shared-operators.ts'),
            },
          ],
        },
        test: {
          ...patience,
          name: 'shared-rates',
          environment: 'node',
          isolate: false,
          include: sharedRateTests,
          setupFiles: 'test/shared/support/skip-differences.ts',
        },
      },
      {
        resolve: asyncContext('src/async-context.ts'),
        test: { ...patience, name: 'host', environment: 'node', isolate: false, include: hostTests },
      },
      {
        resolve: asyncContext('src/async-context.ts'),
        test: { ...patience, name: 'alone', environment: 'node', include: aloneTests },
      },
      {
        resolve: asyncContext('src/async-context.ts'),
        test: { ...patience, name: 'docs', environment: 'node', isolate: false, include: docsTests },
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
        test: {
          ...patience,
          name: 'older',
          environment: 'node',
          include: ['test/adapters/{ai-sdk,ai-sdk-media,anthropic,openai}.test.ts'],
        },
      },
      {
        resolve: asyncContext('src/async-context.ts'),
        // Pages, many at a time beside what reckons for minutes, are late.
        test: {
          ...patience,
          name: 'deep',
          environment: 'node',
          globalSetup: 'test/shared/support/find-redis.ts',
          env: { SLUICE_DEEP: '1' },
          include: [deepTests, ...sizedTests],
          testTimeout: 120_000,
        },
      },
      {
        resolve: asyncContext('src/async-context.ts'),
        test: {
          ...patience,
          name: 'web',
          environment: 'node',
          include: [webTests],
          testTimeout: 60_000,
          globalSetup: 'test/web/support/one-chromium.ts',
        },
      },
      {
        // One file at a time, after all others: frames that are late because of a neighbour say nothing.
        resolve: asyncContext('src/async-context.ts'),
        test: { ...patience, name: 'frames', environment: 'node', include: [framesTests], fileParallelism: false },
      },
      {
        resolve: asyncContext('operators/shell/calls/async-context.ts'),
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
