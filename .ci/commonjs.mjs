// The CommonJS half of the build: each ES module of the library is translated on its own, so both halves have the same files and share the same chunks.
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { build, transform } from 'esbuild';

/**
 * Writes `x.cjs` beside every `x.js` of a folder, minified: the ES modules are the readable copy, and bundlers need their annotations. Names of functions and
 * classes of a module stay, for stack traces and errors that are printed; lines stay short, because Node prints the line that threw.
 *
 * @param isTranslated - whether the module of this name is part of the library
 */
export async function writeCommonJs(folder, isTranslated) {
  const { outputFiles } = await build({
    entryPoints: readdirSync(folder)
      .filter((name) => name.endsWith('.js') && isTranslated(name.slice(0, -'.js'.length)))
      .map((name) => join(folder, name)),
    outdir: folder,
    outExtension: { '.js': '.cjs' },
    write: false,
    bundle: true,
    format: 'cjs',
    platform: 'node',
    target: 'es2022',
    // Test runners that know CommonJS alone have no `import()`.
    supported: { 'dynamic-import': false },
    logLevel: 'error',
    plugins: [{ name: 'one by one', setup: (bundler) => bundler.onResolve({ filter: /./ }, keptOutside) }],
  });
  for (const { path, text } of outputFiles) {
    // Without a format, the names of the outermost scope stay.
    const { code } = await transform(text, { minify: true, lineLimit: 160, target: 'es2022' });
    writeFileSync(path, code);
  }
}

function keptOutside({ path, kind }) {
  if (kind === 'entry-point') return undefined;
  return path.startsWith('./') ? { path: path.replace(/\.js$/, '.cjs'), external: true, sideEffects: false } : { path, external: true };
}
