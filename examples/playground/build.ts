import { resolve } from 'node:path';
import type { InlineConfig } from 'vite';
import { build, defaultClientConditions } from 'vite';

const ROOT = resolve(import.meta.dirname, '../..');

/** Where the built page lies. */
export const OUT = resolve(import.meta.dirname, 'dist');

/** Builds the page into a folder that works from any path. */
export async function buildPlayground(outDir = OUT): Promise<void> {
  const config: InlineConfig = {
    root: import.meta.dirname,
    base: './',
    configFile: false,
    logLevel: 'warn',
    // RxJS as classes.
    resolve: {
      alias: { '#async-context': resolve(ROOT, 'operators/shell/calls/async-context.ts') },
      conditions: ['es2015', ...defaultClientConditions],
    },
    build: {
      outDir,
      emptyOutDir: true,
      target: 'es2023',
      modulePreload: false,
      rolldownOptions: {
        output: {
          // What is loaded together lies together, and is packed better.
          codeSplitting: {
            includeDependenciesRecursively: false,
            groups: [
              { name: 'code', test: /\?raw$|engine\/code\.ts$/ },
              { name: 'turns', test: /\/src\/pipelines\/|\/engine\/(presets\/agent-turn|pipelines\/turns)/ },
              { name: 'inspector', test: /\/src\/(inspector|metrics)\// },
              {
                name: 'stories',
                test: /\/node_modules\/(rxjs|tslib)\/|\/operators\/|\/marbles\/|\/engine\/(?!scenario|preset\.ts|sides)|\/page\/(boards|player)/,
              },
            ],
          },
        },
      },
    },
  };
  await build(config);
}

if (process.argv[1] === import.meta.filename) await buildPlayground();
