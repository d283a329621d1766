/** What the `sluice` command answers to the shell. */
export const EXIT = {
  ok: 0,
  /** Finished, but rows failed. */
  incomplete: 1,
  /** Wrong options, unknown or unusable files. */
  usage: 2,
  /** Server not reachable, key refused, model unknown. */
  provider: 3,
  /** A file could not be written. */
  disk: 4,
  /** Another process is writing the same file. */
  busy: 5,
  /** The budget is spent. */
  budget: 6,
  interrupted: 130,
} as const;

export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/** Ends the command with one sentence and this exit code; everything else that is thrown is a bug and shows its stack. */
export class CliError extends Error {
  override readonly name = 'CliError';
  constructor(
    readonly exitCode: ExitCode,
    message: string,
    cause?: unknown,
  ) {
    super(message, cause === undefined ? undefined : { cause });
  }
}

/** Runs file work; a system error in it becomes the sentence "cannot <action>: …" and exit code 4. */
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
  if (code === undefined || error instanceof CliError) return error instanceof Error ? error : new Error(String(error));
  return new CliError(EXIT.disk, `cannot ${action}: ${REASONS[code] ?? 'the system refused'} (${code})`, error);
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
