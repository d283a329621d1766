// The README in projects for browsers: Next, Vite with React, and a worker. Each block is there twice: as it stands, and with its values checked.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { dirname, extname, join } from 'node:path';
import { build } from 'esbuild';
import { chromium } from 'playwright-core';
import { project as repository, run } from '../consumer.mjs';
import { CHECK, checkedJavaScript } from './blocks.mjs';

const TYPES = { '.html': 'text/html', '.js': 'text/javascript' };
/** A build that takes longer hangs. */
const BUILD_MS = 300_000;
/** What a page or a server may take. */
const RUN_MS = 60_000;

/** Clients that refuse to be made in a browser, where their key would be seen. */
const REFUSES = /browser-like environment/;

const runner = (blocks, mayRefuse) => `
const blocks = [
${blocks.flatMap(({ where, file, name }) => [file, `${name}.checked.mjs`].map((path) => `  ['${where}', () => import('./${path}')],`)).join('\n')}
];
/** How many have run, and how many a client has refused to run here. */
export async function runAll() {
  const counts = { run: 0, refused: 0 };
  for (const [where, load] of blocks) {
    try {
      await load();
      counts.run++;
    } catch (error) {
      if (!${mayRefuse} || !${String(REFUSES)}.test(error.message)) throw new Error(where + ': ' + error.message);
      counts.refused++;
    }
  }
  return counts;
}
`;

function write(folder, files) {
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), typeof text === 'string' ? text : JSON.stringify(text, undefined, 2));
  }
}

async function writeBlocks(folder, blocks) {
  write(folder, { 'check.mjs': CHECK });
  for (const block of blocks)
    write(folder, { [block.file]: block.code, [`${block.name}.checked.mjs`]: `${await checkedJavaScript(block, 'esm')}export {};\n` });
}

/** `next build` with the compiler's look at all files; then the page in Chromium, and the route handler. */
export async function checkNext(project, blocks) {
  const forServer = blocks.filter(({ isFor }) => isFor.node);
  const forPage = blocks.filter(({ isFor }) => isFor.page);
  await writeBlocks(join(project, 'blocks'), [...new Set([...forServer, ...forPage])]);
  write(project, {
    'blocks/server.mjs': runner(forServer, false),
    'blocks/page.runner.mjs': runner(forPage, true),
    'next.config.mjs': 'export default { turbopack: { root: import.meta.dirname } };\n',
    'tsconfig.json': {
      compilerOptions: {
        target: 'ES2022',
        lib: ['dom', 'dom.iterable', 'esnext'],
        module: 'esnext',
        moduleResolution: 'bundler',
        jsx: 'react-jsx',
        allowJs: true,
        allowImportingTsExtensions: true,
        resolveJsonModule: true,
        esModuleInterop: true,
        isolatedModules: true,
        incremental: true,
        noEmit: true,
        strict: true,
        skipLibCheck: false,
        plugins: [{ name: 'next' }],
      },
      include: ['next-env.d.ts', '**/*.ts', '**/*.tsx', '.next/types/**/*.ts'],
      exclude: ['node_modules'],
    },
    'app/layout.tsx': `export default function Layout({ children }: { children: React.ReactNode }) {
  return <html><body>{children}</body></html>;
}
`,
    'app/page.tsx': `'use client';
import { useEffect, useState } from 'react';

export default function Page() {
  const [said, setSaid] = useState('');
  useEffect(() => {
    void import('../blocks/page.runner.mjs')
      .then(({ runAll }) => runAll())
      .then((counts) => setSaid(JSON.stringify(counts)), (error: unknown) => setSaid(String(error)));
  }, []);
  return <output>{said}</output>;
}
`,
    'app/api/blocks/route.ts': `import { runAll } from '../../../blocks/server.mjs';

export const dynamic = 'force-dynamic';

export async function GET() {
  return Response.json(await runAll());
}
`,
  });
  const next = join(project, 'node_modules/next/dist/bin/next');
  // No telemetry, and the lockfile stays as npm has written it.
  const env = { NEXT_TELEMETRY_DISABLED: '1', NEXT_IGNORE_INCORRECT_LOCKFILE: '1', CI: 'true' };
  const { compilerOptions } = JSON.parse(readFileSync(join(project, 'tsconfig.json'), 'utf8'));
  run('node', [next, 'build'], project, { env, timeout: BUILD_MS });
  const used = JSON.parse(readFileSync(join(project, 'tsconfig.json'), 'utf8')).compilerOptions;
  assert.deepEqual(
    [used.strict, used.skipLibCheck],
    [compilerOptions.strict, compilerOptions.skipLibCheck],
    'Next has changed the settings',
  );
  const port = await freePort();
  const server = spawn('node', [next, 'start', '-H', '127.0.0.1', '-p', String(port)], {
    cwd: project,
    env: { ...process.env, ...env },
    stdio: 'ignore',
  });
  try {
    const url = `http://127.0.0.1:${port}`;
    await until(
      () =>
        fetch(url).then(
          ({ ok }) => ok,
          () => false,
        ),
      `next start does not answer at ${url}`,
    );
    const answer = await fetch(`${url}/api/blocks`);
    assert.equal(answer.status, 200, 'the route handler fails');
    assert.deepEqual(await answer.json(), { run: 2 * forServer.length, refused: 0 });
    const counts = await inChromium(url);
    return `${forServer.length} blocks in a route handler, ${told(counts)} in a client component`;
  } finally {
    server.kill('SIGINT');
    await once(server, 'close');
  }
}

/** `vite build` of a component, and its page in Chromium. */
export async function checkVite(project, blocks) {
  const forPage = blocks.filter(({ isFor }) => isFor.page);
  await writeBlocks(join(project, 'src'), forPage);
  write(project, {
    'src/runner.mjs': runner(forPage, true),
    'vite.config.js': "import react from '@vitejs/plugin-react';\n\nexport default { plugins: [react()] };\n",
    'index.html': '<!doctype html><body><div id="root"></div><script type="module" src="/src/main.tsx"></script></body>',
    'src/main.tsx': `import { useEffect, useState } from 'react';
import { createRoot } from 'react-dom/client';
import { runAll } from './runner.mjs';

function App() {
  const [said, setSaid] = useState('');
  useEffect(() => {
    void runAll().then((counts) => setSaid(JSON.stringify(counts)), (error: unknown) => setSaid(String(error)));
  }, []);
  return <output>{said}</output>;
}

createRoot(document.querySelector('#root')!).render(<App />);
`,
  });
  run('node', ['node_modules/vite/bin/vite.js', 'build', '--logLevel', 'warn'], project, { timeout: BUILD_MS });
  return `${told(await served(join(project, 'dist'), inChromium))} in a component`;
}

/** A worker that esbuild has bundled, in Chromium. */
export async function checkWorker(project, blocks) {
  const forWorker = blocks.filter(({ isFor }) => isFor.worker);
  await writeBlocks(join(project, 'src'), forWorker);
  write(project, {
    'src/runner.mjs': runner(forWorker, true),
    'src/worker.mjs': `import { runAll } from './runner.mjs';
runAll().then((counts) => postMessage(JSON.stringify(counts)), (error) => postMessage(String(error)));
`,
    'public/index.html': `<!doctype html><body><output></output><script type="module">
const worker = new Worker('./worker.js', { type: 'module' });
const say = (text) => { document.querySelector('output').textContent = text; };
worker.onmessage = ({ data }) => say(data);
worker.onerror = ({ message }) => say(message ?? 'the worker did not load');
</script></body>`,
  });
  await build({
    absWorkingDir: project,
    entryPoints: ['src/worker.mjs'],
    outdir: 'public',
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'browser',
    logLevel: 'error',
  });
  return `${told(await served(join(project, 'public'), inChromium))} in a worker`;
}

const told = ({ run: blocks, refused }) =>
  `${blocks / 2} blocks${refused === 0 ? '' : ` and ${refused / 2} whose client refuses browsers`}`;

/** What the page says in its `output` when it has run all blocks. */
async function inChromium(url) {
  const browser = await chromium.launch({
    executablePath: run('node', [join(repository, '.ci/chromium.mjs')], repository).trim(),
    args: ['--disable-gpu'],
  });
  try {
    const page = await browser.newPage();
    const errors = [];
    page.on('pageerror', (error) => errors.push(error));
    await page.goto(url);
    await page.waitForFunction(() => globalThis.document.querySelector('output')?.textContent !== '', undefined, { timeout: RUN_MS });
    const said = await page.textContent('output');
    assert.deepEqual(errors, []);
    assert.match(said, /^\{/, said);
    return JSON.parse(said);
  } finally {
    await browser.close();
  }
}

/** Serves the files of a folder while something looks at them. */
async function served(folder, look) {
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url, 'http://localhost');
    const file = join(folder, pathname.endsWith('/') ? `${pathname}index.html` : pathname);
    if (!existsSync(file) || !statSync(file).isFile()) response.writeHead(404).end();
    else response.writeHead(200, { 'content-type': TYPES[extname(file)] ?? 'application/octet-stream' }).end(readFileSync(file));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  try {
    return await look(`http://127.0.0.1:${server.address().port}/`);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

async function until(isThere, problem) {
  for (const startedMs = performance.now(); !(await isThere()); ) {
    if (performance.now() - startedMs > RUN_MS) throw new Error(problem);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
