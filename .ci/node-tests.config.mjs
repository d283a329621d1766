// The tests that check-node.mjs repeats on other Node versions. Simulations and examples measure the machine more
// than its Node; what runs a browser, npm, a compiler or a model needs no second Node.
import { configDefaults, defineConfig } from 'vitest/config';

// They try all cases of pure arithmetic, which takes longer than everything else together.
const exhaustive = [
  'test/**/*.exhaustive.test.ts',
  'test/kernel/divide-plan.test.ts',
  'test/kernel/bad-item-search.test.ts',
  'test/limiter/model.test.ts',
];

const folders = ['kernel', 'operators', 'limiter', 'marbles-kit', 'metrics', 'pipelines', 'src', 'edge', 'support'];

export default defineConfig({
  test: {
    environment: 'node',
    maxWorkers: 2,
    isolate: false,
    testTimeout: 30_000,
    include: folders.map((name) => `test/${name}/**/*.test.ts`),
    exclude: [...configDefaults.exclude, ...exhaustive],
  },
});
