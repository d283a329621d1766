import { createHash } from 'node:crypto';
import { open, rename, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { checkJson } from '../edge/check.js';
import { type IndexHeader, indexChunkSchema, indexFooterSchema, indexHeaderSchema } from '../edge/index-lines.js';
import type { Chunk } from './chunks.js';
import { CliError, EXIT, errorCode, onDisk } from './exit.js';
import { readLines } from './lines.js';
import { modeAt, OWN_FILE_MODE } from './own-file.js';
import { decodeVector, encodeVector } from './vectors.js';

export interface IndexEntry extends Chunk {
  readonly vector: Float32Array;
}

export interface IndexContent {
  readonly model: string;
  /** Documents the passages come from. */
  readonly documents: number;
  readonly entries: readonly IndexEntry[];
}

const WRITE_BYTES = 1 << 20;

/** How every index begins, whatever its version. */
export const INDEX_MARK = '{"format":"sluice-index",';

/**
 * Writes an index: a header line, one line per passage, and a footer line with a SHA-256 over everything before it. The
 * same content always gives the same bytes. The file appears under its name only when it is complete and on disk.
 *
 * @throws CliError (exit code 4) when the disk refuses; an index that was there before is left as it was.
 */
export async function writeIndex(path: string, content: IndexContent): Promise<void> {
  const temporary = join(dirname(path), `.${basename(path)}.${String(process.pid)}.tmp`);
  await onDisk(`write the index \`${path}\``, async () => {
    try {
      await writeAndSync(temporary, indexLines(content), await modeAt(path));
      await rename(temporary, path);
    } catch (error) {
      await rm(temporary, { force: true });
      throw error;
    }
    await syncFolder(dirname(path));
  });
}

function* indexLines({ model, documents, entries }: IndexContent): Generator<string> {
  const hash = createHash('sha256');
  const dimensions = entries[0]?.vector.length ?? 0;
  const header: IndexHeader = { format: 'sluice-index', version: 1, model, dimensions, documents, chunks: entries.length };
  const lines = function* (): Generator<string> {
    yield JSON.stringify(header);
    for (const { file, startLine, endLine, sha256, text, vector } of entries) {
      yield JSON.stringify({ file, startLine, endLine, sha256, text, vector: encodeVector(vector) });
    }
  };
  for (const line of lines()) {
    hash.update(`${line}\n`);
    yield `${line}\n`;
  }
  yield `${JSON.stringify({ count: entries.length, sha256: hash.digest('hex') })}\n`;
}

async function writeAndSync(path: string, lines: Iterable<string>, mode: number): Promise<void> {
  const file = await open(path, 'w', OWN_FILE_MODE);
  try {
    // What takes the place of a file is as readable as that was, whatever the umask.
    await file.chmod(mode);
    let pending = '';
    for (const line of lines) {
      pending += line;
      if (pending.length < WRITE_BYTES) continue;
      await file.writeFile(pending);
      pending = '';
    }
    await file.writeFile(pending);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Makes the rename itself durable; systems that cannot open a folder do without. */
async function syncFolder(path: string): Promise<void> {
  try {
    const folder = await open(path, 'r');
    await folder.sync().finally(() => folder.close());
  } catch {
    // The index is written and complete; only a power cut in this very moment could still undo the rename.
  }
}

/**
 * Reads an index and checks every line of it.
 *
 * @param shown what the user called the path.
 * @throws CliError (exit code 2) when there is no index, or it is damaged; the message names the line.
 */
export async function readIndex(path: string, shown = path): Promise<IndexContent & { readonly dimensions: number }> {
  const reader = new IndexReader(shown);
  try {
    for await (const line of readLines(path)) reader.read(line.number, line.text, line.complete);
  } catch (error) {
    const code = errorCode(error);
    if (code === undefined || error instanceof CliError) throw error;
    const why = code === 'ENOENT' ? 'there is no such file; make one with `sluice index`' : code;
    throw new CliError(EXIT.usage, `cannot read the index \`${shown}\`: ${why}`, error);
  }
  return reader.finish();
}

class IndexReader {
  readonly #path: string;
  readonly #hash = createHash('sha256');
  readonly #entries: IndexEntry[] = [];
  #header: IndexHeader | undefined;
  #complete = false;
  #lines = 0;

  constructor(path: string) {
    this.#path = path;
  }

  read(number: number, text: string, ended: boolean): void {
    this.#lines = number;
    if (this.#complete) this.#fail(number, 'there is text after the last line');
    if (!ended) this.#fail(number, 'it ends in the middle of a line');
    if (this.#header === undefined) this.#header = this.#readHeader(text);
    else if (this.#entries.length < this.#header.chunks) this.#entries.push(this.#readEntry(number, text, this.#header));
    else {
      this.#readFooter(number, text);
      return;
    }
    this.#hash.update(`${text}\n`);
  }

  finish(): IndexContent & { readonly dimensions: number } {
    if (this.#header === undefined) return this.#fail(1, 'the file is empty');
    if (!this.#complete) {
      return this.#fail(
        this.#lines + 1,
        `the file ends after ${String(this.#entries.length)} of ${String(this.#header.chunks)} passages, before its last line`,
      );
    }
    return { ...this.#header, entries: this.#entries };
  }

  #readHeader(text: string): IndexHeader {
    const checked = checkJson(indexHeaderSchema, text);
    if ('problem' in checked) return this.#fail(1, `not the header of an index (${checked.problem})`);
    return checked.value;
  }

  #readEntry(number: number, text: string, header: IndexHeader): IndexEntry {
    const checked = checkJson(indexChunkSchema, text);
    if ('problem' in checked) return this.#fail(number, checked.problem);
    const { vector: encoded, ...chunk } = checked.value;
    if (createHash('sha256').update(chunk.text).digest('hex') !== chunk.sha256) this.#fail(number, 'the text does not match its SHA-256');
    const vector = decodeVector(encoded);
    if (vector?.length !== header.dimensions) return this.#fail(number, `the vector does not hold ${String(header.dimensions)} numbers`);
    return { ...chunk, vector };
  }

  #readFooter(number: number, text: string): void {
    const checked = checkJson(indexFooterSchema, text);
    if ('problem' in checked) return this.#fail(number, `not the footer of an index (${checked.problem})`);
    if (checked.value.count !== this.#entries.length) this.#fail(number, `the footer counts ${String(checked.value.count)} passages`);
    if (checked.value.sha256 !== this.#hash.digest('hex')) this.#fail(number, 'the lines before do not match their SHA-256');
    this.#complete = true;
  }

  #fail(line: number, problem: string): never {
    throw new CliError(EXIT.usage, `index \`${this.#path}\` is damaged at line ${String(line)}: ${problem}; run \`sluice index\` again`);
  }
}
