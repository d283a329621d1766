// Prints the path of tmux, for the test of the live view in a real terminal: the one TMUX_PATH names, or one that is installed. Where there is
// none, it installs Debian's, if it may.
//   node .ci/tmux.mjs
import { execFileSync } from 'node:child_process';

const found = process.env.TMUX_PATH || which() || install();
if (found === undefined) {
  console.error("The test of the live view needs tmux: install Debian's package `tmux`, or set TMUX_PATH");
  process.exitCode = 1;
} else console.log(found);

function which() {
  return runs('sh', ['-c', 'command -v tmux'])?.trim();
}

/** What apt-get says goes nowhere: stdout is for the path. Two runs may find it missing at the same time: the second waits. */
function install() {
  const asRoot = process.getuid?.() === 0 ? [] : ['sudo', '-n'];
  const steps = 'apt-get update || true; exec apt-get install -y --no-install-recommends -o DPkg::Lock::Timeout=300 tmux';
  const [command, ...args] = [...asRoot, 'flock', '/tmp/sluice-tmux.lock', 'sh', '-c', `command -v tmux || { ${steps}; }`];
  return runs(command, args) === undefined ? undefined : which();
}

function runs(command, args) {
  try {
    return execFileSync(command, args, {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
      timeout: 10 * 60_000,
      env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
    });
  } catch {
    return undefined;
  }
}
