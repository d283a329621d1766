// The tests that check-node.mjs repeats on other Node versions. Simulations and examples measure the machine more
// than its Node; what runs a browser, npm, a compiler or a model needs no second Node.
import { configDefaults, defineConfig } from 'vitest/config';
import { hostTests } from '../test/support/host-tests.ts';

// They try all cases of pure arithmetic, which takes longer than everything else together.
const exhaustive = [
  'test/**/*.exhaustive.test.ts',
  'test/kernel/divide-plan.test.ts',
  'test/kernel/bad-item-search.test.ts',
  'test/limiter/model.test.ts',
];

const folders = ['kernel', 'operators', 'limiter', 'marbles-kit', 'metrics', 'pipelines', 'src', 'edge', 'support'];

const shared = { environment: 'node', testTimeout: 30_000 };

export default defineConfig({
  test: {
    maxWorkers: 2,
    projects: [
      {
        test: {
          ...shared,
          name: 'node',
          isolate: false,
          include: folders.map((name) => `test/${name}/**/*.test.ts`),
          exclude: [...configDefaults.exclude, ...exhaustive, ...hostTests],
        },
      },
      { test: { ...shared, name: 'host', include: hostTests.filter((file) => folders.some((name) => file.startsWith(`test/${name}/`))) } },
    ],
  },
});
