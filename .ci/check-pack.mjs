// Packs the package, installs the tarball into empty projects and uses it the ways people do: node .ci/check-pack.mjs
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { pathToFileURL } from 'node:url';
import { build } from 'esbuild';
import { chromium } from 'playwright-core';
import { allBeside, entryPoints, install, inThrowAwayFolder, manifest, pack, pinned, project, readJson, report, run } from './consumer.mjs';
import { checkFirstPrograms, checkReadme } from './fresh/packed.mjs';

// Everything npm runs by itself in a project that installs the package, or that removes it.
const INSTALL_SCRIPTS = [
  'preinstall',
  'install',
  'postinstall',
  'preprepare',
  'prepare',
  'postprepare',
  'preuninstall',
  'uninstall',
  'postuninstall',
];

/** What a download may be. */
const MOST_BYTES = 1_650_000;

/** What each adapter is for, and cannot be imported without. */
const ADAPTED = {
  'ai-sdk': 'ai',
  anthropic: '@anthropic-ai/sdk',
  devtools: '@tanstack/devtools-event-client',
  langchain: '@langchain/core',
  'langchain/agents': 'langchain',
  mcp: '@modelcontextprotocol/client',
  'mcp/v1': '@modelcontextprotocol/sdk',
  openai: 'openai',
  'openai-agents': '@openai/agents',
  otel: '@opentelemetry/api',
  react: 'react',
};

/** What is too old for an adapter, and was taken in silence once. */
const TOO_OLD = {
  'ai-sdk': 'ai@5.0.277',
  anthropic: '@anthropic-ai/sdk@0.60.0',
  edge: 'zod@3.25.76',
  openai: 'openai@4.104.0',
};

/**
 * Beside what is older than an adapter supports, or newer, the package is installed all the same: most of it needs none of them. Each takes npm seconds
 * of a core, so a push resolves those two that other peers have as their peer, and `check:all-versions` all of them.
 */
const ALL_BESIDE = ['zod@3', '@langchain/core@0.3', 'openai@4', 'ai@4', 'react@17', 'vitest@2', 'vitest@3'];
/** Whether to look at old peers alone, beside a build that is there: `node .ci/check-pack.mjs peers`. */
const isAboutPeers = process.argv[2] === 'peers';
const BESIDE = isAboutPeers ? ALL_BESIDE : ALL_BESIDE.slice(0, 2);

const optionalPeers = Object.keys(manifest.peerDependenciesMeta).filter((name) => name !== 'vitest');

// What the peers do at their own import is theirs.
const PEERS = JSON.stringify([
  'rxjs',
  'rxjs/testing',
  'node:assert',
  ...optionalPeers.filter((name) => !/^(gpt-tokenizer|@langchain\/core|@modelcontextprotocol\/sdk)$/.test(name)),
  '@langchain/core/embeddings',
  '@modelcontextprotocol/sdk/types.js',
]);

const LOOK = `
  const names = (object) => Reflect.ownKeys(object).map(String).sort().join();
  const builtIns = [globalThis, Object, Array, Promise, Function, Map, Set, Symbol, Error, AbortSignal, EventTarget];
  const look = () => ({
    'the globals': builtIns.flatMap((type) => [names(type), type.prototype ? names(type.prototype) : '']),
    'open handles': process._getActiveHandles().length,
    'running requests and timers': process.getActiveResourcesInfo().filter((name) => !/Wrap$/.test(name)),
    'listeners of the process': process.eventNames().map((name) => String(name) + process.listenerCount(name)),
  });
  const compare = (name, before, _module, after) => {
    for (const what of Object.keys(before)) {
      const [was, is] = [before[what], after[what]].map((value) => JSON.stringify(value));
      if (was !== is) throw new Error('importing ' + name + ' changes ' + what + ': ' + was + ' -> ' + is);
    }
  };
`;

let consumer = '';
let withPeers = '';
let installed = '';

await inThrowAwayFolder('pack', async (folder) => {
  consumer = join(folder, 'consumer');
  withPeers = join(folder, 'with-peers');
  installed = join(consumer, 'node_modules', manifest.name);
  const tarball = pack(folder, { isBuilt: isAboutPeers });
  // `.ci/run` waits for it.
  if (process.env['SLUICE_BUILT']) writeFileSync(process.env['SLUICE_BUILT'], '');
  if (isAboutPeers) {
    await report([['checkOldPeers', () => checkOldPeers(folder)]]);
    return;
  }
  install(consumer, tarball, ...pinned('rxjs'));
  const checks = {
    checkManifest,
    checkFiles,
    checkSize: () => checkSize(tarball),
    checkLicences,
    checkEsm,
    checkCjs,
    checkBundle,
    checkCommand,
    checkLookInside,
    checkBulkRun,
    checkMissingPeers,
    checkEverySubpath: () => checkEverySubpath(tarball),
    checkQuietImports,
    checkReadme: () => checkReadme(withPeers),
    checkFirstPrograms: () => checkFirstPrograms(withPeers),
    checkOldPeers: () => checkOldPeers(folder),
  };
  await report(Object.entries(checks));
});

/** Nothing is installed beside the package, nothing runs at install, and no model comes along. */
function checkManifest() {
  const packed = readJson(join(installed, 'package.json'));
  for (const [where, { scripts = {}, ...fields }] of Object.entries({ repository: manifest, tarball: packed })) {
    for (const field of ['dependencies', 'optionalDependencies', 'bundleDependencies', 'bundledDependencies']) {
      assert.equal(fields[field], undefined, `package.json (${where}) has \`${field}\``);
    }
    for (const script of INSTALL_SCRIPTS) {
      assert.equal(scripts[script], undefined, `package.json (${where}) has the install script \`${script}\``);
    }
  }
  assert.deepEqual(packed.peerDependencies, manifest.peerDependencies, 'the tarball has the peers of the repository');
  const needed = Object.keys(packed.peerDependencies).filter((name) => !packed.peerDependenciesMeta[name]?.optional);
  assert.deepEqual(needed, ['rxjs'], 'rxjs is the only peer everybody needs');
  const beside = readdirSync(join(consumer, 'node_modules')).filter((name) => !name.startsWith('.'));
  assert.deepEqual(beside.sort(), ['rxjs', manifest.name, 'tslib'], 'the install brought more than rxjs (and its tslib)');
  // npm compiles a native add-on by itself where it finds this file.
  assert.ok(!readdirSync(installed).includes('binding.gyp'), 'the tarball has a binding.gyp');
  const { packages } = readJson(join(consumer, 'package-lock.json'));
  const withScripts = Object.entries(packages).filter(([, { hasInstallScript }]) => hasInstallScript);
  assert.deepEqual(
    withScripts.map(([name]) => name),
    [],
    'something that was installed runs a script at install',
  );
}

function checkFiles() {
  const files = readdirSync(installed, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
  for (const file of files) {
    assert.match(file, /(\.(js|cjs|ts|cts|md|json|svg|txt)|LICENSE|THIRD_PARTY_LICENSES)$/, `unexpected file in the tarball: ${file}`);
    assert.ok(!readFileSync(file, 'utf8').includes(project), `${file} contains the path of the machine that built it`);
  }
  assert.ok(readFileSync(join(installed, manifest.bin.sluice), 'utf8').startsWith('#!/usr/bin/env node\n'), 'the command has no shebang');
}

function checkSize(tarball) {
  const { size } = statSync(tarball);
  assert.ok(size <= MOST_BYTES, `the tarball has ${size} bytes, more than ${MOST_BYTES}`);
  return `${size} bytes`;
}

/** The bundler names the file of each module it puts into code that is not minified; the command and its page are minified. */
function checkLicences() {
  const text = readFileSync(join(installed, 'THIRD_PARTY_LICENSES'), 'utf8');
  const listed = new Set([...text.matchAll(/^ {2}(\S+) \S+ \(.+\)$/gm)].map(([, name]) => name));
  const modules = readdirSync(join(installed, 'dist')).filter((file) => file.endsWith('.js'));
  const named = modules.flatMap((file) => [
    ...readFileSync(join(installed, 'dist', file), 'utf8').matchAll(/^\/\/ .*node_modules\/((?:@[^/]+\/)?[^/\n]+)\//gm),
  ]);
  for (const name of [...named.map(([, name]) => name), 'commander', 'rxjs', 'yaml', 'zod'])
    assert.ok(listed.has(name), `THIRD_PARTY_LICENSES does not list ${name}`);
  assert.ok(!/node_modules/.test(text), 'THIRD_PARTY_LICENSES names a folder');
  return `${listed.size} packages`;
}

/** The same few lines for every module system: the operator works, and both entries hand out the same one. */
function program(assertImport, sluiceImport) {
  return `
    ${assertImport}
    ${sluiceImport}
    const seen = [];
    of(1, 2, 3).pipe(batch({ maxSize: 2 })).subscribe((items) => seen.push(items));
    if (JSON.stringify(seen) !== '[[1,2],[3]]') throw new Error('batch gave ' + JSON.stringify(seen));
    if (batchMap !== rootBatchMap) throw new Error('sluice and sluice/operators carry two copies');
    console.log('done');
  `;
}

function esmProgram() {
  return program(
    "import { of } from 'rxjs';",
    "import { batch, batchMap } from 'sluice/operators'; import { batchMap as rootBatchMap } from 'sluice';",
  );
}

function checkEsm() {
  assert.equal(runProgram('program.mjs', esmProgram()), 'done\n');
}

function checkCjs() {
  const text = program(
    "const { of } = require('rxjs');",
    "const { batch, batchMap } = require('sluice/operators'); const { batchMap: rootBatchMap } = require('sluice');",
  );
  assert.equal(runProgram('program.cjs', text), 'done\n');
}

/** A browser bundle works, and takes neither an optional peer nor a Node module along (either would fail to resolve here). */
async function checkBundle() {
  writeFileSync(join(consumer, 'bundle-entry.mjs'), esmProgram());
  const { metafile } = await build({
    absWorkingDir: consumer,
    entryPoints: ['bundle-entry.mjs'],
    outfile: 'bundle.mjs',
    bundle: true,
    format: 'esm',
    platform: 'browser',
    metafile: true,
    logLevel: 'error',
  });
  const strangers = Object.keys(metafile.inputs).filter((file) => !/^(bundle-entry\.mjs|node_modules\/(sluice|rxjs|tslib)\/)/.test(file));
  assert.deepEqual(strangers, []);
  assert.doesNotMatch(readFileSync(join(consumer, 'bundle.mjs'), 'utf8'), /\bzod\b/i, 'zod is in the bundle of the root entry');
  assert.equal(run('node', ['bundle.mjs'], consumer), 'done\n');
}

function checkCommand() {
  const help = run('node', [join(installed, manifest.bin.sluice), '--help'], consumer);
  assert.match(help, /sluice/);
}

/** From nothing to one's own pipeline in the inspector, by the code blocks of the pages on the inspector and on `sluice inspect` alone. */
async function checkLookInside() {
  for (const page of ['docs/inspector.md', 'docs/sluice-inspect.md']) {
    const blocks = readFileSync(join(installed, page), 'utf8').matchAll(/^```js ([\w-]+\.mjs)\n([\s\S]*?)^```$/gm);
    for (const [, name, code] of blocks) writeFileSync(join(consumer, name), code);
  }
  const browser = await chromium.launch({
    executablePath: run('node', [join(project, '.ci/chromium.mjs')], project).trim(),
    args: ['--disable-gpu'],
  });
  try {
    const wanted = { accepted: 40, fulfilled: 39, rejected: 1, lost: 0 };
    run('node', ['pipeline.mjs'], consumer);
    const calls = await whileInspecting('events.jsonl', (url) => countersAt(browser, url, wanted));
    sluice('inspect', 'events.jsonl', '--html', 'run.html');
    assert.deepEqual(await countersAt(browser, pathToFileURL(join(consumer, 'run.html')).href, wanted), calls);

    const ofPages = { 'page.mjs': { accepted: 100, fulfilled: 100, lost: 0 }, 'inspector.mjs': { accepted: 0 } };
    for (const [name, counters] of Object.entries(ofPages)) {
      const { outputFiles } = await build({
        absWorkingDir: consumer,
        entryPoints: [name],
        bundle: true,
        format: 'esm',
        write: false,
        logLevel: 'error',
      });
      writeFileSync(join(consumer, 'page.html'), `<!doctype html><body><script type="module">${outputFiles[0].text}</script>`);
      await countersAt(browser, pathToFileURL(join(consumer, 'page.html')).href, counters);
    }

    // A pipeline that runs until it is told to stop.
    const live = "import { onEvent } from './serve-events.mjs'; import { interval } from 'rxjs';";
    writeFileSync(
      join(consumer, 'live.mjs'),
      `${live} import { batchMap } from 'sluice'; interval(10).pipe(batchMap(async (all) => all, { onEvent })).subscribe();`,
    );
    const pipeline = spawn('node', ['live.mjs'], { cwd: consumer, stdio: 'ignore' });
    try {
      await until(() =>
        fetch('http://127.0.0.1:4318').then(
          ({ body }) => body.cancel().then(() => true),
          () => false,
        ),
      );
      await whileInspecting('http://127.0.0.1:4318', (url) => countersAt(browser, url, { lost: 0 }, ({ fulfilled }) => fulfilled >= 50));
    } finally {
      pipeline.kill();
    }
    return `${calls.calls} calls in the page, and in the report`;
  } finally {
    await browser.close();
  }
}

/** The bulk run of the page on `sluice run`, word for word, over a new folder, against a server that answers at once. */
async function checkBulkRun() {
  const page = readFileSync(join(installed, 'docs/sluice-run.md'), 'utf8');
  writeFileSync(join(consumer, 'run.yaml'), /^```yaml run\.yaml\n([\s\S]*?)^```$/m.exec(page)[1]);
  mkdirSync(join(consumer, 'papers'));
  const papers = Array.from({ length: 12 }, (_, i) => `paper-${randomUUID()}-${i}.md`);
  for (const paper of papers) writeFileSync(join(consumer, 'papers', paper), `# ${paper}\n\nA text that nobody has seen.\n`);
  let calls = 0;
  const server = createServer(async (request, response) => {
    calls++;
    const { messages } = JSON.parse(await text(request));
    const content = messages[0].content.startsWith('Write three') ? '["Who?", "What?", "Why?"]' : 'Nobody knows.';
    const body = {
      choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 50, completion_tokens: 10 },
    };
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    const env = { SLUICE_BASE_URL: `http://127.0.0.1:${server.address().port}/v1`, OPENAI_API_KEY: 'any' };
    const bulk = (...args) =>
      new Promise((resolve, reject) => {
        execFile(
          'node',
          [join(installed, manifest.bin.sluice), 'run', 'run.yaml', ...args],
          { cwd: consumer, env: { ...process.env, ...env } },
          (error, stdout) => (error ? reject(error) : resolve(stdout)),
        );
      });
    assert.match(await bulk('--dry-run'), /^rows: 12 to do\n/);
    assert.equal(calls, 0);
    assert.match(await bulk('--max-usd', '5', '--events', 'bulk-events.jsonl'), /\nwrote answers\.jsonl: 36 results of this run\n$/);
    const lines = readFileSync(join(consumer, 'answers.jsonl'), 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    assert.deepEqual(
      lines.map(({ id, item }) => `${id} ${item}`).sort(),
      papers.flatMap((paper) => [0, 1, 2].map((item) => `${paper} ${item}`)).sort(),
    );
    assert.ok(lines.every(({ question, answer }) => question.endsWith('?') && answer === 'Nobody knows.'));
    await bulk('--retry-failed');
    assert.equal(calls, 48);
    sluice('inspect', 'bulk-events.jsonl', '--html', 'bulk.html');
    return `${calls} calls, ${lines.length} lines`;
  } finally {
    server.close();
  }
}

/** What the inspector on a page counts, as soon as it is what was wanted. */
async function countersAt(browser, url, wanted, isEnough = () => true) {
  const page = await browser.newPage();
  const errors = [];
  page.on('pageerror', (error) => errors.push(error));
  await page.goto(url);
  let counters;
  await until(
    async () => {
      counters = await page.evaluate(() => globalThis.document.querySelector('sluice-inspector')?.model.counters);
      return counters !== undefined && isEnough(counters) && Object.entries(wanted).every(([name, value]) => counters[name] === value);
    },
    () => `${url} counts ${JSON.stringify(counters)}`,
  );
  // What it looks like is loaded by itself.
  await page.waitForSelector('sluice-inspector canvas', { state: 'attached' });
  assert.deepEqual(errors, []);
  await page.close();
  return counters;
}

async function whileInspecting(source, look) {
  const command = spawn('node', [join(installed, manifest.bin.sluice), 'inspect', source], {
    cwd: consumer,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  try {
    const said = await new Promise((resolve) => command.stdout.once('data', resolve));
    return await look(/http:\S+$/m.exec(String(said).trim())[0]);
  } finally {
    command.kill('SIGINT');
    await new Promise((resolve) => command.once('close', resolve));
  }
}

function sluice(...args) {
  return run('node', [join(installed, manifest.bin.sluice), ...args], consumer);
}

async function until(isThere, say = () => 'it is not there') {
  for (let i = 0; !(await isThere()); i++) {
    if (i === 200) throw new Error(`after 20 s ${say()}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

/** An adapter whose package is not installed says which one that is. */
function checkMissingPeers() {
  const adapters = Object.entries(ADAPTED);
  const names = JSON.stringify(Object.keys(ADAPTED));
  for (const [file, load] of [
    ['missing.mjs', 'import(`sluice/${adapter}`)'],
    ['missing.cjs', 'Promise.resolve().then(() => require(`sluice/${adapter}`))'],
  ]) {
    const say = "console.log('it works'), (error) => console.log(error.message.split('\\n')[0])";
    const said = runProgram(file, `(async () => { for (const adapter of ${names}) await ${load}.then(() => ${say}); })();`).split('\n');
    for (const [i, [adapter, peer]] of adapters.entries())
      assert.match(said[i], new RegExp(`^Cannot find (package|module) '${peer}(/[^']*)?'`), `sluice/${adapter} without ${peer}`);
  }
  return `${adapters.length} adapters`;
}

/** With the optional peers there, every documented import resolves in both module systems. */
function checkEverySubpath(tarball) {
  install(withPeers, tarball, ...allBeside);
  const list = JSON.stringify(entryPoints);
  const isWrong = '(name, module) => Object.keys(module).length === 0';
  runProgram(
    'every.mjs',
    `for (const name of ${list}) if ((${isWrong})(name, await import(name))) throw new Error(name + ' is empty');`,
    withPeers,
  );
  runProgram(
    'every.cjs',
    `for (const name of ${list}) if ((${isWrong})(name, require(name))) throw new Error(name + ' is empty');`,
    withPeers,
  );
}

/** npm installs the package beside peers of any version; an import says in one sentence what is wrong. */
function checkOldPeers(folder) {
  const [tarball] = readdirSync(folder).filter((file) => file.endsWith('.tgz'));
  const old = join(folder, 'old');
  for (const [name, range] of Object.entries(manifest.peerDependencies)) assert.equal(range === '*', name !== 'rxjs', name);
  // npm also looks at the peers of a peer: those of `@openai/agents` (zod 4) would stop it, so that one is named in the metadata alone.
  assert.ok(!('@openai/agents' in manifest.peerDependencies));
  assert.deepEqual(
    Object.keys(manifest.supportedPeers),
    Object.keys(manifest.peerDependenciesMeta),
    'every optional peer has a supported range',
  );
  for (const [i, peer] of BESIDE.entries()) {
    const beside = join(folder, `beside-${i}`);
    mkdirSync(beside);
    writeFileSync(join(beside, 'package.json'), JSON.stringify({ name: 'beside', private: true }));
    // In two steps, as people do it. Resolved alone: nothing is downloaded but what the registry says of each package.
    for (const packages of [[peer], [join(folder, tarball), 'rxjs@7.8']])
      run('npm', ['install', '--package-lock-only', '--no-audit', '--no-fund', '--ignore-scripts', ...packages], beside);
    assert.ok(readJson(join(beside, 'package-lock.json')).packages[`node_modules/${manifest.name}`], `not installed beside ${peer}`);
  }
  install(old, join(folder, tarball), ...pinned('rxjs'), ...Object.values(TOO_OLD));
  for (const [entry, version] of Object.entries(TOO_OLD)) {
    const peer = version.slice(0, version.lastIndexOf('@'));
    const range = manifest.supportedPeers[peer];
    for (const load of [`import('sluice/${entry}')`, `Promise.resolve().then(() => require('sluice/${entry}'))`]) {
      writeFileSync(join(old, 'old.cjs'), `${load}.then(() => console.log('it works'), (error) => console.log(error.message));`);
      const said = run('node', ['old.cjs'], old).trim();
      const found = entry === 'ai-sdk' || entry === 'edge' ? 'an older one' : version.slice(peer.length + 1);
      assert.equal(said, `sluice/${entry} needs ${peer} ${range}, and found ${found}. Install it: npm install "${peer}@${range}"`);
    }
  }
  return [...BESIDE, ...Object.values(TOO_OLD)].join(', ');
}

/** Importing is all that happens: no timer, handle or listener starts, and the globals stay as they were. */
function checkQuietImports() {
  const list = JSON.stringify(entryPoints);
  runProgram(
    'quiet.mjs',
    `${LOOK} await Promise.all(${PEERS}.map((peer) => import(peer)));
    for (const name of ${list}) compare(name, look(), await import(name), look());`,
    withPeers,
  );
  runProgram(
    'quiet.cjs',
    `${LOOK} for (const peer of ${PEERS}) require(peer);
    for (const name of ${list}) compare(name, look(), require(name), look());`,
    withPeers,
  );
  return `${entryPoints.length} entry points`;
}

function runProgram(name, text, folder = consumer) {
  writeFileSync(join(folder, name), text);
  return run('node', [name], folder);
}
