import { resolve } from 'node:path';
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';
import { expect, it } from 'vitest';

const project = resolve(import.meta.dirname, '../..');

/** Minified and gzipped, in bytes; React and what the hooks are for left out. */
async function sizeOf(code: string): Promise<number> {
  const { outputFiles } = await build({
    stdin: { contents: code, resolveDir: resolve(project, 'src/frontend'), loader: 'ts' },
    bundle: true,
    minify: true,
    write: false,
    format: 'esm',
    target: 'es2022',
    external: ['react', 'rxjs', '../../operators/*'],
  });
  return gzipSync(outputFiles[0]!.contents).length;
}

it('all hooks of React together are at most 1.2 kB', async () => {
  expect(await sizeOf("export * from './react.js';")).toBeLessThanOrEqual(1200);
});

it('a bundle with one hook does not contain toStore', async () => {
  const { metafile } = await build({
    stdin: { contents: "export { useFlowValue } from './react.js';", resolveDir: resolve(project, 'src/frontend'), loader: 'ts' },
    bundle: true,
    minify: true,
    write: false,
    metafile: true,
    outfile: 'bundle.js',
    format: 'esm',
    target: 'es2022',
    external: ['react', 'rxjs'],
    alias: { '#async-context': resolve(project, 'operators/shell/calls/async-context.ts') },
  });
  const taken = Object.entries(metafile.outputs['bundle.js']!.inputs).filter(([, { bytesInOutput }]) => bytesInOutput > 0);
  expect(taken.map(([file]) => file).filter((file) => /to-store|snapshot-store|pace/.test(file))).toEqual([]);
});
