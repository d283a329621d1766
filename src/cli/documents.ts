import { readdir, readFile, realpath, stat } from 'node:fs/promises';
import { join, relative, sep } from 'node:path';
import { errorCode } from '../journal/file-error.js';

/** A file of a folder. */
export interface DocumentFile {
  readonly path: string;
  /** Relative to the folder, with forward slashes. */
  readonly name: string;
}

/** Larger files are skipped. */
const MAX_FILE_BYTES = 64 * 1024 * 1024;

/** The text of a file, or why it is not one. */
export async function readDocument(file: DocumentFile, maxBytes = MAX_FILE_BYTES): Promise<{ text: string } | { reason: string }> {
  try {
    const found = await stat(file.path);
    // A pipe would be waited for without end, and a device read.
    if (!found.isFile()) return { reason: found.isDirectory() ? 'a folder that cannot be read' : 'neither a file nor a folder' };
    if (found.size > maxBytes) return { reason: `larger than ${String(maxBytes)} bytes` };
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
 * The files of a folder and of those inside it, in the order of their names, without `node_modules` and names that start with a dot; one folder's
 * names are in memory at a time. A file that is reached over two links is taken twice; a folder is not.
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

/** By UTF-16 code units: the same order on every machine, whatever its language. */
function compare(a: string, b: string): number {
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
