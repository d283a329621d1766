import { createHash } from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';
import { diskError, errorCode, FileError } from './file-error.js';
import { LineFile } from './line-file.js';
import { readLines } from './lines.js';

/** Where an entry stands in its file. */
export interface JournalPlace {
  /** Of the line, in bytes from the start. */
  readonly offset: number;
  readonly bytes: number;
}

/** What a journal was found to hold. */
export interface JournalContent {
  /** Lines that did not match their checksum, or whose entry was not understood. */
  readonly damagedLines: number;
  /** Bytes up to the last complete line; what a killed process left behind after that is dropped. */
  readonly length: number;
}

/** How a line begins: with its checksum. A first line may be torn anywhere. */
const LINE_START = /^[0-9a-f]{16} \{|^[0-9a-f]{1,16} ?$/;
/** A checksum and the space behind it. */
const JSON_AT = 17;

/**
 * Reads what earlier, unfinished runs have done, entry by entry. A missing journal is an empty one.
 *
 * @param shown what the user knows the path as.
 * @param take gets the JSON of each entry that is whole; answers whether it was understood.
 * @param advice what to do when the file is not a journal.
 * @throws FileError: `foreign` when the file holds no line of a journal, `disk` when it cannot be read.
 */
export async function readJournal(
  path: string,
  shown: string,
  advice: string,
  take: (json: string, place: JournalPlace) => boolean,
): Promise<JournalContent> {
  let isOurs = true;
  let taken = 0;
  let damagedLines = 0;
  let length = 0;
  try {
    for await (const line of readLines(path)) {
      if (line.number === 1) isOurs = LINE_START.test(line.text);
      if (!line.complete) break;
      const json = entryOf(line.text);
      if (json !== undefined && take(json, { offset: length, bytes: line.endOffset - length })) taken += 1;
      else damagedLines += 1;
      length = line.endOffset;
    }
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') throw diskError(`read the journal \`${path}\``, error);
  }
  // It would be cut off at the last line feed, added to, and removed in the end.
  if (!isOurs && taken === 0) throw new FileError('foreign', `\`${shown}\` is there already and is not a journal; ${advice}`);
  return { damagedLines, length };
}

/** The JSON of the entry at a place; undefined when it is not whole there. */
export async function jsonAt(file: FileHandle, { offset, bytes }: JournalPlace): Promise<string | undefined> {
  const buffer = Buffer.alloc(bytes);
  await file.read(buffer, 0, bytes, offset);
  // Without its line feed.
  return entryOf(buffer.toString('utf8', 0, bytes - 1));
}

/** The JSON of a line, without its line feed; undefined when it does not match its checksum. */
export function entryOf(line: string): string | undefined {
  const json = line.slice(JSON_AT);
  return line.startsWith(`${checksum(json)} `) ? json : undefined;
}

function checksum(json: string): string {
  return createHash('sha256').update(json).digest('hex').slice(0, 16);
}

/** Appends entries as they arrive, each with a checksum. */
export class Journal {
  readonly #file: LineFile;

  private constructor(file: LineFile) {
    this.#file = file;
  }

  /**
   * @param length bytes of it that are whole, as {@link readJournal} found.
   * @throws FileError when the file cannot be written.
   */
  static async open(path: string, length: number): Promise<Journal> {
    return new Journal(await LineFile.open(path, `the journal \`${path}\``, length));
  }

  /** Bytes of it, with those that are on their way: where the next entry begins. */
  get length(): number {
    return this.#file.length;
  }

  /**
   * @returns resolves when the entry is safe from a killed process; rejects with a FileError when it could not be written.
   * @throws FileError when an earlier write has failed.
   */
  add(entry: object): Promise<void> {
    const json = JSON.stringify(entry);
    return this.#file.append(`${checksum(json)} ${json}\n`);
  }

  /** Resolves when all entries are safe from a power cut as well. @throws FileError when that failed. */
  sync(): Promise<void> {
    return this.#file.sync();
  }

  /** Waits until everything is on disk, then closes the file; one that holds nothing goes. @throws FileError when that failed. */
  close(): Promise<void> {
    return this.#file.close();
  }
}
