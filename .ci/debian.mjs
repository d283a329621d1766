// A program that tests need: the one an environment variable names, or one that is installed; where there is none, Debian's package is installed.
import { execFileSync } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';

const startLimitMs = 30_000;
const installLimitMs = 15 * 60_000;

/**
 * Prints the path of the program, or says why there is none and sets the exit code.
 *
 * @param use - `variable` of the environment, `names` of the program, Debian's package `debian`, what needs it (`needs`), what else the variable may name
 * (`orSet`), what makes it say its version (`asked`), and shell steps `before` and `after` the installation
 */
export function printProgram({ variable, names, debian, needs, orSet, asked = '--version', before = [], after = [] }) {
  const advice = `install Debian's package \`${debian}\`, or set ${variable} to ${orSet}`;
  try {
    const path = process.env[variable] || installed(names) || install({ names, debian, advice, before, after });
    if (!runs(path, [asked])) throw new Error(`\`${path}\` does not start; ${advice}`);
    console.log(path);
  } catch (error) {
    console.error(`${needs} ${debian}: ${error.message}`);
    process.exitCode = 1;
  }
}

function installed(names) {
  const folders = [...(process.env.PATH ?? '').split(delimiter), '/usr/bin'].filter((folder) => folder !== '');
  return names.flatMap((name) => folders.map((folder) => join(folder, name))).find(isExecutable);
}

function isExecutable(path) {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Two runs may find it missing at the same time: the second waits, and finds it installed. */
function install({ names, debian, advice, before, after }) {
  const asRoot = rootCommand();
  if (asRoot === undefined || !runs('apt-get', ['--version'])) throw new Error(`none is installed here; ${advice}`);
  console.error(`Installing ${debian} with apt-get, once; this takes up to two minutes.`);
  const steps = [
    `for name in ${names.join(' ')}; do if command -v "$name"; then exit 0; fi; done`,
    'export DEBIAN_FRONTEND=noninteractive',
    ...before,
    // Lists may be missing or too old to be of use; packages that are there can be enough.
    'apt-get update || true',
    `apt-get install -y --no-install-recommends -o DPkg::Lock::Timeout=300 ${debian} || exit 1`,
    ...after,
  ];
  const [command, ...given] = [...asRoot, 'flock', `/tmp/sluice-${debian}.lock`, 'sh', '-c', steps.join('\n')];
  try {
    // What apt-get says goes to stderr: stdout is for the path.
    execFileSync(command, given, { stdio: ['ignore', 2, 2], timeout: installLimitMs });
  } catch {
    throw new Error(`apt-get could not install it; ${advice}`);
  }
  const path = installed(names);
  if (path === undefined) throw new Error(`apt-get installed none; ${advice}`);
  return path;
}

/** What to put before a command that needs root; undefined when we may not be root. */
function rootCommand() {
  if (process.getuid?.() === 0) return [];
  return runs('sudo', ['-n', 'true']) ? ['sudo', '-n'] : undefined;
}

function runs(command, args) {
  try {
    execFileSync(command, args, { stdio: 'ignore', timeout: startLimitMs });
    return true;
  } catch {
    return false;
  }
}
