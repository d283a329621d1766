import { readlink, realpath, stat } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { errorCode } from './file-error.js';

/** What is equal of two paths that lead to one file, over links or under two names, whether it is there already or not. */
export async function identityOf(path: string): Promise<string> {
  const found = await stat(path, { bigint: true }).catch(() => undefined);
  return found === undefined ? await placeOf(path) : `${String(found.dev)} ${String(found.ino)}`;
}

/** Where a path leads without links; what is not there yet, where it will be. */
export async function placeOf(path: string): Promise<string> {
  try {
    return await realpath(path);
  } catch (error) {
    const parent = dirname(path);
    if (errorCode(error) !== 'ENOENT' || parent === path) return path;
    const target = await readlink(path).catch(() => undefined);
    return target === undefined ? join(await placeOf(parent), basename(path)) : placeOf(resolve(await placeOf(parent), target));
  }
}
