// Throw-away projects outside the repository, in which the package is used as people use it: packed and installed.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, isAbsolute, join, resolve } from 'node:path';

export const project = resolve(import.meta.dirname, '..');
export const manifest = readJson(join(project, 'package.json'));

/** What every import path of the package is called by its users. */
export const entryPoints = Object.keys(manifest.exports)
  .filter((path) => path !== './package.json')
  .map((path) => `${manifest.name}${path.slice(1)}`);

// `npm run` hands its own settings down to the npm calls made here; those of the caller's project do not apply to the consumer.
const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^npm_(package|lifecycle)_/.test(name)));

/** Runs a check in a new folder, which is gone afterwards. */
export async function inThrowAwayFolder(name, check) {
  const folder = mkdtempSync(join(tmpdir(), `sluice-${name}-`));
  try {
    await check(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/**
 * Packs the package and tells where the tarball is. `isBuilt`: what stands in `dist` is packed, without building it again; in a run of all checks it
 * was packed when it was built.
 */
export function pack(folder, { isBuilt }) {
  const kept = process.env['SLUICE_INSTALLS'];
  const name = `${manifest.name}-${manifest.version}.tgz`;
  const tarball = join(folder, name);
  if (isBuilt && kept && existsSync(join(kept, name))) {
    copyFileSync(join(kept, name), tarball);
    return tarball;
  }
  run('npm', ['pack', '--pack-destination', folder, ...(isBuilt ? ['--ignore-scripts'] : [])], project);
  if (!isBuilt && kept) copyFileSync(tarball, join(kept, name));
  return tarball;
}

/** Makes a project with these packages in it, each given as npm takes it. In a run of all checks, the others get what one has installed: none may change a file of it. */
export function install(folder, ...packages) {
  const kept = process.env['SLUICE_INSTALLS'];
  if (!kept) {
    installInto(folder, packages);
    return;
  }
  const names = packages.map((name) => (isAbsolute(name) ? basename(name) : name)).join('\n');
  const copy = join(kept, createHash('sha256').update(names).digest('hex'));
  const lock = `${copy}.lock`;
  while (!existsSync(copy) && !claims(lock)) sleep(500);
  if (!existsSync(copy)) {
    try {
      installInto(`${copy}.made`, packages);
      renameSync(`${copy}.made`, copy);
    } finally {
      // After a failure, the next one tries it.
      rmSync(`${copy}.made`, { recursive: true, force: true });
      rmdirSync(lock);
    }
  }
  mkdirSync(folder, { recursive: true });
  for (const file of ['package.json', 'package-lock.json']) copyFileSync(join(copy, file), join(folder, file));
  // Linked files are there at once. What npm has written down of them stays behind: it would write the next list into the file that all share.
  run('cp', [process.platform === 'linux' ? '-al' : '-R', join(copy, 'node_modules'), folder]);
  rmSync(join(folder, 'node_modules', '.package-lock.json'), { force: true });
}

function installInto(folder, packages) {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ name: 'consumer', private: true }));
  add(folder, ...packages);
}

/** True when this process created the folder, false when another process holds it. */
function claims(lock) {
  try {
    mkdirSync(lock);
    return true;
  } catch {
    return false;
  }
}

function sleep(ms) {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

/** Says what is wrong also below an `npm run --silent`. */
export function add(folder, ...packages) {
  run('npm', ['install', '--loglevel=error', '--prefer-offline', '--no-audit', '--no-fund', ...packages], folder);
}

/** Dependencies of this project in the versions it is developed with. */
export function pinned(...names) {
  return names.map((name) => `${name}@${manifest.devDependencies[name]}`);
}

/** What checks install beside the package that use all of it: the same in each, so that one install serves all. */
export const allBeside = pinned('rxjs', ...Object.keys(manifest.supportedPeers), '@types/node', '@ai-sdk/openai');

/** The output of a command; an error with all it printed when it fails. */
export function run(command, args, cwd, settings = {}) {
  try {
    return execFileSync(command, args, {
      cwd,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
      ...settings,
      env: { ...env, ...settings.env },
    });
  } catch (error) {
    throw new Error(`${command} ${args.join(' ')} failed:\n${error.stdout ?? ''}${error.stderr ?? error.message}`, { cause: error });
  }
}

export function readJson(file) {
  return JSON.parse(readFileSync(file, 'utf8'));
}

/** Runs named checks one after another and prints a line for each; those that fail say why and make the command fail. */
export async function report(checks) {
  for (const [name, check] of checks) {
    const startedMs = performance.now();
    try {
      const details = await check();
      const seconds = ((performance.now() - startedMs) / 1000).toFixed(1);
      console.log(`ok   ${name}${typeof details === 'string' ? `: ${details}` : ''} (${seconds} s)`);
    } catch (error) {
      console.log(`FAIL ${name}\n${error.message}`);
      process.exitCode = 1;
    }
  }
}
