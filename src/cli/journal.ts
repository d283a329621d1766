import { createHash } from 'node:crypto';
import { type FileHandle, open, rm } from 'node:fs/promises';
import { checkJson } from '../edge/check.js';
import { journalLineSchema } from '../edge/index-lines.js';
import { CliError, diskError, EXIT, errorCode, onDisk } from './exit.js';
import { readLines } from './lines.js';
import { decodeVector, encodeVector } from './vectors.js';

/** Vectors that are known already, by {@link vectorKey}. */
export type VectorCache = Map<string, Float32Array>;

/** A vector belongs to a text and to the model that made it. */
export function vectorKey(model: string, sha256: string): string {
  return `${sha256} ${model}`;
}

export interface JournalContent {
  readonly vectors: VectorCache;
  /** Lines that did not match their checksum. */
  readonly damagedLines: number;
  /** Bytes up to the last complete line; what a killed process left behind after that is dropped. */
  readonly length: number;
}

/** How a line begins: with its checksum. A first line may be torn anywhere. */
const LINE_START = /^[0-9a-f]{16} \{|^[0-9a-f]{1,16} ?$/;

/**
 * Reads what earlier, unfinished runs have done. A missing journal is an empty one.
 *
 * @param shown what the user knows the path as.
 * @throws CliError: exit code 2 when the file holds no line of a journal, 4 when it cannot be read.
 */
export async function readJournal(path: string, shown = path): Promise<JournalContent> {
  const vectors: VectorCache = new Map();
  let isOurs = true;
  let damagedLines = 0;
  let length = 0;
  try {
    for await (const line of readLines(path)) {
      if (line.number === 1) isOurs = LINE_START.test(line.text);
      if (!line.complete) break;
      length = line.endOffset;
      const entry = parseLine(line.text);
      if (entry === undefined) damagedLines += 1;
      else vectors.set(entry.key, entry.vector);
    }
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') throw diskError(`read the journal \`${path}\``, error);
  }
  // It would be cut off at the last line feed, added to, and removed in the end.
  if (!isOurs && vectors.size === 0)
    throw new CliError(EXIT.usage, `\`${shown}\` is there already and is not a journal; give another index, or remove it first`);
  return { vectors, damagedLines, length };
}

function parseLine(text: string): { key: string; vector: Float32Array } | undefined {
  const [sum, json = ''] = splitOnce(text);
  if (sum !== checksum(json)) return undefined;
  const checked = checkJson(journalLineSchema, json);
  if ('problem' in checked) return undefined;
  const vector = decodeVector(checked.value.vector);
  return vector === undefined ? undefined : { key: vectorKey(checked.value.model, checked.value.sha256), vector };
}

function splitOnce(text: string): string[] {
  const space = text.indexOf(' ');
  return space === -1 ? [text] : [text.slice(0, space), text.slice(space + 1)];
}

function checksum(json: string): string {
  return createHash('sha256').update(json).digest('hex').slice(0, 16);
}

/** Longest that written lines stay in the system's memory before they are forced to the disk. */
const SYNC_INTERVAL_MS = 1000;

/**
 * Appends vectors as they arrive. What arrives while a write is under way goes out together with the next one, so a
 * killed process loses at most the vectors of the write it was killed in, and a power cut those of the last second.
 */
export class Journal {
  readonly #path: string;
  readonly #file: FileHandle;
  #pending = '';
  #writing: Promise<void> | undefined;
  #syncedAtMs = performance.now();
  #failure: Error | undefined;

  private constructor(path: string, file: FileHandle) {
    this.#path = path;
    this.#file = file;
  }

  /** @throws CliError (exit code 4) when the file cannot be written. */
  static async open(path: string, length: number): Promise<Journal> {
    return onDisk(`open the journal \`${path}\``, async () => {
      const file = await open(path, 'a');
      // A torn last line would spoil the first line written after it.
      if ((await file.stat()).size > length) await file.truncate(length);
      return new Journal(path, file);
    });
  }

  /** @throws CliError (exit code 4) when an earlier write has failed. */
  add(model: string, sha256: string, vector: Float32Array): void {
    if (this.#failure !== undefined) throw this.#failure;
    const json = JSON.stringify({ model, sha256, vector: encodeVector(vector) });
    this.#pending += `${checksum(json)} ${json}\n`;
    this.#writing ??= this.#write();
  }

  /** Waits until everything is on disk, then closes the file; one that holds nothing goes. @throws CliError (exit code 4) when that failed. */
  async close(): Promise<void> {
    await this.#writing;
    try {
      if (this.#failure !== undefined) throw this.#failure;
      await onDisk(this.#action, async () => {
        await this.#file.sync();
        if ((await this.#file.stat()).size === 0) await rm(this.#path);
      });
    } finally {
      await this.#file.close();
    }
  }

  async #write(): Promise<void> {
    try {
      while (this.#pending !== '') {
        const lines = this.#pending;
        this.#pending = '';
        await this.#file.appendFile(lines);
        if (performance.now() - this.#syncedAtMs < SYNC_INTERVAL_MS) continue;
        await this.#file.datasync();
        this.#syncedAtMs = performance.now();
      }
    } catch (error) {
      this.#failure = diskError(this.#action, error);
    } finally {
      this.#writing = undefined;
    }
  }

  get #action(): string {
    return `write the journal \`${this.#path}\``;
  }
}

/** Takes the journal away once its content is in the index. */
export async function removeJournal(path: string): Promise<void> {
  await onDisk(`remove the journal \`${path}\``, () => rm(path, { force: true }));
}
