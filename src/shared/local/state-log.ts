import { closeSync, fstatSync, renameSync, rmSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import type { SavedCredit } from '../../../operators/index.js';
import type { Contact } from './generations.js';
import { claim, contactIn, createFile, fileOf, forgetBefore, freshName, hasSuccessor, lineOf, textOf, writeAll } from './generations.js';
import type { LocalRequest } from './requests.js';
import { readRequest } from './requests.js';

/** A log with more than this is written anew. */
const MOST_BYTES = 1_000_000;
/** After it could not be written, for example because the disk is full, that is tried again after so long. */
const TRY_AGAIN_MS = 1000;

/** The latest time of a `Date`. */
const LATEST = 8.64e15;

/** The state of a store: a saved one, and what was asked since. */
export interface LoggedState {
  readonly saved: SavedCredit;
  readonly requests: readonly LoggedRequest[];
}

export interface LoggedRequest {
  readonly time: number;
  readonly request: LocalRequest;
}

/**
 * What a server remembers beyond its end: how to reach it, a saved state, and each request since with its time. A request is written before it is answered, so
 * that the next server knows everything that was granted. The operating system has what is written also when the process is killed.
 */
export class StateLog {
  private bytes = 0;
  /** Length of the saved state. */
  private savedBytes = 0;
  /** When it could not be written. */
  private brokenAt: number | undefined;

  private constructor(
    private readonly folder: string,
    private readonly number: number,
    private readonly contact: Contact,
    private file: number,
  ) {}

  /** The log of the server with this number; undefined when another process was faster. Nothing is granted by the server before from then on. */
  static claim(folder: string, number: number, contact: Contact): StateLog | undefined {
    const name = join(folder, freshName());
    const file = createFile(name, lineOf(contact));
    let isClaimed = false;
    try {
      isClaimed = claim(folder, number, name);
    } finally {
      rmSync(name, { force: true });
      if (!isClaimed) closeSync(file);
    }
    return isClaimed ? new StateLog(folder, number, contact, file) : undefined;
  }

  /** What the servers before it have left; undefined when that is not known. */
  before(): LoggedState | undefined {
    for (let number = this.number - 1; number > 0; number--) {
      const [contact, ...lines] = textOf(fileOf(this.folder, number)).split('\n');
      if (!contactIn(contact as string)) return undefined;
      // The last line was cut off, or is empty. Without another one, the server did not live to write its state.
      if (lines.length > 1) return readLines(lines.slice(0, -1));
    }
    return undefined;
  }

  /** Whether no later server has begun, and the log still exists. */
  get isCurrent(): boolean {
    return fstatSync(this.file).nlink > 0 && !hasSuccessor(this.folder, this.number);
  }

  /** Writes a state that takes the place of everything before. */
  save(state: SavedCredit): void {
    const text = `${JSON.stringify(state)}\n`;
    const isFirst = this.savedBytes === 0;
    try {
      if (isFirst) writeAll(this.file, text);
      else this.replace(text);
    } catch {
      // A complete log is continued.
      if (isFirst || this.brokenAt !== undefined) this.breaks();
      else this.bytes = 0;
      return;
    }
    this.brokenAt = undefined;
    this.bytes = this.savedBytes = text.length;
    if (isFirst) forgetBefore(this.folder, this.number, this.contact.socket);
  }

  /** Writes requests. Calls `state` when it is time to begin anew with what that returns. */
  append(lines: string, state: () => SavedCredit): void {
    if (this.brokenAt === undefined) {
      try {
        writeAll(this.file, lines);
      } catch {
        this.breaks();
        return;
      }
      this.bytes += lines.length;
      if (this.bytes > MOST_BYTES + 2 * this.savedBytes) this.save(state());
    } else if (Date.now() - this.brokenAt > TRY_AGAIN_MS) this.save(state());
  }

  close(): void {
    closeSync(this.file);
  }

  private replace(text: string): void {
    const name = join(this.folder, freshName());
    const file = createFile(name, lineOf(this.contact) + text);
    closeSync(this.file);
    this.file = file;
    renameSync(name, fileOf(this.folder, this.number));
  }

  /** The next server must not take what is there for everything. */
  private breaks(): void {
    this.brokenAt = Date.now();
    try {
      truncateSync(fileOf(this.folder, this.number), lineOf(this.contact).length);
      forgetBefore(this.folder, this.number, this.contact.socket);
    } catch {
      // It is gone, and this server steps back.
    }
  }
}

/** @returns undefined when a line is not what a server has written. */
function readLines([state, ...lines]: readonly string[]): LoggedState | undefined {
  try {
    const saved = JSON.parse(state as string) as SavedCredit;
    checkTime(saved.at);
    return { saved, requests: lines.map(readLine) };
  } catch {
    return undefined;
  }
}

function readLine(line: string): LoggedRequest {
  const [time, request] = JSON.parse(line) as [number, unknown];
  checkTime(time);
  return { time, request: readRequest(request) };
}

/** A clock that is set to a time without end would stand still. */
function checkTime(time: number): void {
  if (!(time >= 0 && time <= LATEST)) throw new RangeError('no time');
}

/** A request as a line of the log. */
export function logLine(time: number, request: string): string {
  return `[${time},${request}]\n`;
}
