// What a bundle costs a browser, minified and gzipped, without RxJS.
import { join, resolve } from 'node:path';
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';

export const project = resolve(import.meta.dirname, '..');

/** What programs import together. `*` is all that the entry exports; without an `entry` it is the operators. */
export const programs = [
  root('the first example of `docs/guides/first-steps.md`', 'batchMap', 'createAccount', 'robust'),
  root('`createModelCaller` over a function', 'createModelCaller'),
  root('`createModelCaller` over a function, under an account', 'createModelCaller', 'createAccount'),
  root('`createModelCaller` over an address, under an account', 'createModelCaller', 'chatCompletions', 'createAccount'),
  root('`createEmbedder` over a function', 'createEmbedder'),
  root('`createEmbedder` over an address', 'createEmbedder', 'embeddings'),
  root('`createEmbedder` over an address, under an account', 'createEmbedder', 'embeddings', 'createAccount'),
  root('`createToolRunner`', 'createToolRunner', 'defineTool'),
  root('`createAgentTurn` without tools', 'createAgentTurn'),
  root('`createAgentTurn` with tools', 'createAgentTurn', 'createToolRunner', 'defineTool'),
  root('`createStages`', 'createStages'),
  { exports: ['batchMap', 'lanes', 'robust'] },
  {
    exports: [
      'createLimiter',
      'createAccount',
      'childOf',
      'keyedLimiter',
      'lanes',
      'perMinute',
      'tokenBucket',
      'slidingWindow',
      'fromHeaders',
    ],
  },
  { exports: ['coalesce', 'switchLatest', 'toStore'] },
  { exports: ['*'] },
  { title: '`sluice/operators/build`', entry: 'operators-build', source: 'operators/build.ts', exports: ['*'] },
  { entry: 'interop', source: 'operators/interop.ts', exports: ['*'] },
  { entry: 'fetch', source: 'src/adapters/fetch.ts', exports: ['limitFetch'] },
  { entry: 'ag-ui', source: 'src/adapters/ag-ui.ts', exports: ['*'] },
  // The element and the model behind it; what it looks like is loaded when it is first on a page, and is measured with it as well.
  { entry: 'inspector', source: 'src/inspector/index.ts', exports: ['defineInspector'] },
];

function root(title, ...exports) {
  return { title, entry: 'index', source: 'src/index.ts', exports };
}

/** Without the flag the bundler would keep every import of RxJS in the package, used or not, as if it did something. */
const rxjsLeftOut = {
  name: 'rxjs-left-out',
  setup: (bundler) => {
    bundler.onResolve({ filter: /^rxjs(\/|$)/ }, ({ path }) => ({ path, external: true, sideEffects: false }));
  },
};

/**
 * What names of an entry cost together: bytes, the foreign packages inside, and bytes before gzip by file. Where a part is loaded later, by `import()`,
 * that is what is loaded at first, and `later` is the rest.
 */
export async function measure(entry, names, { alias = {} } = {}) {
  const everything = names.includes('*');
  return measureCode(everything ? `export * from '${entry}';` : `export { ${names.join(', ')} } from '${entry}';`, { alias });
}

export async function measureCode(code, { alias = {} } = {}) {
  const { outputFiles, metafile } = await build({
    stdin: { contents: code, resolveDir: project },
    absWorkingDir: project,
    outdir: 'bundle',
    bundle: true,
    splitting: true,
    minify: true,
    write: false,
    metafile: true,
    format: 'esm',
    target: 'es2022',
    platform: 'browser',
    alias,
    plugins: [rxjsLeftOut],
    logLevel: 'silent',
  });
  const outputs = Object.entries(metafile.outputs).map(([path, output], i) => ({ path, ...output, contents: outputFiles[i].contents }));
  const first = new Set();
  const load = (path) => {
    first.add(path);
    for (const { path: next, kind } of metafile.outputs[path].imports)
      if (kind === 'import-statement' && next in metafile.outputs && !first.has(next)) load(next);
  };
  load(outputs.find(({ entryPoint }) => entryPoint === '<stdin>').path);
  const [now, later] = [true, false].map((isFirst) => sizeOf(outputs.filter(({ path }) => first.has(path) === isFirst)));
  return { ...now, ...(later.minBytes > 0 && { later }) };
}

function sizeOf(outputs) {
  const inputs = outputs.flatMap(({ inputs }) => Object.entries(inputs));
  const packages = new Set(inputs.map(([file]) => /node_modules\/((@[^/]+\/)?[^/]+)/.exec(file)?.[1]).filter((item) => item !== undefined));
  return {
    minBytes: sum(outputs, ({ contents }) => contents.length),
    gzipBytes: sum(outputs, ({ contents }) => gzipSync(contents).length),
    packages: [...packages],
    parts: inputs.map(([file, { bytesInOutput }]) => [file, bytesInOutput]).filter(([, bytes]) => bytes > 0),
  };
}

function sum(items, of) {
  return items.reduce((all, item) => all + of(item), 0);
}

/** From the sources, without a build. One file first, as in the package: what a file does when it is loaded is in every bundle then, if a bundler cannot see that it is pure. */
export async function measureSource(names, entry = './operators/index.ts') {
  const alias = { '#async-context': join(project, 'operators/shell/calls/async-context.ts') };
  const { outputFiles } = await build({
    entryPoints: [entry],
    absWorkingDir: project,
    bundle: true,
    write: false,
    format: 'esm',
    target: 'es2022',
    platform: 'neutral',
    packages: 'external',
    alias,
    logLevel: 'silent',
  });
  if (entry !== './operators/index.ts' || names.includes('*')) return measure(entry, names, { alias });
  const exportsAll = /export \{[^}]*\};\s*$/;
  const text = outputFiles[0].text;
  const exported = new Set([...(exportsAll.exec(text)?.[0] ?? '').matchAll(/(?:\w+ as )?(\w+)(?=[,\s}])/g)].map(([, name]) => name));
  const missing = names.filter((name) => !exported.has(name));
  if (missing.length > 0) throw new Error(`no ${missing.join(', ')}`);
  const locals = names.map((name) => new RegExp(`(\\w+) as ${name}\\b`).exec(exportsAll.exec(text)[0])?.[1] ?? name);
  const { parts } = await measure(entry, names, { alias });
  const list = names.map((name, i) => (locals[i] === name ? name : `${locals[i]} as ${name}`)).join(', ');
  return { ...(await measureCode(text.replace(exportsAll, `export { ${list} };`), { alias })), parts };
}

export function number(bytes) {
  return bytes.toLocaleString('en-US');
}
