import { readdir, readFile, realpath, stat } from 'node:fs/promises';
import { join, relative, resolve, sep } from 'node:path';
import { CliError, EXIT, errorCode } from './exit.js';
import { readTextFile } from './text-file.js';

/** A file the user meant: where it is, and the name the index shows. */
export interface DocumentFile {
  readonly path: string;
  /** Relative to the working folder, with forward slashes. */
  readonly name: string;
}

export interface SkippedFile {
  readonly file: string;
  readonly reason: string;
}

export interface FoundFiles {
  /** Sorted by name, each file once. */
  readonly files: readonly DocumentFile[];
  readonly skipped: readonly SkippedFile[];
}

export interface FindOptions {
  readonly cwd: string;
  /** Absolute paths never taken, for example the index itself. */
  readonly exclude?: readonly string[];
}

/** Larger files are named and skipped. @defaultValue of `--max-file-bytes` */
export const MAX_FILE_BYTES = 64 * 1024 * 1024;

/**
 * Expands files and folders. Folders are walked without `node_modules` and without names that start with a dot; a file or
 * folder given by name is always taken. A file reached twice, over a link for example, is taken once.
 *
 * @throws CliError (exit code 2) when a given path does not exist.
 */
export async function findFiles(paths: readonly string[], options: FindOptions): Promise<FoundFiles> {
  const search = new Search(options);
  for (const path of paths) await search.start(path);
  return search.result();
}

/**
 * Paths from a list file: one per line, blank lines and lines that start with `#` left out. Like paths on the command
 * line they are relative to the working folder, not to the list.
 *
 * @throws CliError (exit code 2) when the list cannot be read or names nothing.
 */
export async function readFileList(list: string, cwd: string): Promise<string[]> {
  const text = await readTextFile(resolve(cwd, list), `the list \`${list}\``);
  const paths = text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#'));
  if (paths.length === 0) throw new CliError(EXIT.usage, `the list \`${list}\` names no files`);
  return paths;
}

/** The text of a file, or why it is not one. */
export async function readDocument(file: DocumentFile, maxBytes = MAX_FILE_BYTES): Promise<{ text: string } | { reason: string }> {
  try {
    const found = await stat(file.path);
    // A pipe would be waited for without end, and a device read.
    if (!found.isFile()) return { reason: found.isDirectory() ? 'a folder that cannot be read' : 'neither a file nor a folder' };
    if (found.size > maxBytes) return { reason: `larger than ${String(maxBytes)} bytes (\`--max-file-bytes\`)` };
    return textOf(await readFile(file.path));
  } catch (error) {
    return { reason: reasonOf(error) };
  }
}

function textOf(bytes: Buffer): { text: string } | { reason: string } {
  if (bytes.includes(0)) return { reason: 'binary (contains NUL bytes)' };
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return { reason: 'not UTF-8 text' };
  }
  return text.trim() === '' ? { reason: 'empty' } : { text };
}

/**
 * The files of a folder by the rules of {@link findFiles}, in the order of their names, one folder's names in memory at a time. A file that is
 * reached over two links is taken twice; a folder is not.
 *
 * @param exclude absolute paths that are never taken, of folders without links.
 */
export async function* walkFolder(folder: string, exclude: ReadonlySet<string>): AsyncGenerator<DocumentFile, void, undefined> {
  const open = new Set<string>();
  async function* walk(path: string): AsyncGenerator<DocumentFile, void, undefined> {
    const real = await realpath(path);
    // A link back to where we come from.
    if (open.has(real)) return;
    open.add(real);
    for (const name of await visibleNames(path)) {
      if (exclude.has(join(real, name))) continue;
      const inside = join(path, name);
      const found = await stat(inside).catch(() => undefined);
      if (found?.isDirectory() === true) yield* walk(inside);
      // What cannot be read is said by whoever reads it.
      else yield { path: inside, name: nameIn(folder, inside) };
    }
    open.delete(real);
  }
  yield* walk(folder);
}

async function visibleNames(folder: string): Promise<string[]> {
  const names = await readdir(folder);
  return names.filter((name) => name !== 'node_modules' && !name.startsWith('.')).sort(compare);
}

function nameIn(folder: string, path: string): string {
  return relative(folder, path).split(sep).join('/') || '.';
}

class Search {
  readonly #cwd: string;
  readonly #exclude: ReadonlySet<string>;
  readonly #files: DocumentFile[] = [];
  readonly #skipped: SkippedFile[] = [];
  /** Real paths, so that links can neither loop nor double a file. */
  readonly #seen = new Set<string>();

  constructor(options: FindOptions) {
    this.#cwd = options.cwd;
    this.#exclude = new Set(options.exclude);
  }

  async start(path: string): Promise<void> {
    const absolute = resolve(this.#cwd, path);
    try {
      await stat(absolute);
    } catch (error) {
      throw new CliError(EXIT.usage, `cannot index \`${path}\`: ${reasonOf(error)}`, error);
    }
    await this.#take(absolute);
  }

  result(): FoundFiles {
    const byName =
      <T>(name: (item: T) => string) =>
      (a: T, b: T) =>
        compare(name(a), name(b));
    return {
      files: this.#files.sort(byName((file) => file.name)),
      skipped: this.#skipped.sort(byName((file) => file.file)),
    };
  }

  async #take(path: string): Promise<void> {
    if (this.#exclude.has(path)) return;
    try {
      const real = await realpath(path);
      if (this.#seen.has(real)) return;
      this.#seen.add(real);
      const found = await stat(real);
      if (found.isDirectory()) await this.#walk(path);
      else if (found.isFile()) this.#files.push({ path, name: this.#name(path) });
      else this.#skip(path, 'neither a file nor a folder');
    } catch (error) {
      this.#skip(path, reasonOf(error));
    }
  }

  async #walk(folder: string): Promise<void> {
    for (const name of await visibleNames(folder)) await this.#take(join(folder, name));
  }

  #skip(path: string, reason: string): void {
    this.#skipped.push({ file: this.#name(path), reason });
  }

  #name(path: string): string {
    return nameIn(this.#cwd, path);
  }
}

/** By UTF-16 code units: the same order on every machine, whatever its language. */
export function compare(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

function reasonOf(error: unknown): string {
  const code = errorCode(error);
  if (code === 'ENOENT') return 'no such file or folder';
  if (code === 'EACCES' || code === 'EPERM') return 'permission denied';
  if (code === 'ELOOP') return 'a link that leads back to itself';
  return code ?? 'not readable';
}
