import { createHash } from 'node:crypto';
import { lstatSync, mkdirSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { isAbsolute, join } from 'node:path';
import { check } from '../../../operators/build.js';

/** Rights of folders: their owner, and no other user. */
export const OWN_FOLDER = 0o700;
/** Rights of files and sockets. */
export const OWN_FILE = 0o600;

const OTHERS = 0o077;

/** Characters of the hash that stands for a name: names may be of any length and content. */
const HASH_LENGTH = 24;
/** Characters of the name of a socket. */
const SOCKET_LENGTH = 9;
/** Longest path of a unix socket in bytes: 108 on Linux, 104 elsewhere, with the byte that ends it. */
const LONGEST_PATH = process.platform === 'linux' ? 107 : 103;

/**
 * Creates the folder of a store, if it is not there, and returns its path. Each name has a folder of its own in the common one.
 *
 * @throws FlowConfigError when other users could read or replace what is in it, or when its path is too long for a socket.
 */
export function openFolder(operator: string, name: string, common: string): string {
  const own = folderOf(name, common);
  // A named pipe has a name of its own.
  if (process.platform !== 'win32' && Buffer.byteLength(own) + 1 + SOCKET_LENGTH > LONGEST_PATH)
    throw check.misused(
      operator,
      'folder',
      `the folder \`${common}\` is too long for the path of a socket`,
      `Pass a \`folder\` of at most ${LONGEST_PATH - HASH_LENGTH - SOCKET_LENGTH - 2} bytes.`,
    );
  makeFolder(operator, common);
  refuseShared(operator, common);
  makeFolder(operator, own);
  return own;
}

export function folderOf(name: string, common: string): string {
  return join(common, createHash('sha256').update(JSON.stringify(name)).digest('hex').slice(0, HASH_LENGTH));
}

/** The runtime folder of the user, which is gone when they log out or the machine restarts. */
export function defaultFolder(): string {
  const { XDG_RUNTIME_DIR: runtime = '' } = process.env;
  const user = process.geteuid?.();
  if (isAbsolute(runtime) && ownerOf(runtime) === user) return join(runtime, 'sluice');
  // On Windows the folder for temporary files is the user's own.
  return join(tmpdir(), user === undefined ? 'sluice' : `sluice-${user}`);
}

function ownerOf(path: string): number {
  try {
    return statSync(path).uid;
  } catch {
    return -1;
  }
}

function makeFolder(operator: string, folder: string): void {
  try {
    mkdirSync(folder, { recursive: true, mode: OWN_FOLDER });
  } catch (error) {
    throw unusable(operator, `cannot create the folder \`${folder}\` (${String((error as NodeJS.ErrnoException).code)})`);
  }
}

/** A folder that others may write to could be replaced by theirs. */
function refuseShared(operator: string, folder: string): void {
  if (process.platform === 'win32') return;
  const found = lstatSync(folder);
  const { mode, uid } = found;
  if (!found.isDirectory()) throw unusable(operator, `\`${folder}\` is a link`);
  if (uid !== process.geteuid?.()) throw unusable(operator, `the folder \`${folder}\` belongs to another user`);
  if ((mode & OTHERS) !== 0)
    throw unusable(operator, `other users have rights to the folder \`${folder}\``, `Run \`chmod 700\` on it, or pass another \`folder\`.`);
}

function unusable(operator: string, problem: string, repair = 'Remove it, or pass another `folder`.'): Error {
  return check.misused(operator, 'folder', problem, repair);
}
