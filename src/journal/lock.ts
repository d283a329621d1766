import { open, readFile, rename, rm, stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { errorCode, FileError, onDisk } from './file-error.js';
import { OWN_FILE_MODE } from './file-mode.js';

/** A lock that names no process for so long was left by one that died between creating and writing it. */
const UNNAMED_MS = 60_000;

/**
 * Takes a lock file, or fails when a living process holds it. The lock of a process that is gone is taken over, and so is one that has named no process
 * for a minute.
 *
 * @param what it is for, in a word: "index".
 * @param now the time, in ms, by which the age of the file is told.
 * @returns releases the lock.
 * @throws FileError: `busy` when the lock is held, `foreign` when something else stands there, `disk` when the file cannot be written.
 */
export async function takeLock(path: string, what: string, now: () => number = Date.now): Promise<() => Promise<void>> {
  const place = resolve(path);
  const held = heldHere();
  if (held.has(place)) throw new FileError('busy', `this process is writing this ${what} already; close it first`);
  held.add(place);
  try {
    await onDisk(`create the lock \`${path}\``, () => takeFile(path, what, now));
  } catch (error) {
    held.delete(place);
    throw error;
  }
  return async () => {
    await rm(path, { force: true });
    held.delete(place);
  };
}

/** The number of the living process that holds a lock file; undefined when none does. Changes nothing. */
export async function lockHolder(path: string): Promise<string | undefined> {
  const holder = await readHolder(path);
  return PROCESS_ID.test(holder) && isAlive(holder) ? holder : undefined;
}

/** Locks of this process, of all copies of the package in it: their files name a process that could take them over. */
function heldHere(): Set<string> {
  const shared = globalThis as { [key: symbol]: Set<string> | undefined };
  return (shared[Symbol.for('sluice/locks')] ??= new Set());
}

async function takeFile(path: string, what: string, now: () => number): Promise<void> {
  if (await create(path)) return;
  const holder = await readHolder(path);
  if (await isHeld(path, holder, now)) throw heldBy(path, what, holder);
  await removeStale(path, what, now);
  if (!(await create(path))) throw heldBy(path, what, await readHolder(path));
}

/** Renaming first: of two processes that found the same stale lock, only one gets it, and neither removes a fresh one unseen. */
async function removeStale(path: string, what: string, now: () => number): Promise<void> {
  const aside = `${path}.${String(process.pid)}`;
  try {
    await rename(path, aside);
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return;
    throw error;
  }
  const holder = await readHolder(aside);
  if (await isHeld(aside, holder, now)) {
    await rename(aside, path);
    throw heldBy(path, what, holder);
  }
  await rm(aside, { force: true });
}

async function create(path: string): Promise<boolean> {
  const file = await open(path, 'wx', OWN_FILE_MODE).catch((error: unknown) => {
    if (errorCode(error) === 'EEXIST') return undefined;
    throw error;
  });
  if (file === undefined) return false;
  try {
    await file.writeFile(`${String(process.pid)}\n`);
    return true;
  } catch (error) {
    // On a full disk; one that names nobody would be held for ever.
    await rm(path, { force: true });
    throw error;
  } finally {
    await file.close();
  }
}

async function readHolder(path: string): Promise<string> {
  try {
    return (await readFile(path, 'utf8')).trim();
  } catch (error) {
    // Released between our attempt and this look.
    if (errorCode(error) === 'ENOENT') return '';
    throw error;
  }
}

const PROCESS_ID = /^[1-9]\d{0,9}$/;

/** A lock without a process id counts as held while it is young: its owner may be about to write it. */
async function isHeld(path: string, holder: string, now: () => number): Promise<boolean> {
  if (holder !== '') return !PROCESS_ID.test(holder) || isAlive(holder);
  const written = await stat(path).catch(() => undefined);
  return written !== undefined && now() - written.mtimeMs <= UNNAMED_MS;
}

function isAlive(holder: string): boolean {
  const pid = Number(holder);
  // Our own id in a lock we did not take was left by an earlier process, as happens in containers.
  if (pid === process.pid) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return errorCode(error) !== 'ESRCH';
  }
}

function heldBy(path: string, what: string, holder: string): FileError {
  if (holder !== '' && !PROCESS_ID.test(holder))
    return new FileError('foreign', `\`${path}\` is there already and is not a lock; give another ${what}, or remove it first`);
  const who = holder === '' ? 'another run' : `process ${holder}`;
  return new FileError('busy', `${who} is writing this ${what}; wait for it, or remove \`${path}\` if it is no longer running`);
}
