import { readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { build } from 'esbuild';

const OPERATORS = resolve(import.meta.dirname, '../../operators');

/** A bug to plant: a replacement in one source file under `operators/`. */
export interface Mutation {
  readonly file: string;
  readonly from: string;
  readonly to: string;
}

/**
 * The code of a worker with the operators in it, in one piece: it runs much faster than what a test runner prepares, and a bug can be planted.
 *
 * @throws Error when the text to replace is not in the file exactly once: the source has changed and the bug must be planted anew
 */
export async function bundle(entry: string, mutation?: Mutation): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [entry],
    bundle: true,
    write: false,
    format: 'cjs',
    platform: 'node',
    target: 'es2022',
    conditions: ['module'],
    alias: { '#async-context': resolve(OPERATORS, '../src/async-context.ts') },
    logLevel: 'silent',
    plugins: [
      {
        name: 'operators',
        setup: (bundler) => {
          // Another checkout's, to see what its operators do.
          const other = process.env['SLUICE_OPERATORS'];
          if (other !== undefined)
            bundler.onResolve({ filter: /^(\.\.\/)+operators\// }, ({ path, importer }) =>
              importer.includes('node_modules')
                ? undefined
                : { path: join(resolve(other), path.replace(/^(\.\.\/)+operators\//, '').replace(/\.js$/, '.ts')) },
            );
          if (mutation)
            bundler.onLoad({ filter: /\.ts$/ }, async ({ path }) => {
              const source = await readFile(path, 'utf8');
              return { contents: path === join(OPERATORS, mutation.file) ? plant(source, mutation) : source, loader: 'ts' };
            });
        },
      },
    ],
  });
  return outputFiles[0]?.text ?? '';
}

function plant(source: string, { file, from, to }: Mutation): string {
  const times = source.split(from).length - 1;
  if (times !== 1) throw new Error(`expected operators/${file} to contain \`${from}\` once, found it ${times} times`);
  return source.replace(from, () => to);
}
