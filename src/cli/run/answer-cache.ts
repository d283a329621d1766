import { createHash } from 'node:crypto';
import { type FileHandle, open } from 'node:fs/promises';
import { checkJson } from '../../edge/check.js';
import { cacheLineSchema } from '../../edge/run-lines.js';
import { onDisk } from '../../journal/file-error.js';
import { entryOf, Journal, readJournal } from '../../journal/line-journal.js';
import type { ChatRequest } from '../../pipelines/models/chat-api.js';
import { CliError, EXIT } from '../exit.js';

/** The text of an answer, and whether nothing was wrong with it. */
export interface AskedAnswer {
  readonly text: string;
  readonly isFaultless: boolean;
}

/** Bytes of a line that are read at first. */
const READ_BYTES = 8192;
const LINE_FEED = 0x0a;
/** Digits of a key that are kept in memory: as many as a number holds. */
const KEPT_DIGITS = 13;

/**
 * Answers by the request that they are to, in a file that outlives the run: a line for each, with a checksum. In memory are only a few digits of each
 * key and where its line stands, some 50 to 100 bytes.
 */
export class AnswerCache {
  readonly #path: string;
  readonly #offsets: Map<number, number>;
  readonly #journal: Journal;
  readonly #reader: FileHandle;
  /** Requests under way. Each resolves to its answer when that is stored, and to undefined when there is none to share. */
  readonly #asked = new Map<string, Promise<string | undefined>>();
  /** Lines that were of no use. */
  readonly damagedLines: number;

  private constructor(path: string, offsets: Map<number, number>, damagedLines: number, journal: Journal, reader: FileHandle) {
    this.#path = path;
    this.#offsets = offsets;
    this.damagedLines = damagedLines;
    this.#journal = journal;
    this.#reader = reader;
  }

  /**
   * @param shown what the user calls the file.
   * @throws CliError: exit code 2 when something else stands there, 4 when it cannot be read or written.
   */
  static async open(path: string, shown: string): Promise<AnswerCache> {
    const { offsets, understood, damagedLines, length } = await readCache(path, shown);
    const journal = await Journal.open(path, length);
    try {
      if (understood === 0) await journal.add({ format: 'sluice-cache', version: 1 });
      const reader = await onDisk(`read the cache \`${path}\``, () => open(path, 'r'));
      return new AnswerCache(path, offsets, damagedLines, journal, reader);
    } catch (error) {
      await journal.close();
      throw error;
    }
  }

  /**
   * The answer to a request: the one that is stored, that of an equal request under way, or else that of `ask`, which is stored when it is faultless
   * and usable. When an equal request ends without such an answer, each that has waited for it is made on its own.
   *
   * @param onHit told when the answer was there, or comes of an equal request.
   * @throws what `ask` throws; CliError (exit code 4) when the file cannot be read or written.
   */
  async answer(
    request: ChatRequest,
    isUsable: (text: string) => boolean,
    onHit: () => void,
    ask: () => Promise<AskedAnswer>,
  ): Promise<string> {
    const key = createHash('sha256').update(JSON.stringify(request)).digest('hex');
    const underWay = this.#asked.get(key);
    const shared = await (underWay ?? this.#find(key));
    if (shared !== undefined && isUsable(shared)) {
      onHit();
      return shared;
    }
    // Another one may have begun while the file was read.
    if (underWay === undefined && this.#asked.has(key)) return this.answer(request, isUsable, onHit, ask);
    return underWay === undefined ? this.#askFirst(key, isUsable, ask) : (await ask()).text;
  }

  /** @throws CliError (exit code 4) when something could not be written. */
  async close(): Promise<void> {
    await this.#reader.close();
    await this.#journal.close();
  }

  async #askFirst(key: string, isUsable: (text: string) => boolean, ask: () => Promise<AskedAnswer>): Promise<string> {
    let share: (text: string | undefined) => void = () => undefined;
    this.#asked.set(key, new Promise((resolve) => (share = resolve)));
    let stored: string | undefined;
    try {
      const { text, isFaultless } = await ask();
      if (!isFaultless || !isUsable(text)) return text;
      await this.#add(key, text);
      stored = text;
      return text;
    } finally {
      this.#asked.delete(key);
      share(stored);
    }
  }

  async #add(key: string, text: string): Promise<void> {
    const offset = this.#journal.length;
    await this.#journal.add({ request: key, answer: text });
    this.#offsets.set(keptOf(key), offset);
  }

  /** What is stored for the key; undefined when there is nothing, or its line is damaged by now. */
  async #find(key: string): Promise<string | undefined> {
    const offset = this.#offsets.get(keptOf(key));
    if (offset === undefined) return undefined;
    const line = await onDisk(`read the cache \`${this.#path}\``, () => lineAt(this.#reader, offset));
    const json = entryOf(line);
    const checked = json === undefined ? { problem: '' } : checkJson(cacheLineSchema, json);
    if ('problem' in checked || !('request' in checked.value) || checked.value.request !== key) return undefined;
    return checked.value.answer;
  }
}

/**
 * Reads which answers a file has, and changes nothing. A missing one has none.
 *
 * @throws CliError as {@link AnswerCache.open} does.
 */
export async function readCache(path: string, shown: string) {
  const offsets = new Map<number, number>();
  const advice = 'give another `model.cache.path`, or remove it first';
  let understood = 0;
  const { damagedLines, length } = await readJournal(path, shown, advice, (json, { offset }) => {
    const checked = checkJson(cacheLineSchema, json);
    if ('problem' in checked) return false;
    understood += 1;
    if ('request' in checked.value) offsets.set(keptOf(checked.value.request), offset);
    return true;
  });
  if (understood === 0 && damagedLines > 0)
    throw new CliError(EXIT.usage, `\`${shown}\` is there already and is not a cache of answers; ${advice}`);
  return { offsets, understood, damagedLines, length };
}

function keptOf(key: string): number {
  return Number.parseInt(key.slice(0, KEPT_DIGITS), 16);
}

/** A line without its line feed. */
async function lineAt(file: FileHandle, offset: number): Promise<string> {
  for (let size = READ_BYTES; ; size *= 2) {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(size), 0, size, offset);
    const end = buffer.subarray(0, bytesRead).indexOf(LINE_FEED);
    if (end >= 0 || bytesRead < size) return buffer.toString('utf8', 0, Math.max(end, 0));
  }
}
