/** What is wrong with a file: the system cannot read or write it, another process has it, it was made by something else. */
export type FileFault = 'disk' | 'busy' | 'foreign';

/** One sentence about a file, to be shown as it stands. */
export class FileError extends Error {
  override readonly name = 'FileError';
  constructor(
    readonly fault: FileFault,
    message: string,
    cause?: unknown,
  ) {
    super(message, cause === undefined ? undefined : { cause });
  }
}

/** Runs file work; a system error in it becomes the sentence "cannot <action>: …". */
export async function onDisk<R>(action: string, work: () => Promise<R>): Promise<R> {
  try {
    return await work();
  } catch (error) {
    throw diskError(action, error);
  }
}

/** The error itself when it is no system error. */
export function diskError(action: string, error: unknown): Error {
  const code = errorCode(error);
  if (code === undefined) return error instanceof Error ? error : new Error(String(error));
  return new FileError('disk', `cannot ${action}: ${REASONS[code] ?? 'the system refused'} (${code})`, error);
}

const REASONS: Readonly<Record<string, string>> = {
  ENOSPC: 'the disk is full',
  EDQUOT: 'the disk quota is used up',
  EFBIG: 'the file would grow beyond the allowed size',
  EACCES: 'permission denied',
  EPERM: 'permission denied',
  EROFS: 'the file system is read-only',
  ENOENT: 'the folder does not exist',
  ENOTDIR: 'a part of the path is not a folder',
  EISDIR: 'there is a folder of that name',
};

/** `ENOENT` and the like; undefined when the error carries no code. */
export function errorCode(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | null | undefined)?.code;
  return typeof code === 'string' ? code : undefined;
}
