import type { Stats } from 'node:fs';
import { access, constants, stat } from 'node:fs/promises';
import { dirname, relative, resolve } from 'node:path';
import type { Config, StageConfig } from '../../edge/config/schema.js';
import { diskError, errorCode } from '../../journal/file-error.js';
import { LineFile } from '../../journal/line-file.js';
import { takeLock } from '../../journal/lock.js';
import { identityOf } from '../../journal/same-file.js';
import { type Host, pathOf } from '../host.js';
import { refuseForeignFile } from '../own-file.js';
import type { RunProblem } from './run-problem.js';

/** What a run writes; absolute. */
export interface RunPaths {
  readonly output: string;
  readonly failures: string;
  readonly journal: string;
  readonly lock: string;
  readonly failuresLock: string;
  readonly budget: string;
  /** What stood in the output before the stages changed. */
  readonly before: string;
  /** That, while it is copied. */
  readonly newBefore: string;
  /** Where no stage keeps its answers, there are neither of these. */
  readonly cache?: string;
  readonly cacheLock?: string;
}

/** Whether equal requests of a stage are asked once. */
export function isCached({ prompt, cache }: StageConfig, model: Config['model']): boolean {
  return prompt !== undefined && (cache ?? (model?.cache ?? false) !== false);
}

/** What the user calls the file of answers; undefined when no stage keeps its answers. */
export function shownCache({ stages = [], model, output }: Config): string | undefined {
  if (!stages.some((stage) => isCached(stage, model))) return undefined;
  return typeof model?.cache === 'object' ? model.cache.path : `${output?.path ?? ''}.cache`;
}

/**
 * @param folder that of the configuration, absolute.
 * @param cacheName as {@link shownCache} says.
 */
export function runPaths({ path, failures }: NonNullable<Config['output']>, folder: string, cacheName?: string): RunPaths {
  const output = resolve(folder, path);
  const cache = cacheName === undefined ? undefined : resolve(folder, cacheName);
  const failed = failures === undefined ? `${output}.failures.jsonl` : resolve(folder, failures);
  return {
    output,
    failures: failed,
    failuresLock: `${failed}.lock`,
    journal: `${output}.journal`,
    lock: `${output}.lock`,
    budget: `${output}.budget`,
    before: `${output}.before`,
    newBefore: `${output}.before.tmp`,
    ...(cache !== undefined && { cache, cacheLock: `${cache}.lock` }),
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
  /** Of a file that is written anew: how it begins when it is ours. */
  readonly mark?: { readonly begins: string; readonly kind: string; readonly shown: string };
}

/** How every line of an events file begins. */
const EVENT_MARK = '{"type":"';
/** How every summary begins. */
const SUMMARY_MARK = '{\n  "exitCode": ';

/** Lets a file pass that nothing would be lost of. @throws CliError (exit code 2) when it is not ours. */
export async function refuseForeign({ path, mark }: Pick<RunFile, 'path' | 'mark'>): Promise<void> {
  if (mark !== undefined) await refuseForeignFile(path, mark.shown, mark.begins, mark.kind);
}

/** The events of a run. */
export function eventsFile(path: string, shown: string): RunFile {
  const mark = { begins: EVENT_MARK, kind: 'a file of events', shown };
  return { what: `the events \`${shown}\``, path, option: '--events', isOwn: true, mark };
}

/** What the command line names. */
export interface RunFileFlags {
  readonly events?: string;
  /** True for standard output. */
  readonly json?: string | true;
}

/** All files that a run reads or writes, as far as a configuration and the command line say. */
export function filesOf(given: Config, file: string, host: Pick<Host, 'cwd'>, { events, json }: RunFileFlags = {}): RunFile[] {
  const { input, output } = given;
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
    files.push(beside('the output before', '.before'), beside('the new output before', '.before.tmp'));
    if (output.failures === undefined)
      files.push(beside('the failures', '.failures.jsonl'), beside('the failures lock', '.failures.jsonl.lock'));
    else {
      const named = { option: 'output.failures', isOwn: true };
      files.push({ ...named, what: `the failures \`${output.failures}\``, path: paths.failures });
      files.push({ ...named, what: `the failures lock \`${output.failures}.lock\``, path: paths.failuresLock });
    }
    const cache = shownCache(given);
    if (cache !== undefined) {
      const named = { option: typeof given.model?.cache === 'object' ? 'model.cache.path' : 'output.path', isOwn: true };
      files.push({ ...named, what: `the cache \`${cache}\``, path: resolve(folder, cache) });
      files.push({ ...named, what: `the cache lock \`${cache}.lock\``, path: resolve(folder, `${cache}.lock`) });
    }
  }
  if (events !== undefined) files.push(eventsFile(pathOf(host, events), events));
  if (typeof json === 'string') {
    const mark = { begins: SUMMARY_MARK, kind: 'a summary', shown: json };
    files.push({ what: `the summary \`${json}\``, path: pathOf(host, json), option: '--json', isOwn: false, mark });
  }
  return files;
}

/** What is wrong with the files of a run, and by which option; undefined when nothing is. */
export async function faultOf(files: readonly RunFile[]): Promise<RunProblem | undefined> {
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
    const unwritable = isOwn || file.mark !== undefined ? await unwritableFault(file, found) : undefined;
    if (unwritable !== undefined) return unwritable;
  }
  return undefined;
}

/** Why a file cannot be written, as far as that is known without writing it. */
async function unwritableFault({ what, path, option }: RunFile, found: Stats | undefined): Promise<RunProblem | undefined> {
  try {
    if (found !== undefined) await access(path, constants.W_OK);
    else if (option.startsWith('output.')) await access(await nearestFolder(path), constants.W_OK | constants.X_OK);
    else await access(`${dirname(path)}/`, constants.W_OK | constants.X_OK);
    return undefined;
  } catch (error) {
    const { message } = diskError(`write ${what}`, error);
    return { path: option, expected: 'a file that can be written', got: errorCode(error) ?? '', message };
  }
}

/** The folder in which missing folders of a file would be created, with a slash behind it: a file in its place is none. */
async function nearestFolder(path: string): Promise<string> {
  const folder = dirname(path);
  const isThere = folder === path || (await stat(folder).then(Boolean, () => false));
  return isThere ? `${folder}/` : nearestFolder(folder);
}

function kindOf(found: Stats): string {
  if (found.isDirectory()) return 'a folder';
  if (found.isFIFO()) return 'a pipe';
  return found.isSocket() ? 'a socket' : 'a device';
}

/** Keeps other runs from the files of this one. @returns gives them free again */
export async function takeLocks({ lock, failuresLock, cacheLock }: RunPaths): Promise<() => Promise<void>> {
  const taken: (() => Promise<void>)[] = [];
  const release = async (): Promise<void> => {
    await Promise.all(taken.map((each) => each()));
  };
  const locks = [[lock, 'output'], [failuresLock, 'file of failures'], ...(cacheLock === undefined ? [] : [[cacheLock, 'cache']])] as const;
  try {
    for (const [path = '', what = ''] of locks) taken.push(await takeLock(path, what));
    return release;
  } catch (error) {
    await release();
    throw error;
  }
}

/** The file for events, where the user has named one. */
export async function openEvents(events: { readonly path: string; readonly shown: string } | undefined): Promise<LineFile | undefined> {
  if (events === undefined) return undefined;
  const file = eventsFile(events.path, events.shown);
  await refuseForeign(file);
  return LineFile.open(file.path, file.what, 0);
}
