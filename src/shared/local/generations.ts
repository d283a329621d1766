import { randomBytes } from 'node:crypto';
import {
  closeSync,
  existsSync,
  linkSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  rmSync,
  statSync,
  truncateSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { OWN_FILE } from './folder.js';

/**
 * Which process serves. The servers of a store come one after the other, and each has a number: the log that begins with how to reach it is a file
 * of that name. A file is linked under its name in one step, and only where none is, so each number has one server, whatever processes try it at the
 * same time, and whatever a process that has ended left behind. The highest number counts; the server below it grants nothing any more.
 */
export interface Generation {
  readonly number: number;
  /** How to reach its server; undefined where the file cannot be read. */
  readonly contact: Contact | undefined;
}

/** How to reach a server. */
export interface Contact {
  readonly socket: string;
  /** A process that knows it can read the folder. */
  readonly key: string;
  /** For people that look for the serving process. */
  readonly pid: number;
}

/** Version of the log and of what is said on the socket. */
export const VERSION = 1;

const NUMBER = /^[1-9]\d{0,14}$/;
const CONTACT = /^\{"sluice":1,"socket":"(s[\da-f]{8,32})","key":"([\da-f]{32})","pid":(\d{1,10})\}$/;
const LONGEST_CONTACT = 256;

/** A server that did not get its number may still be at it when it is found; what is older was left behind. */
const LEFT_BEHIND_MS = 10_000;

/** The server that counts; undefined before the first one. */
export function latestGeneration(folder: string): Generation | undefined {
  const number = highestIn(folder);
  return number === 0 ? undefined : { number, contact: contactIn(firstLine(fileOf(folder, number))) };
}

export function highestIn(folder: string): number {
  return readdirSync(folder).reduce((highest, name) => (NUMBER.test(name) ? Math.max(highest, Number(name)) : highest), 0);
}

/** Whether a later server has begun. */
export function hasSuccessor(folder: string, number: number): boolean {
  return existsSync(fileOf(folder, number + 1));
}

export function fileOf(folder: string, number: number): string {
  return join(folder, String(number));
}

/** A name of its own, for a socket or a file that is not finished: never a number. */
export function freshName(bytes = 4): string {
  return `s${randomBytes(bytes).toString('hex')}`;
}

export function freshContact(): Contact {
  // The names of pipes can be listed by all users of a machine.
  const socket = process.platform === 'win32' ? freshName(16) : freshName();
  return { socket, key: randomBytes(16).toString('hex'), pid: process.pid };
}

export function addressOf(folder: string, { socket }: Contact): string {
  return process.platform === 'win32' ? `\\\\.\\pipe\\sluice-${socket}` : join(folder, socket);
}

/** The line that a log begins with. */
export function lineOf({ socket, key, pid }: Contact): string {
  return `${JSON.stringify({ sluice: VERSION, socket, key, pid })}\n`;
}

/** Gives a file that is open a number, and answers whether it was free. */
export function claim(folder: string, number: number, file: string): boolean {
  try {
    linkSync(file, fileOf(folder, number));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
  // One that was free because it is long over.
  if (highestIn(folder) === number) return true;
  rmSync(fileOf(folder, number), { force: true });
  return false;
}

/** Writes a new file and leaves it open for appending. */
export function createFile(path: string, text: string): number {
  const file = openSync(path, 'ax', OWN_FILE);
  try {
    writeAll(file, text);
    return file;
  } catch (error) {
    closeSync(file);
    rmSync(path, { force: true });
    throw error;
  }
}

/** @throws when not everything could be written: then a part may have been. */
export function writeAll(file: number, text: string): void {
  const bytes = Buffer.from(text);
  for (let written = 0; written < bytes.length; ) written += writeSync(file, bytes, written);
}

/** Removes what earlier servers left, as soon as a later one has their state. The last of them stays as an empty file, so that its number is not given again. */
export function forgetBefore(folder: string, number: number, socket: string): void {
  const longAgo = Date.now() - LEFT_BEHIND_MS;
  for (const name of readdirSync(folder)) {
    const path = join(folder, name);
    const isOld = NUMBER.test(name)
      ? Number(name) < number - 1
      : name !== socket && (statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0) < longAgo;
    if (isOld) rmSync(path, { force: true });
  }
  if (existsSync(fileOf(folder, number - 1))) truncateSync(fileOf(folder, number - 1));
}

/** How to reach the server whose log begins with this line. */
export function contactIn(line: string): Contact | undefined {
  const [, socket, key, pid] = CONTACT.exec(line) ?? [];
  return socket !== undefined && key !== undefined ? { socket, key, pid: Number(pid) } : undefined;
}

function firstLine(path: string): string {
  let file: number;
  try {
    file = openSync(path, 'r');
  } catch {
    // A later server has removed it.
    return '';
  }
  try {
    const start = Buffer.alloc(LONGEST_CONTACT);
    const length = readSync(file, start);
    return start.toString('latin1', 0, length).split('\n', 1)[0] as string;
  } finally {
    closeSync(file);
  }
}

/** The whole text of a file; empty when it is gone. */
export function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
