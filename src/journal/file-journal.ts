import type { FileHandle } from 'node:fs/promises';
import { open } from 'node:fs/promises';
import { resolve } from 'node:path';
import { check } from '../../operators/build.js';
import { ClosedError, JournalError } from '../../operators/index.js';
import type { JournalEntry, StageJournal } from '../pipelines/stages/stages-types.js';
import { FileError, onDisk } from './file-error.js';
import type { JournalPlace } from './line-journal.js';
import { Journal, jsonAt, readJournal } from './line-journal.js';
import { takeLock } from './lock.js';
import { placeOf } from './same-file.js';

/**
 * A journal of `createStages` in a file.
 * @beta
 */
export interface FileJournal extends StageJournal {
  /** @throws JournalError (`FLOW_JOURNAL`), as a rejection, when the file cannot be read; `ClosedError` after `close`. */
  recall(documentId: string): Promise<readonly JournalEntry[]>;
  /**
   * Resolves when the value is in the file, where a killed process does not lose it.
   *
   * @throws JournalError (`FLOW_JOURNAL`), as a rejection, when it could not be written or is no JSON; `ClosedError` after `close`.
   */
  append(entry: JournalEntry): Promise<void>;
  /** Lines that were found damaged and are skipped: what they held is worked out again. */
  readonly damagedLines: number;
  /** Forces everything to the disk, closes the file and releases its lock. Every call returns the same promise. @throws JournalError as a rejection */
  close(): Promise<void>;
  /** The same as `close()`, for `await using`. */
  [Symbol.asyncDispose](): Promise<void>;
}

const NAME = 'fileJournal';
const ADVICE = 'give another path, or remove it first';

/**
 * Opens a journal for `createStages` in a file: what was answered before the process was killed is recalled by the next run, not asked for again.
 * For Node.js, and for one process at a time.
 *
 * - **Holds** one line of JSON per value, each with a checksum. A last line that is torn is cut off; a damaged line is skipped and counted in `damagedLines`.
 * - **Loses** nothing that `append` has resolved for when the process is killed; at a power cut, at most the last second.
 * - **Remembers** in memory the ids of documents and where their values stand in the file, never the values.
 * - **Locks** the file for this process, by a file beside it (`<path>.lock`). The lock of a process that is gone is taken over, an empty one after a minute.
 * - **Fails** once the file was removed, replaced or cut off while it was open: at the next `append`, or at `close`.
 * - **Access**: a new file has rights for its user alone.
 *
 * The journal knows a value by the id of its document, the name of its stage and its item. For other prompts take another stage name or another path.
 * Remove the file when all documents are done; it only grows.
 *
 * @beta
 * @param path - of the file; it is created if it is not there, in a folder that is
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when `path` is not a non-empty string.
 * @throws JournalError (`FLOW_JOURNAL`), as a rejection: `reason` says whether the file is open already (`'busy'`), is something else (`'foreign'`), or
 *   cannot be read or written (`'disk'`).
 * @example
 * ```ts
 * import { mkdtempSync } from 'node:fs';
 * import { tmpdir } from 'node:os';
 * import { join } from 'node:path';
 * import { createStages } from 'sluice';
 * import { fileJournal } from 'sluice/journal';
 *
 * const path = join(mkdtempSync(join(tmpdir(), 'jobs-')), 'jobs.journal');
 * const sent: string[] = [];
 * const run = async () => {
 *   const journal = await fileJournal(path);
 *   const stages = createStages([{ name: 'send', work: (job: string) => sent.push(job) }], { journal, id: (job) => job });
 *   await stages.run(['a', 'b']).forEach(() => undefined);
 *   await journal.close();
 * };
 * await run();
 * await run();
 * sent; // => ['a', 'b']
 * ```
 */
export function fileJournal(path: string): Promise<FileJournal> {
  return OpenJournal.open(check.nonEmpty(NAME, 'path', path));
}

class OpenJournal implements FileJournal {
  readonly damagedLines: number;
  /** Where the values of each document stand. */
  readonly #places: Map<string, JournalPlace[]>;
  readonly #lines: Journal;
  readonly #reader: FileHandle;
  readonly #path: string;
  readonly #release: () => Promise<void>;
  #closing: Promise<void> | undefined;

  private constructor(
    path: string,
    places: Map<string, JournalPlace[]>,
    damagedLines: number,
    lines: Journal,
    reader: FileHandle,
    release: () => Promise<void>,
  ) {
    this.#path = path;
    this.#places = places;
    this.damagedLines = damagedLines;
    this.#lines = lines;
    this.#reader = reader;
    this.#release = release;
  }

  static open(path: string): Promise<OpenJournal> {
    return told(async () => {
      const place = await placeOf(resolve(path));
      const release = await takeLock(`${place}.lock`, 'journal');
      try {
        const places = new Map<string, JournalPlace[]>();
        const { length, damagedLines } = await readJournal(place, path, ADVICE, (json, at) => {
          const entry = entryIn(json);
          if (entry !== undefined) note(places, entry.documentId, at);
          return entry !== undefined;
        });
        // Lines of another journal.
        if (damagedLines > 0 && places.size === 0)
          throw new FileError('foreign', `\`${path}\` is there already and holds no value of a journal; ${ADVICE}`);
        const lines = await Journal.open(place, length);
        const reader = await onDisk(`read the journal \`${path}\``, () => open(place, 'r'));
        return new OpenJournal(path, places, damagedLines, lines, reader, release);
      } catch (error) {
        await release();
        throw error;
      }
    });
  }

  async recall(documentId: string): Promise<readonly JournalEntry[]> {
    this.#checkOpen();
    const entries: JournalEntry[] = [];
    for (const place of this.#places.get(documentId) ?? []) {
      const json = await told(() => onDisk(`read the journal \`${this.#path}\``, () => jsonAt(this.#reader, place)));
      const entry = json === undefined ? undefined : entryIn(json);
      if (entry !== undefined) entries.push(entry);
    }
    return entries;
  }

  async append({ documentId, stage, item, value }: JournalEntry): Promise<void> {
    this.#checkOpen();
    const offset = this.#lines.length;
    let written: Promise<void>;
    try {
      written = this.#lines.add({ documentId, stage, item, value });
    } catch (error) {
      throw error instanceof FileError
        ? journalError(error)
        : new JournalError(NAME, 'value', `a value of stage \`${stage}\` is no JSON`, error);
    }
    const place = { offset, bytes: this.#lines.length - offset };
    await told(() => written);
    note(this.#places, documentId, place);
  }

  close(): Promise<void> {
    return (this.#closing ??= told(async () => {
      try {
        await this.#reader.close();
        await this.#lines.close();
      } finally {
        await this.#release();
      }
    }));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #checkOpen(): void {
    if (this.#closing !== undefined) throw new ClosedError(NAME);
  }
}

function note(places: Map<string, JournalPlace[]>, documentId: string, place: JournalPlace): void {
  const known = places.get(documentId);
  if (known === undefined) places.set(documentId, [place]);
  else known.push(place);
}

/** Undefined for what no journal of ours has written. */
function entryIn(json: string): JournalEntry | undefined {
  try {
    const { documentId, stage, item, value } = Object(JSON.parse(json)) as JournalEntry;
    if ([documentId, stage, item].every((name) => typeof name === 'string')) return { documentId, stage, item, value };
  } catch {
    // No JSON either.
  }
  return undefined;
}

/** Runs file work, and tells its faults as errors of the journal. */
async function told<R>(work: () => Promise<R>): Promise<R> {
  try {
    return await work();
  } catch (error) {
    throw error instanceof FileError ? journalError(error) : error;
  }
}

function journalError({ fault, message, cause }: FileError): JournalError {
  return new JournalError(NAME, fault, message, cause);
}
