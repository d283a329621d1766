import type { Stats } from 'node:fs';
import { stat } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import type { Config } from '../../edge/config/schema.js';
import { CliError, EXIT } from '../exit.js';
import { type Host, pathOf } from '../host.js';

/** What a run writes; absolute. */
export interface RunPaths {
  readonly output: string;
  readonly failures: string;
  readonly journal: string;
  readonly lock: string;
  readonly budget: string;
}

/** @param folder that of the configuration, absolute. */
export function runPaths({ path, failures }: NonNullable<Config['output']>, folder: string): RunPaths {
  const output = resolve(folder, path);
  return {
    output,
    failures: failures === undefined ? `${output}.failures.jsonl` : resolve(folder, failures),
    journal: `${output}.journal`,
    lock: `${output}.lock`,
    budget: `${output}.budget`,
  };
}

/** A file that a run works with. */
export interface RunFile {
  /** What it is, and what the user calls it: "the journal `out.jsonl.journal`". */
  readonly what: string;
  /** Absolute. */
  readonly path: string;
}

/** Where events go, on the command line. */
export interface RunFileFlags {
  readonly events?: string | undefined;
}

/** All files that a run writes line by line. */
export function ownFiles({ output }: Config, file: string, host: Pick<Host, 'cwd'>, { events }: RunFileFlags): RunFile[] {
  const own: RunFile[] = [];
  if (output !== undefined) {
    const { path, failures = `${path}.failures.jsonl` } = output;
    const paths = runPaths(output, dirname(pathOf(host, file)));
    own.push(
      { what: `the output \`${path}\``, path: paths.output },
      { what: `the failures \`${failures}\``, path: paths.failures },
      { what: `the journal \`${path}.journal\``, path: paths.journal },
      { what: `the lock \`${path}.lock\``, path: paths.lock },
      { what: `the budget \`${path}.budget\``, path: paths.budget },
    );
  }
  if (events !== undefined) own.push({ what: `the events \`${events}\``, path: pathOf(host, events) });
  return own;
}

/** A pipe would be waited for without end, and a device has no lines to go on behind. @throws CliError (exit code 2) where one of them is none. */
export async function refuseSpecialFiles(files: readonly RunFile[]): Promise<void> {
  for (const { what, path } of files) {
    const found = await stat(path).catch(() => undefined);
    if (found?.isFile() === false) throw new CliError(EXIT.usage, `${what} is ${kindOf(found)}, not a file to write to`);
  }
}

function kindOf(found: Stats): string {
  if (found.isDirectory()) return 'a folder';
  if (found.isFIFO()) return 'a pipe';
  return found.isSocket() ? 'a socket' : 'a device';
}
