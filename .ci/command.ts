import type { BuildOptions } from 'esbuild';

/** How the `sluice` command is bundled, by the build and by the tests that start it as a process; without its entry and the place it is written to. */
export const COMMAND = {
  bundle: true,
  format: 'esm',
  platform: 'node',
  target: 'es2022',
  minify: true,
  // Node prints the line that threw.
  lineLimit: 160,
  // For Node, both packages offer CommonJS, of which everything is bundled; of ES modules, what is not used is left out.
  alias: { rxjs: './node_modules/rxjs/dist/esm/index.js', yaml: './node_modules/yaml/browser/index.js' },
  // Bundled CommonJS packages call `require` for Node's own modules.
  banner: { js: "import { createRequire } from 'node:module';\nconst require = createRequire(import.meta.url);" },
} satisfies BuildOptions;
