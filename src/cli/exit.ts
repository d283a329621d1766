import { FileError } from '../journal/file-error.js';

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

const FILE_EXITS = { disk: EXIT.disk, busy: EXIT.busy, foreign: EXIT.usage } as const;

/** The exit code of an error that is one sentence for the user; undefined for a bug. */
export function exitCodeOf(error: unknown): ExitCode | undefined {
  if (error instanceof CliError) return error.exitCode;
  return error instanceof FileError ? FILE_EXITS[error.fault] : undefined;
}
