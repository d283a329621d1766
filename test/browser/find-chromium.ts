import { execFileSync } from 'node:child_process';
import { resolve } from 'node:path';

const script = resolve(import.meta.dirname, '../../.ci/chromium.mjs');

/** Runs before the first browser test, and not at all without one: finds a Chromium, or installs it. */
export function setup(): void {
  process.env['CHROMIUM_PATH'] = execFileSync(process.execPath, [script], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  }).trim();
}
