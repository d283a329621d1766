// Prints the path of a redis-server for the tests of `sluice/redis`: the one REDIS_SERVER_PATH names, or one that is installed. Where there is none, it
// installs Debian's, if it may. No service is left running: tests start servers of their own.
//   node .ci/redis.mjs
import { execFileSync } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';

const names = ['redis-server', 'valkey-server'];
const advice = "install Debian's package `redis-server`, or set REDIS_SERVER_PATH to the executable of a Redis 7 or Valkey";
const startLimitMs = 30_000;
const installLimitMs = 15 * 60_000;

try {
  const path = process.env.REDIS_SERVER_PATH || installed() || install();
  if (!runs(path, ['--version'])) throw new Error(`\`${path}\` does not start; ${advice}`);
  console.log(path);
} catch (error) {
  console.error(`The tests of sluice/redis need redis-server: ${error.message}`);
  process.exitCode = 1;
}

function installed() {
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
function install() {
  const asRoot = rootCommand();
  if (asRoot === undefined || !runs('apt-get', ['--version'])) throw new Error(`none is installed here; ${advice}`);
  console.error('Installing redis-server with apt-get, once; this takes some seconds.');
  const steps = [
    `for name in ${names.join(' ')}; do if command -v "$name"; then exit 0; fi; done`,
    'export DEBIAN_FRONTEND=noninteractive',
    // The package starts a service on port 6379 otherwise.
    'policy=/usr/sbin/policy-rc.d',
    `if [ ! -e "$policy" ]; then trap 'rm -f "$policy"' EXIT; printf '#!/bin/sh\\nexit 101\\n' > "$policy"; chmod 755 "$policy"; fi`,
    // Lists may be missing or too old to be of use; packages that are there can be enough.
    'apt-get update || true',
    'apt-get install -y --no-install-recommends -o DPkg::Lock::Timeout=300 redis-server || exit 1',
    // Nor at the next start of the machine.
    'if command -v systemctl; then systemctl disable redis-server || true; fi',
  ];
  const [command, ...before] = [...asRoot, 'flock', '/tmp/sluice-redis.lock', 'sh', '-c', steps.join('\n')];
  try {
    // What apt-get says goes to stderr: stdout is for the path.
    execFileSync(command, before, { stdio: ['ignore', 2, 2], timeout: installLimitMs });
  } catch {
    throw new Error(`apt-get could not install it; ${advice}`);
  }
  const path = installed();
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
