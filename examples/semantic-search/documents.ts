import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { type Passage, passagesOf } from './passages.js';

export interface Corpus {
  readonly passages: readonly Passage[];
  /** Files without text that can be embedded. */
  readonly skipped: readonly { readonly file: string; readonly reason: string }[];
}

/**
 * Reads documents and cuts them into passages. Of a folder it takes `.md` and `.txt` files, without `node_modules`, links and names that start
 * with a dot; a file that is named itself is always taken.
 *
 * @throws Error when a path does not exist, or no file has text.
 */
export async function readCorpus(paths: readonly string[]): Promise<Corpus> {
  const files = new Set<string>();
  for (const path of paths) for await (const file of filesAt(path)) files.add(file);
  const passages: Passage[] = [];
  const skipped: { file: string; reason: string }[] = [];
  for (const file of [...files].sort()) {
    try {
      passages.push(...passagesOf(file, textOf(await readFile(file))));
    } catch (error) {
      skipped.push({ file, reason: (error as Error).message });
    }
  }
  if (passages.length === 0) throw new Error(`no text found in: ${paths.join(', ')}`);
  return { passages, skipped };
}

/** Paths from a file with one path per line; lines that start with `#` are comments. */
export async function readList(list: string): Promise<string[]> {
  const lines = (await readFile(list, 'utf8')).split('\n').map((line) => line.trim());
  return lines.filter((line) => line !== '' && !line.startsWith('#'));
}

async function* filesAt(path: string): AsyncGenerator<string> {
  const found = await stat(path);
  if (found.isDirectory()) yield* filesIn(path);
  else if (found.isFile()) yield path;
  else throw new Error(`\`${path}\` is neither a file nor a folder`);
}

async function* filesIn(folder: string): AsyncGenerator<string> {
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    if (entry.name === 'node_modules' || entry.name.startsWith('.')) continue;
    if (entry.isDirectory()) yield* filesIn(join(folder, entry.name));
    else if (entry.isFile() && /\.(?:md|txt)$/i.test(entry.name)) yield join(folder, entry.name);
  }
}

function textOf(bytes: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new Error('not UTF-8 text');
  }
}
