import { resolve } from 'node:path';

/** What the command has of the process it runs in: as much of `process` as it uses. */
export interface Host {
  /** The first two are the program and its script. */
  readonly argv: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  readonly stdout: { write(text: string): unknown };
  readonly stderr: NodeJS.WriteStream;
  /** Set by a command that ended with something to tell. */
  exitCode?: number | string | null | undefined;
  cwd(): string;
  on(signal: 'SIGINT' | 'SIGTERM', listener: () => void): unknown;
  off(signal: 'SIGINT' | 'SIGTERM', listener: () => void): unknown;
}

/** A path of the command line, absolute. */
export function pathOf(host: Pick<Host, 'cwd'>, path: string): string {
  return resolve(host.cwd(), path);
}
