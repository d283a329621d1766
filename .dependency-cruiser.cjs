const { builtinModules } = require('node:module');

const rxjs = '(^|/)node_modules/rxjs/';
const zod = '(^|/)node_modules/zod/';
const nodeBuiltin = `^(node:)?(${builtinModules.join('|')})$`;
const entries = '^(src|operators|operators/kernel|marbles|src/edge)/index\\.ts$';
// The package's own `imports`: it leads into dist/ once the package is built.
const asyncContext = '^(#async-context|dist/async-context\\.js)$';
const library = '^(operators|src|marbles)/';
// Not published: they stand beside the kit that draws them, and import as tests do.
const specs = '^marbles/(specs/|roster\\.ts$)';

/** Who may import whom. `npm run check:imports` runs it, docs/architecture.md explains it. */
module.exports = {
  forbidden: [
    {
      name: 'kernel-stands-alone',
      comment: 'A kernel is plain arithmetic: it imports nothing outside operators/kernel.',
      severity: 'error',
      from: { path: '^operators/kernel/' },
      to: { pathNot: '^operators/kernel/' },
    },
    {
      name: 'shell-imports-rxjs-only',
      comment: 'What operators share may lean on rxjs and kernels, never on an operator.',
      severity: 'error',
      from: { path: '^operators/(options|shell)/' },
      to: { pathNot: ['^operators/(options|shell|kernel)/', rxjs, asyncContext] },
    },
    {
      name: 'options-below-the-shell',
      comment: 'Options are what shells and operators are told: they know the kernels and the types of rxjs, and start nothing.',
      severity: 'error',
      from: { path: '^operators/options/' },
      to: { pathNot: ['^operators/(options|kernel)/', rxjs] },
    },
    {
      name: 'operators-import-rxjs-only',
      comment: 'A frontend that wants batching alone takes rxjs and nothing more: no src, no package, no Node module.',
      severity: 'error',
      from: { path: '^operators/' },
      to: { pathNot: ['^operators/', rxjs, asyncContext] },
    },
    {
      name: 'src-imports-as-users-do',
      comment: 'Of operators, src takes what a third party can import: `sluice/operators`, and `sluice/operators/build` for authors.',
      severity: 'error',
      from: { path: '^src/' },
      to: { path: '^operators/', pathNot: '^operators/(index|build)\\.ts$' },
    },
    {
      name: 'build-is-for-authors',
      comment: 'Operators import the file that defines a name; `build.ts` is how authors outside reach it.',
      severity: 'error',
      from: { path: '^operators/' },
      to: { path: '^operators/build\\.ts$' },
    },
    {
      name: 'no-inner-barrel',
      comment: 'Import the file that defines a name, not an index.ts: barrels are for users, and make cycles.',
      severity: 'error',
      from: { path: library, pathNot: [entries, specs] },
      to: { path: ['^(src|marbles)/index\\.ts$', '^(operators|src|marbles)/.+/index\\.ts$'] },
    },
    {
      name: 'operators-without-their-barrel',
      severity: 'error',
      from: { path: '^(operators|marbles)/', pathNot: [entries, specs] },
      to: { path: '^operators/index\\.ts$' },
    },
    {
      name: 'zod-at-the-edge',
      comment: 'zod checks untrusted input, in src/edge only; everything inside takes checked values.',
      severity: 'error',
      from: { path: library, pathNot: '^src/edge/' },
      to: { path: zod },
    },
    {
      name: 'entries-without-zod',
      comment: 'zod is an optional peer of `sluice/edge`; importing another entry must not pull it in.',
      severity: 'error',
      from: { path: entries, pathNot: '^src/edge/' },
      to: { path: zod, reachable: true },
    },
    {
      name: 'entries-without-node',
      comment: 'The entries run in browsers: no Node module may be reached from them.',
      severity: 'error',
      from: { path: entries },
      to: { path: nodeBuiltin, reachable: true },
    },
    {
      name: 'peers-only',
      comment:
        'The package has no dependencies: outside the bundled command, only peers may be imported, and the parsers that are bundled with it.',
      severity: 'error',
      from: { path: library, pathNot: '^src/cli/' },
      to: {
        // @openai/agents is a peer that only `peerDependenciesMeta` names: npm would look at its own peers.
        pathNot: '(^|/)node_modules/(eventsource-parser|quick-lru|yaml|@openai/agents)/',
        dependencyTypes: ['npm-dev', 'npm-no-pkg', 'npm-unknown'],
        dependencyTypesNot: ['npm-peer'],
      },
    },
    {
      name: 'sdks-in-adapters',
      comment: 'An SDK is an optional peer of its adapter; nothing else may need it.',
      severity: 'error',
      from: { path: library, pathNot: '^src/adapters/' },
      to: { path: '(^|/)node_modules/(openai|ai|langchain|@anthropic-ai|@langchain|@openai|@opentelemetry|@modelcontextprotocol)/' },
    },
    {
      name: 'redis-without-a-client',
      comment: 'The connection of `sluice/redis` belongs to the user: the store has its type, and imports no client.',
      severity: 'error',
      from: { path: library },
      to: { path: '(^|/)node_modules/ioredis/' },
    },
    {
      name: 'adapters-without-engine',
      severity: 'error',
      from: { path: '^src/adapters/' },
      to: { path: '^src/engine/' },
    },
    {
      name: 'engine-without-adapters',
      severity: 'error',
      from: { path: '^src/engine/' },
      to: { path: '^src/adapters/' },
    },
    {
      name: 'src-without-marbles',
      comment: 'The testing kit drags in the TestScheduler; only the command may use it.',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/cli/' },
      to: { path: '^marbles/' },
    },
    {
      name: 'library-without-tests',
      severity: 'error',
      from: { path: library, pathNot: specs },
      to: { path: '^(test|bench|examples|docs)/' },
    },
    {
      name: 'no-cycles',
      severity: 'error',
      from: { path: library },
      to: { circular: true },
    },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    tsPreCompilationDeps: true,
    preserveSymlinks: true,
    enhancedResolveOptions: { exportsFields: ['exports'], conditionNames: ['import', 'types', 'default'] },
  },
};
