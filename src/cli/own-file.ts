import { open, stat, writeFile } from 'node:fs/promises';
import { errorCode, onDisk } from '../journal/file-error.js';
import { OWN_FILE_MODE } from '../journal/file-mode.js';
import { MARK } from '../journal/lines.js';
import { CliError, EXIT } from './exit.js';

/** Of folders that are created for files of ours. */
export const OWN_FOLDER_MODE = 0o700;

/** The mode that takes the place of a file: its own, or that of a new one. */
export async function modeAt(path: string): Promise<number> {
  return ((await stat(path).catch(() => undefined))?.mode ?? OWN_FILE_MODE) & 0o777;
}

/** Creates or overwrites a file of ours. */
export async function writeOwnFile(path: string, text: string): Promise<void> {
  await writeFile(path, text, { mode: OWN_FILE_MODE });
}

/**
 * Lets a path pass where nothing stands, or an empty file, or a file that begins with this mark. Whatever else is there was
 * written by somebody else, and would be lost.
 *
 * @param shown what the user called the path.
 * @throws CliError (exit code 2) when the file is not ours; it is only read.
 */
export async function refuseForeignFile(path: string, shown: string, mark: string, kind: string): Promise<void> {
  const start = await onDisk(`read \`${shown}\``, () => readStart(path, Buffer.byteLength(mark)));
  if (start === '' || start.startsWith(mark)) return;
  throw new CliError(EXIT.usage, `\`${shown}\` is there already and is not ${kind}; give another name, or remove it first`);
}

/** Empty when there is nothing, or something else than a file: a folder cannot be written, and a device has nothing to lose. */
async function readStart(path: string, bytes: number): Promise<string> {
  try {
    if (!(await stat(path)).isFile()) return '';
    const file = await open(path, 'r');
    try {
      // With the mark of a byte order in front.
      const most = bytes + 3;
      const { buffer, bytesRead } = await file.read(Buffer.alloc(most), 0, most, 0);
      return buffer.toString('utf8', 0, bytesRead).replace(MARK, '');
    } finally {
      await file.close();
    }
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes(errorCode(error) ?? '')) return '';
    throw error;
  }
}
