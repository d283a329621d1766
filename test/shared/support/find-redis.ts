import { execFileSync } from 'node:child_process';
import { resolve } from 'node:path';

const script = resolve(import.meta.dirname, '../../../.ci/redis.mjs');

/** Runs before the first test: to install a Redis takes longer than a test may. Where that fails, the tests that need it say so. */
export function setup(): void {
  try {
    process.env['REDIS_SERVER_PATH'] = execFileSync(process.execPath, [script], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    }).trim();
  } catch {
    delete process.env['REDIS_SERVER_PATH'];
  }
}
