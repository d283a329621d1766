// What the built package costs a browser: unused operators fall away, optional peers stay out, and sizes keep to
// their limits (minified and gzipped, rxjs left out). Build first, then: node .ci/check-bundle.mjs
import { resolve } from 'node:path';
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';

const project = resolve(import.meta.dirname, '..');

const cases = [
  { name: 'import for nothing', code: "import './dist/operators.js'; import './dist/index.js';", limitBytes: 0 },
  { name: 'batch', code: "export { batch } from './dist/operators.js';", limitBytes: 4_000 },
  { name: 'batchMap', code: "export { batchMap } from './dist/operators.js';", limitBytes: 28_000 },
  { name: 'all operators', code: "export * from './dist/operators.js';", limitBytes: 48_000 },
  { name: 'root entry', code: "export * from './dist/index.js';", limitBytes: 72_000 },
];

for (const { name, code, limitBytes } of cases) {
  const { bytes, packages } = await measure(code);
  const good = bytes <= limitBytes && packages.length === 0;
  console.log(`${good ? 'ok  ' : 'FAIL'} ${name}: ${bytes} of ${limitBytes} bytes${packages.map((item) => `, contains ${item}`).join('')}`);
  if (!good) process.exitCode = 1;
}

async function measure(code) {
  const { outputFiles, metafile } = await build({
    stdin: { contents: code, resolveDir: project },
    absWorkingDir: project,
    outfile: 'bundle.js',
    bundle: true,
    minify: true,
    write: false,
    metafile: true,
    format: 'esm',
    platform: 'browser',
    external: ['rxjs'],
    logLevel: 'error',
  });
  const [{ contents }] = outputFiles;
  const inputs = Object.keys(metafile.outputs['bundle.js'].inputs);
  const packages = new Set(inputs.map((file) => /node_modules\/((@[^/]+\/)?[^/]+)/.exec(file)?.[1]).filter((item) => item !== undefined));
  return { bytes: contents.length === 0 ? 0 : gzipSync(contents).length, packages: [...packages] };
}
