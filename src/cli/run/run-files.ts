import type { Stats } from 'node:fs';
import { stat } from 'node:fs/promises';
import { dirname, relative, resolve } from 'node:path';
import type { ConfigProblem } from '../../edge/config/problems.js';
import type { Config } from '../../edge/config/schema.js';
import { takeLock } from '../../journal/lock.js';
import { identityOf } from '../../journal/same-file.js';
import { type Host, pathOf } from '../host.js';

/** What a run writes; absolute. */
export interface RunPaths {
  readonly output: string;
  readonly failures: string;
  readonly journal: string;
  readonly lock: string;
  readonly failuresLock: string;
  readonly budget: string;
}

/** @param folder that of the configuration, absolute. */
export function runPaths({ path, failures }: NonNullable<Config['output']>, folder: string): RunPaths {
  const output = resolve(folder, path);
  const failed = failures === undefined ? `${output}.failures.jsonl` : resolve(folder, failures);
  return {
    output,
    failures: failed,
    failuresLock: `${failed}.lock`,
    journal: `${output}.journal`,
    lock: `${output}.lock`,
    budget: `${output}.budget`,
  };
}

/** Of which output these are the failures, as each of their lines says; undefined where their name says it. */
export function ownerOf({ output, failures }: Pick<RunPaths, 'output' | 'failures'>): string | undefined {
  return failures === `${output}.failures.jsonl` ? undefined : relative(dirname(failures), output);
}

/** A file that a run works with. */
export interface RunFile {
  /** What it is, and what the user calls it: "the journal `out.jsonl.journal`". */
  readonly what: string;
  /** Absolute. */
  readonly path: string;
  /** By which option it has its name. */
  readonly option: string;
  /** Whether the run writes it line by line, and may read it again. */
  readonly isOwn: boolean;
}

/** What the command line names. */
export interface RunFileFlags {
  readonly events?: string;
  /** True for standard output. */
  readonly json?: string | true;
}

/** All files that a run reads or writes, as far as a configuration and the command line say. */
export function filesOf({ input, output }: Config, file: string, host: Pick<Host, 'cwd'>, { events, json }: RunFileFlags = {}): RunFile[] {
  const config = pathOf(host, file);
  const folder = dirname(config);
  const files: RunFile[] = [{ what: `the configuration \`${file}\``, path: config, option: '', isOwn: false }];
  if (input !== undefined)
    files.push({ what: `the input \`${input.path}\``, path: resolve(folder, input.path), option: 'input.path', isOwn: false });
  if (output !== undefined) {
    const paths = runPaths(output, folder);
    const beside = (what: string, end: string): RunFile => ({
      what: `${what} \`${output.path}${end}\``,
      path: `${paths.output}${end}`,
      option: 'output.path',
      isOwn: true,
    });
    files.push(beside('the output', ''), beside('the journal', '.journal'), beside('the lock', '.lock'));
    files.push(beside('the budget', '.budget'), beside('the new budget', '.budget.tmp'));
    if (output.failures === undefined)
      files.push(beside('the failures', '.failures.jsonl'), beside('the failures lock', '.failures.jsonl.lock'));
    else {
      const named = { option: 'output.failures', isOwn: true };
      files.push({ ...named, what: `the failures \`${output.failures}\``, path: paths.failures });
      files.push({ ...named, what: `the failures lock \`${output.failures}.lock\``, path: paths.failuresLock });
    }
  }
  if (events !== undefined) files.push({ what: `the events \`${events}\``, path: pathOf(host, events), option: '--events', isOwn: true });
  if (typeof json === 'string') files.push({ what: `the summary \`${json}\``, path: pathOf(host, json), option: '--json', isOwn: false });
  return files;
}

/** What is wrong with the files of a run, and by which option; undefined when nothing is. */
export async function faultOf(files: readonly RunFile[]): Promise<Omit<ConfigProblem, 'line' | 'column'> | undefined> {
  const seen = new Map<string, RunFile>();
  for (const file of files) {
    const { what, path, option, isOwn } = file;
    const identity = await identityOf(path);
    const same = seen.get(identity);
    if (same !== undefined) {
      const message = `${same.what} and ${what} are one file. Rename one of them.`;
      return { path: option, expected: 'a file of its own', got: same.what, message };
    }
    seen.set(identity, file);
    const found = await stat(path).catch(() => undefined);
    // A pipe would be waited for without end, and a device has no lines to go on behind.
    if (isOwn && found?.isFile() === false) {
      const got = kindOf(found);
      return { path: option, expected: 'a file', got, message: `${what} is ${got}, not a file to write to` };
    }
  }
  return undefined;
}

function kindOf(found: Stats): string {
  if (found.isDirectory()) return 'a folder';
  if (found.isFIFO()) return 'a pipe';
  return found.isSocket() ? 'a socket' : 'a device';
}

/** Keeps other runs from the files of this one. @returns gives them free again */
export async function takeLocks({ lock, failuresLock }: RunPaths): Promise<() => Promise<void>> {
  const release = await takeLock(lock, 'output');
  try {
    const releaseFailures = await takeLock(failuresLock, 'file of failures');
    return () => releaseFailures().finally(release);
  } catch (error) {
    await release();
    throw error;
  }
}
