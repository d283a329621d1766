import type { BigIntStats } from 'node:fs';
import { type FileHandle, open, rm, stat } from 'node:fs/promises';
import { diskError, errorCode, FileError, onDisk } from './file-error.js';
import { OWN_FILE_MODE } from './file-mode.js';

/** Longest that written lines stay in the system's memory before they are forced to the disk. */
const SYNC_INTERVAL_MS = 1000;

/** What was asked to be written and is not yet, as one piece. */
interface Piece {
  text: string;
  readonly written: Promise<void>;
  readonly settle: (error?: Error) => void;
}

/**
 * A file that grows by whole lines. What arrives while a write is under way goes out together with the next one, so a killed process loses at
 * most the lines of the write it was killed in, and a power cut those of the last second. After each write its name must still lead to it, or
 * the lines would be gone with the process: a file that was removed, replaced or cut off meanwhile fails.
 */
export class LineFile {
  readonly #file: FileHandle;
  readonly #path: string;
  readonly #action: string;
  /** Which file it is, whatever its name leads to later. */
  readonly #identity: BigIntStats;
  #length: number;
  /** Bytes that the file is known to hold. */
  #written: number;
  #pending: Piece | undefined;
  #writing: Promise<void> | undefined;
  #syncedAtMs = performance.now();
  #failure: Error | undefined;

  private constructor(path: string, action: string, file: FileHandle, identity: BigIntStats, length: number) {
    this.#path = path;
    this.#action = action;
    this.#file = file;
    this.#identity = identity;
    this.#length = length;
    this.#written = length;
  }

  /**
   * @param what what the user knows the file as: "the journal `x`".
   * @param length bytes that are kept; what stands after them goes, a torn last line for example.
   * @throws FileError when the file cannot be written.
   */
  static async open(path: string, what: string, length: number): Promise<LineFile> {
    return onDisk(`open ${what}`, async () => {
      const file = await open(path, 'a', OWN_FILE_MODE);
      const identity = await file.stat({ bigint: true });
      const size = Number(identity.size);
      if (size > length) await file.truncate(length);
      return new LineFile(path, `write ${what}`, file, identity, Math.min(size, length));
    });
  }

  /** Bytes of it, those included that are on their way. */
  get length(): number {
    return this.#length;
  }

  /** Bytes that wait for the write under way to end. */
  get pendingBytes(): number {
    return this.#pending?.text.length ?? 0;
  }

  /**
   * Adds lines, each with its line feed.
   *
   * @returns resolves when they are in the file, where a killed process does not lose them; rejects with a FileError when that failed.
   * @throws FileError when an earlier write has failed.
   */
  append(lines: string): Promise<void> {
    if (this.#failure !== undefined) throw this.#failure;
    this.#length += Buffer.byteLength(lines);
    const piece = (this.#pending ??= newPiece());
    piece.text += lines;
    this.#writing ??= this.#write();
    return piece.written;
  }

  /** Resolves when everything is on disk. @throws FileError when that failed. */
  async sync(): Promise<void> {
    await this.#writing;
    if (this.#failure !== undefined) throw this.#failure;
    await onDisk(this.#action, () => this.#file.datasync());
  }

  /** Waits until everything is on disk, then closes the file; one that holds nothing goes. @throws FileError when that failed. */
  async close(): Promise<void> {
    await this.#writing;
    try {
      if (this.#failure !== undefined) throw this.#failure;
      await onDisk(this.#action, async () => {
        await this.#file.sync();
        await this.#checkPlace();
        if ((await this.#file.stat()).size === 0) await rm(this.#path);
      });
    } finally {
      await this.#file.close();
    }
  }

  async #write(): Promise<void> {
    for (let piece = this.#pending; piece !== undefined; piece = this.#pending) {
      this.#pending = undefined;
      try {
        if (this.#failure !== undefined) throw this.#failure;
        await this.#file.appendFile(piece.text);
        this.#written += Buffer.byteLength(piece.text);
        await this.#checkPlace();
        piece.settle();
        if (performance.now() - this.#syncedAtMs < SYNC_INTERVAL_MS) continue;
        await this.#file.datasync();
        this.#syncedAtMs = performance.now();
      } catch (error) {
        this.#failure ??= diskError(this.#action, error);
        piece.settle(this.#failure);
      }
    }
    this.#writing = undefined;
  }

  /** @throws FileError when what was written is not where its name leads. */
  async #checkPlace(): Promise<void> {
    const found = await stat(this.#path, { bigint: true }).catch((error: unknown) => {
      if (errorCode(error) === 'ENOENT') return undefined;
      throw error;
    });
    const { dev, ino } = this.#identity;
    if (found?.dev === dev && found.ino === ino && found.size >= this.#written) return;
    throw new FileError('disk', `cannot ${this.#action}: the file was removed, replaced or cut off while it was open`);
  }
}

function newPiece(): Piece {
  let settle: Piece['settle'] = () => undefined;
  const written = new Promise<void>((resolve, reject) => {
    settle = (error) => {
      if (error === undefined) resolve();
      else reject(error);
    };
  });
  // Who does not wait for it hears of it at the next line, or at the end.
  written.catch(() => undefined);
  return { text: '', written, settle };
}
