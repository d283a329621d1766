import { readFile } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { build } from 'esbuild';

export const OPERATORS = resolve(import.meta.dirname, '../../operators');

/** A bug to plant: something else in place of one function of a module, or of one method or getter of a class in it. */
export interface Planted {
  /** The module, from `operators/`. */
  readonly file: string;
  /** What the module exports: `stitch`, or the method of a class, `Call.release`. */
  readonly of: string;
  /** What stands in the module, and what stood there: for a bug that was real, in the midst of a function. */
  readonly was?: readonly [right: string, wrong: string];
  /** Makes the wrong one of the right one. Its text goes into the bundle: it can use nothing but what it is given. */
  readonly bug: (right: never) => unknown;
}

/**
 * The code of a worker with the operators in it, in one piece: it runs much faster than what a test runner prepares, and a bug can be planted.
 *
 * @throws Error when there is no such function any more: the bug must be planted anew
 */
export async function bundle(entry: string, planted?: Planted): Promise<string> {
  const seen = new Set<string>();
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
          if (planted)
            bundler.onLoad({ filter: /\.ts$/ }, async ({ path }) => {
              seen.add(path);
              if (path !== join(OPERATORS, planted.file)) return undefined;
              const text = await readFile(path, 'utf8');
              return { contents: planted.was ? replaced(text, planted.was) : text + planting(planted), loader: 'ts' };
            });
        },
      },
    ],
  });
  if (planted && !seen.has(join(OPERATORS, planted.file))) throw new Error(`operators/${planted.file} is not in the bundle`);
  return outputFiles[0]?.text ?? '';
}

/**
 * The text of a module with a bug that was once in it.
 *
 * @throws Error when the text is not there any more: the bug must be planted anew
 */
export function replaced(text: string, [right, wrong]: readonly [string, string]): string {
  if (text.split(right).length !== 2) throw new Error(`'${right}' stands not once in the module`);
  return text.replace(right, () => wrong);
}

/** Goes behind the text of the module, where what it exports can be changed. It imports itself: what is not exported cannot be built. */
function planting({ file, of, bug }: Planted): string {
  const [name = '', member] = of.split('.');
  const isExported = `\nimport { ${name} as planted } from './${basename(file, '.ts')}.js';\nif (planted === undefined) throw new Error('${of} is not there');\n`;
  if (member === undefined) return `${isExported}${name} = (${String(bug)})(${name});`;
  return `${isExported}{
    const found = Object.getOwnPropertyDescriptor(${name}.prototype, '${member}');
    if (found === undefined) throw new Error('${of} is not there');
    const kind = found.get === undefined ? 'value' : 'get';
    Object.defineProperty(${name}.prototype, '${member}', { ...found, [kind]: (${String(bug)})(found[kind]) });
  }`;
}
