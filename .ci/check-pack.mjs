// Packs the package, installs the tarball into empty projects and uses it the ways people do: node .ci/check-pack.mjs
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { isAbsolute, join, resolve } from 'node:path';
import { build } from 'esbuild';

const project = resolve(import.meta.dirname, '..');
const manifest = readJson(join(project, 'package.json'));
const work = mkdtempSync(join(tmpdir(), 'sluice-pack-'));
const consumer = join(work, 'consumer');
const installed = join(consumer, 'node_modules', 'sluice');

// `npm run` hands its own settings down to the npm calls made here; those of the caller's project do not apply to the consumer.
const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^npm_(package|lifecycle)_/.test(name)));

try {
  install();
  const checks = { checkManifest, checkFiles, checkEsm, checkCjs, checkTypes, checkBundle, checkCommand, checkEverySubpath };
  for (const [name, check] of Object.entries(checks)) {
    await check();
    console.log(`ok: ${name}`);
  }
} finally {
  rmSync(work, { recursive: true, force: true });
}

function install() {
  run('npm', ['pack', '--pack-destination', work], project);
  const [tarball] = readdirSync(work).filter((file) => file.endsWith('.tgz'));
  mkdirSync(consumer);
  writeFileSync(join(consumer, 'package.json'), JSON.stringify({ name: 'consumer', private: true }));
  add(join(work, tarball), `rxjs@${manifest.devDependencies.rxjs}`);
}

function add(...packages) {
  run('npm', ['install', '--prefer-offline', '--no-audit', '--no-fund', ...packages], consumer);
}

/** Nothing is installed beside the package, nothing runs at install, and no model comes along. */
function checkManifest() {
  const packed = readJson(join(installed, 'package.json'));
  for (const field of ['dependencies', 'optionalDependencies', 'bundleDependencies', 'bundledDependencies']) {
    assert.equal(packed[field], undefined, `package.json has \`${field}\``);
  }
  for (const script of ['preinstall', 'install', 'postinstall', 'prepare']) {
    assert.equal(packed.scripts?.[script], undefined, `package.json has the install script \`${script}\``);
  }
  const optional = Object.keys(packed.peerDependencies).filter((name) => !packed.peerDependenciesMeta[name]?.optional);
  assert.deepEqual(optional, ['rxjs'], 'rxjs is the only peer everybody needs');
  const beside = readdirSync(join(consumer, 'node_modules')).filter((name) => !name.startsWith('.'));
  assert.deepEqual(beside.sort(), ['rxjs', 'sluice', 'tslib'], 'the install brought more than rxjs (and its tslib)');
}

function checkFiles() {
  const files = readdirSync(installed, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
  for (const file of files) {
    assert.match(file, /(\.(js|cjs|map|ts|cts|md|json)|LICENSE)$/, `unexpected file in the tarball: ${file}`);
    const text = readFileSync(file, 'utf8');
    assert.ok(!text.includes(project), `${file} contains the path of the machine that built it`);
    if (file.endsWith('.map')) {
      const { sourceRoot = '', sources } = JSON.parse(text);
      for (const source of [sourceRoot, ...sources]) assert.ok(!isAbsolute(source), `${file} names the absolute path ${source}`);
    }
  }
  assert.ok(readFileSync(join(installed, manifest.bin.sluice), 'utf8').startsWith('#!/usr/bin/env node\n'), 'the command has no shebang');
}

/** The same few lines for every module system: the operator works, and both entries hand out the same one. */
function program(assertImport, sluiceImport) {
  return `
    ${assertImport}
    ${sluiceImport}
    const seen = [];
    of(1, 2, 3).pipe(batch({ maxSize: 2 })).subscribe((items) => seen.push(items));
    if (JSON.stringify(seen) !== '[[1,2],[3]]') throw new Error('batch gave ' + JSON.stringify(seen));
    if (batch !== rootBatch) throw new Error('sluice and sluice/operators carry two copies');
    console.log('done');
  `;
}

function esmProgram() {
  return program("import { of } from 'rxjs';", "import { batch } from 'sluice/operators'; import { batch as rootBatch } from 'sluice';");
}

function checkEsm() {
  assert.equal(runProgram('program.mjs', esmProgram()), 'done\n');
}

function checkCjs() {
  const text = program(
    "const { of } = require('rxjs');",
    "const { batch } = require('sluice/operators'); const { batch: rootBatch } = require('sluice');",
  );
  assert.equal(runProgram('program.cjs', text), 'done\n');
}

/** The declarations compile in a strict consumer that does not skip checking libraries. */
function checkTypes() {
  const text = `
    import { of, type Observable } from 'rxjs';
    import { batch } from 'sluice/operators';
    import { batch as rootBatch } from 'sluice';
    export const batches: Observable<number[]> = of(1, 2, 3).pipe(batch({ maxSize: 2 }));
    export const same: typeof batch = rootBatch;
  `;
  writeFileSync(join(consumer, 'consumer.mts'), text);
  writeFileSync(join(consumer, 'consumer.cts'), text);
  const options = ['--noEmit', '--strict', '--skipLibCheck', 'false', '--target', 'es2022', '--lib', 'es2023,dom,esnext.disposable'];
  const tsc = join(project, 'node_modules', 'typescript', 'bin', 'tsc');
  run('node', [tsc, ...options, '--module', 'nodenext', 'consumer.mts', 'consumer.cts'], consumer);
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

/** With the optional peers there, every documented import resolves in both module systems. */
function checkEverySubpath() {
  add(...['zod', 'gpt-tokenizer'].map((peer) => `${peer}@${manifest.devDependencies[peer]}`));
  const names = Object.keys(manifest.exports)
    .filter((path) => path !== './package.json')
    .map((path) => `sluice${path.slice(1)}`);
  const list = JSON.stringify(names);
  runProgram(
    'every.mjs',
    `for (const name of ${list}) if (Object.keys(await import(name)).length === 0) throw new Error(name + ' is empty');`,
  );
  runProgram('every.cjs', `for (const name of ${list}) if (Object.keys(require(name)).length === 0) throw new Error(name + ' is empty');`);
}

function runProgram(name, text) {
  writeFileSync(join(consumer, name), text);
  return run('node', [name], consumer);
}

function run(command, args, cwd) {
  try {
    return execFileSync(command, args, { cwd, env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
  } catch (error) {
    throw new Error(`${command} ${args.join(' ')} failed:\n${error.stdout ?? ''}${error.stderr ?? error.message}`, { cause: error });
  }
}

function readJson(file) {
  return JSON.parse(readFileSync(file, 'utf8'));
}
