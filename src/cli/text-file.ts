import { readFile } from 'node:fs/promises';
import { errorCode } from '../journal/file-error.js';
import { CliError, EXIT } from './exit.js';

/**
 * A text that the user has written, without a mark at its beginning.
 *
 * @param what what the user knows it as: "the list `x`".
 * @throws CliError (exit code 2) when it cannot be read, or is not UTF-8.
 */
export async function readTextFile(path: string, what: string): Promise<string> {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(await readFile(path));
  } catch (error) {
    throw new CliError(EXIT.usage, `cannot read ${what}: ${reasonOf(error)}`, error);
  }
}

function reasonOf(error: unknown): string {
  const code = errorCode(error);
  if (code === 'ENOENT') return 'there is no such file';
  return code === 'ERR_ENCODING_INVALID_ENCODED_DATA' ? 'it is not UTF-8' : (code ?? 'it cannot be read');
}
