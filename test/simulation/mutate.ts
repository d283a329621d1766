import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import { compileFunction } from 'node:vm';
import { build } from 'esbuild';
import type { Operators } from './world.js';

const OPERATORS = resolve(import.meta.dirname, '../../operators');

/** One planted bug: a replacement in one source file under `operators/`. */
export interface Mutation {
  readonly file: string;
  readonly from: string;
  readonly to: string;
}

/**
 * A copy of the operators with the bug in it, made in memory.
 *
 * @throws Error when the text to replace is not in the file exactly once: the source has changed and the bug must be planted anew
 */
export async function mutate(mutation: Mutation | undefined): Promise<Operators> {
  const entries = ['batch-map', 'batch-map-from', 'create-batcher', 'create-limiter'];
  const { outputFiles } = await build({
    stdin: { contents: entries.map((name) => `export * from './${name}.ts';`).join('\n'), resolveDir: OPERATORS },
    bundle: true,
    write: false,
    format: 'cjs',
    target: 'es2022',
    external: ['rxjs'],
    alias: { '#async-context': join(OPERATORS, 'support/async-context.ts') },
    logLevel: 'silent',
    plugins: mutation
      ? [
          {
            name: 'plant',
            setup: (bundler) => {
              bundler.onLoad({ filter: /\.ts$/ }, async ({ path }) => {
                const source = await readFile(path, 'utf8');
                return { contents: path === join(OPERATORS, mutation.file) ? plant(source, mutation) : source, loader: 'ts' };
              });
            },
          },
        ]
      : [],
  });
  const module = { exports: {} };
  const run = compileFunction(outputFiles[0]?.text ?? '', ['module', 'exports', 'require']) as (...given: unknown[]) => void;
  run(module, module.exports, createRequire(import.meta.url));
  return module.exports as Operators;
}

function plant(source: string, { file, from, to }: Mutation): string {
  const times = source.split(from).length - 1;
  if (times !== 1) throw new Error(`expected operators/${file} to contain \`${from}\` once, found it ${times} times`);
  return source.replace(from, () => to);
}
