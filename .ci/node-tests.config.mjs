// The tests that check-node.mjs repeats on another version of Node: what leans on the language and its timers. The rest would measure the machine more
// than its Node, or runs a browser, npm, a compiler or a model; what it needs of Node, the program of that check does, too.
import { configDefaults, defineConfig } from 'vitest/config';
import { aloneTests, hostTests } from '../test/support/host-tests.ts';

// They try all cases of pure arithmetic, which takes longer than everything else together.
const exhaustive = [
  'test/**/*.{exhaustive,random}.test.ts',
  'test/kernel/divide-plan.test.ts',
  'test/kernel/bad-item-search.test.ts',
  'test/limiter/model.test.ts',
  'test/operators/{batch-random-listeners,own-slots}.test.ts',
];

// Kernels know neither a timer nor a promise, and the tests of limiters bring their own clock: they are repeated when all is asked for.
const folders = ['operators', 'src', ...(process.env['SLUICE_ALL_TESTS'] ? ['kernel', 'limiter'] : [])];

const within = (files) => files.filter((file) => folders.some((name) => file.startsWith(`test/${name}/`)));

const shared = { environment: 'node', testTimeout: 30_000 };

export default defineConfig({
  test: {
    maxWorkers: 2,
    // What `npm test` has compiled is not compiled again.
    experimental: { fsModuleCache: true },
    projects: [
      {
        test: {
          ...shared,
          name: 'node',
          isolate: false,
          include: folders.map((name) => `test/${name}/**/*.test.ts`),
          exclude: [...configDefaults.exclude, ...exhaustive, ...hostTests, ...aloneTests],
        },
      },
      { test: { ...shared, name: 'host', isolate: false, include: within(hostTests) } },
      { test: { ...shared, name: 'alone', include: within(aloneTests) } },
    ],
  },
});
