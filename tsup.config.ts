import { defineConfig, type Options } from 'tsup';

const library = {
  entry: {
    index: 'src/index.ts',
    operators: 'operators/index.ts',
    // Who has asynchronous contexts and who has not: the package's `imports` choose.
    'async-context': 'operators/shell/async-context.ts',
    'async-context-node': 'src/async-context.ts',
    kernel: 'operators/kernel/index.ts',
    permits: 'operators/permits.ts',
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
    devtools: 'src/frontend/devtools.ts',
    react: 'src/frontend/react.ts',
    recordings: 'src/recordings.ts',
  },
  target: 'es2022',
  platform: 'neutral',
  // Entries share chunks, so `sluice` and `sluice/operators` hand out the same functions and classes.
  splitting: true,
  treeshake: false,
  removeNodeProtocol: false,
  // The last one is an optional peer of any version, which `peerDependencies` cannot say.
  external: ['#async-context', 'node:async_hooks', 'node:diagnostics_channel', '@openai/agents'],
  // Of `sluice/fetch` and the chat of `createModelCaller`: 1 kB, and its next version needs a newer Node than we do. And of its cache: 1 kB.
  noExternal: ['eventsource-parser', 'quick-lru'],
} satisfies Options;

// Handles have `[Symbol.asyncDispose]`, which the compiler's ES2022 does not know; so consumers need no `lib` for it.
const DISPOSABLE = '/// <reference lib="esnext.disposable" />';

export default defineConfig([
  { ...library, format: 'esm', sourcemap: true },
  // No map here: with splitting, tsup writes the build machine's absolute paths into CommonJS maps.
  { ...library, format: 'cjs', sourcemap: false },
  // One type build for both formats, of the declarations that the compiler has written (`npm run build`): it is ten times as fast at that as the
  // one inside tsup, which is only given them to bundle. tsup passes `baseUrl` on, which TypeScript 6 only takes with this option.
  {
    ...library,
    entry: Object.fromEntries(
      Object.entries(library.entry).map(([name, file]) => [name, `.declarations/${file.replace(/\.ts$/, '.d.ts')}`]),
    ),
    format: ['esm', 'cjs'],
    dts: { only: true, banner: DISPOSABLE, compilerOptions: { ignoreDeprecations: '6.0' } },
  },
  {
    // The command carries what it needs (commander, log-update, zod, RxJS), so the package has no runtime dependencies; as one small file it also
    // starts a quarter faster.
    entry: { cli: 'src/cli/main.ts' },
    format: 'esm',
    target: 'es2022',
    platform: 'node',
    splitting: false,
    minifyWhitespace: true,
    minifySyntax: true,
    external: ['#async-context'],
    noExternal: ['rxjs', 'zod'],
    // Bundled CommonJS packages call `require` for Node's own modules.
    banner: { js: "import { createRequire } from 'node:module';\nconst require = createRequire(import.meta.url);" },
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
  },
]);
