import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { build } from 'esbuild';

const CACHE = resolve(import.meta.dirname, '../../node_modules/.cache');

/** What is counted: the set-up is not, what it returns is. */
export type Scenario = () => () => void;

/**
 * Counts the steps of each scenario that a file exports as `scenarios`: how often V8 enters a block of its code, and the elements that
 * array methods walk over. The numbers do not depend on the machine, so they may be compared where times may not.
 *
 * In a process of its own, because there is one counter for all.
 */
export async function stepsOf(file: string): Promise<Readonly<Record<string, number>>> {
  await mkdir(CACHE, { recursive: true });
  const dir = await mkdtemp(join(CACHE, 'steps-'));
  const outfile = join(dir, 'counted.mjs');
  try {
    await build({
      stdin: {
        contents: `import { scenarios } from ${JSON.stringify(file)};
import { countSteps } from ${JSON.stringify(join(import.meta.dirname, 'steps-child.ts'))};
console.log(JSON.stringify(await countSteps(scenarios, import.meta.url)));`,
        resolveDir: import.meta.dirname,
      },
      bundle: true,
      format: 'esm',
      platform: 'node',
      target: 'es2022',
      packages: 'external',
      outfile,
    });
    // Without the variable: a coverage run would count too.
    const { NODE_V8_COVERAGE: _none, ...env } = process.env;
    const { stdout } = await promisify(execFile)(process.execPath, [outfile], { env });
    return JSON.parse(stdout) as Record<string, number>;
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}
