import { resolve } from 'node:path';
import { visible } from './visible.js';

/** What the command has of the process it runs in: as much of `process` as it uses. */
export interface Host {
  /** The first two are the program and its script. */
  readonly argv: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  readonly stdout: { write(text: string): unknown };
  readonly stderr: NodeJS.WriteStream;
  /** Where the live display moves the cursor: `stderr` without escaping. @defaultValue `stderr` */
  readonly terminal?: NodeJS.WriteStream;
  /** Set by a command that ended with something to tell. */
  exitCode?: number | string | null | undefined;
  cwd(): string;
  on(signal: 'SIGINT' | 'SIGTERM', listener: () => void): unknown;
  off(signal: 'SIGINT' | 'SIGTERM', listener: () => void): unknown;
}

/** The same host, on whose standard output and standard error every control character is visible instead of acted upon. */
export function visibleHost(host: Host): Host {
  const shown = <T extends Host['stdout']>(stream: T): T =>
    Object.create(stream, { write: { value: (text: string) => stream.write(visible(text)) } }) as T;
  return {
    ...{ argv: host.argv, env: host.env, stdout: shown(host.stdout), stderr: shown(host.stderr), terminal: host.stderr },
    get exitCode() {
      return host.exitCode;
    },
    set exitCode(code) {
      host.exitCode = code;
    },
    cwd: () => host.cwd(),
    on: (signal, listener) => host.on(signal, listener),
    off: (signal, listener) => host.off(signal, listener),
  };
}

/** A path of the command line, absolute. */
export function pathOf(host: Pick<Host, 'cwd'>, path: string): string {
  return resolve(host.cwd(), path);
}
