import { readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import type { Plugin } from 'esbuild';
import { build } from 'esbuild';
import { compile, compileModule } from 'svelte/compiler';
import { ownSource } from '../../support/doctest.js';

const ROOT = resolve(import.meta.dirname, '../../..');

export interface BundleOptions {
  /** React checks more, and mounts twice in strict mode, with `'development'`. @defaultValue 'production' */
  readonly mode?: 'production' | 'development';
  /** React 18 and the AI SDK 6, the oldest that the peer ranges let in. @defaultValue false */
  readonly isOlder?: boolean;
}

const OLDER = { react: 'react18', 'react-dom': 'react-dom18', ai: 'ai6', '@ai-sdk/react': 'ai-react3' };

/** The code of a page: the file with all that it imports, for a browser. `sluice` is what the sources are now. */
export async function bundlePage(file: string, { mode = 'production', isOlder = false }: BundleOptions = {}): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [resolve(import.meta.dirname, '../pages', file)],
    bundle: true,
    write: false,
    format: 'esm',
    target: 'es2022',
    platform: 'browser',
    jsx: 'automatic',
    minify: mode === 'production',
    conditions: [mode],
    define: {
      'process.env.NODE_ENV': JSON.stringify(mode),
      __VUE_OPTIONS_API__: 'false',
      __VUE_PROD_DEVTOOLS__: 'false',
      __VUE_PROD_HYDRATION_MISMATCH_DETAILS__: 'false',
    },
    // One RxJS for the page and for @ag-ui/client, which brings its own along: what a bundler's `dedupe` does.
    alias: {
      '#async-context': join(ROOT, 'operators/shell/calls/async-context.ts'),
      rxjs: join(ROOT, 'node_modules/rxjs'),
      ...(isOlder && OLDER),
    },
    plugins: [ownSources, svelte],
    logLevel: 'error',
  });
  return outputFiles[0]?.text ?? '';
}

const ownSources: Plugin = {
  name: 'own-sources',
  setup: (bundler) => {
    bundler.onResolve({ filter: /^sluice(\/|$)/ }, ({ path }) => {
      const found = ownSource(path);
      return found === undefined ? { errors: [{ text: `no entry of this package is named ${path}` }] } : { path: join(ROOT, found) };
    });
  },
};

const svelte: Plugin = {
  name: 'svelte',
  setup: (bundler) => {
    bundler.onLoad({ filter: /\.svelte$/ }, async ({ path }) => ({
      contents: compile(await readFile(path, 'utf8'), { filename: path, generate: 'client' }).js.code,
      loader: 'js',
    }));
    bundler.onLoad({ filter: /\.svelte\.js$/ }, async ({ path }) => ({
      contents: compileModule(await readFile(path, 'utf8'), { filename: path, generate: 'client' }).js.code,
      loader: 'js',
    }));
  },
};
