import type { Plugin } from 'esbuild';
import { defineConfig, type Options } from 'tsup';
import { COMMAND } from './.ci/command.js';
import { licencesOf } from './.ci/licences.js';

const library = {
  entry: {
    index: 'src/index.ts',
    operators: 'operators/index.ts',
    'operators-build': 'operators/build.ts',
    // Who has asynchronous contexts and who has not: the package's `imports` choose.
    'async-context': 'operators/shell/calls/async-context.ts',
    'async-context-node': 'src/async-context.ts',
    metrics: 'src/metrics/index.ts',
    interop: 'operators/interop.ts',
    marbles: 'marbles/index.ts',
    'marbles-vitest': 'marbles/vitest.ts',
    diagnostics: 'src/diagnostics.ts',
    edge: 'src/edge/index.ts',
    'tokenizers-gpt': 'src/tokenizers/gpt.ts',
    'ag-ui': 'src/adapters/ag-ui.ts',
    'ai-sdk': 'src/adapters/ai-sdk.ts',
    anthropic: 'src/adapters/anthropic.ts',
    fetch: 'src/adapters/fetch.ts',
    inspector: 'src/inspector/index.ts',
    langchain: 'src/adapters/langchain.ts',
    'langchain-agents': 'src/adapters/langchain-agents.ts',
    mcp: 'src/adapters/mcp.ts',
    'mcp-v1': 'src/adapters/mcp-v1.ts',
    openai: 'src/adapters/openai.ts',
    'openai-agents': 'src/adapters/openai-agents.ts',
    otel: 'src/adapters/otel.ts',
    'tanstack-ai': 'src/adapters/tanstack-ai.ts',
    journal: 'src/journal/index.ts',
    'local-store': 'src/shared/local-store.ts',
    redis: 'src/shared/redis-store.ts',
    devtools: 'src/frontend/devtools.ts',
    react: 'src/frontend/react.ts',
  },
  target: 'es2022',
  platform: 'neutral',
  // Entries share chunks, so `sluice` and `sluice/operators` hand out the same functions and classes.
  splitting: true,
  treeshake: false,
  removeNodeProtocol: false,
  // @openai/agents is a peer that only `peerDependenciesMeta` names, so tsup does not know it as one.
  external: ['#async-context', /^node:/, '@openai/agents'],
  // Of `sluice/fetch` and the chat of `createModelCaller`: 1 kB, and its next version needs a newer Node than we do. And of its cache: 1 kB.
  noExternal: ['eventsource-parser', 'quick-lru'],
} satisfies Options;

// Handles have `[Symbol.asyncDispose]`, which the compiler's ES2022 does not know; so consumers need no `lib` for it.
const DISPOSABLE = '/// <reference lib="esnext.disposable" />';

const licences = licencesOf('THIRD_PARTY_LICENSES');

/** The parser in `sluice/edge` and the command is a module of its own and minified: third-party code, four times as long as the rest of that entry. */
const yamlApart: Plugin = {
  name: 'yaml apart',
  setup: (bundler) => {
    bundler.onResolve({ filter: /^yaml$/ }, () => ({ path: './yaml.js', external: true }));
  },
};

export default defineConfig([
  // `.ci/build.mjs` translates these modules to CommonJS. They are not
  // minified: bundlers need the annotations to leave out what is not used, and stack traces are readable without source maps, a third of the package.
  { ...library, format: 'esm', esbuildPlugins: [yamlApart, licences] },
  {
    entry: { yaml: 'node_modules/yaml/browser/index.js' },
    format: 'esm',
    target: 'es2022',
    platform: 'neutral',
    minify: true,
    esbuildPlugins: [licences],
  },
  // Declarations for CommonJS, of which `.ci/build.mjs` makes those for ES modules. tsup passes `baseUrl` on, which TypeScript 6 only takes with this
  // option.
  {
    ...library,
    entry: Object.fromEntries(
      Object.entries(library.entry).map(([name, file]) => [name, `.declarations/${file.replace(/\.ts$/, '.d.ts')}`]),
    ),
    format: 'cjs',
    dts: { only: true, banner: DISPOSABLE, compilerOptions: { ignoreDeprecations: '6.0' } },
  },
  {
    // The command carries what it needs (commander, log-update, zod, RxJS), so the package has no runtime dependencies; as one small file it also
    // starts a quarter faster. It shares the YAML parser with the library.
    entry: { cli: 'src/cli/main.ts' },
    format: 'esm',
    platform: 'node',
    splitting: false,
    external: ['#async-context'],
    noExternal: ['rxjs', 'zod'],
    esbuildPlugins: [yamlApart, licences],
    esbuildOptions: (options) => Object.assign(options, COMMAND),
  },
  {
    // What `sluice inspect` puts into its pages.
    entry: { 'inspect-page': 'src/cli/inspect/page.ts' },
    format: 'esm',
    target: 'es2022',
    platform: 'browser',
    splitting: false,
    minify: true,
    noExternal: [/./],
    esbuildPlugins: [licences],
  },
]);
