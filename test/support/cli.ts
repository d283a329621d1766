import { type ChildProcess, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { EventEmitter } from 'node:events';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { type BuildOptions, build } from 'esbuild';
import { onTestFinished } from 'vitest';
import { COMMAND } from '../../.ci/command.js';
import { runCommandLine } from '../../src/cli/command-line.js';

const root = resolve(import.meta.dirname, '../..');

export interface CliResult {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface CliRun {
  /** Resolves to the match when standard output or standard error matches. */
  prints(pattern: RegExp): Promise<RegExpExecArray>;
  readonly ended: Promise<CliResult>;
}

export interface CliChild extends CliRun {
  readonly child: ChildProcess;
}

/** The command in this process. */
export interface CliHere extends CliRun {
  /** False when no listener is left: a process would have ended. */
  kill(signal: 'SIGINT' | 'SIGTERM'): boolean;
}

export interface CliOptions {
  /** @defaultValue the repository */
  readonly cwd?: string;
  /** Of the machine's own environment, a process has all but keys and addresses, the command in this process has nothing. */
  readonly env?: NodeJS.ProcessEnv;
}

/** As a process. */
export interface Cli {
  /** @param uid user to run as; default: the user that runs the tests. */
  start(args: readonly string[], options?: CliOptions & { readonly uid?: number | undefined }): CliChild;
  /** Path of the bundle, for tests that start it in their own way. */
  readonly file: string;
}

let bundle: Promise<string> | undefined;

/** The command bundled as the build does, once for each process that runs tests: for what only a process of its own can show. */
export async function buildCli(): Promise<Cli> {
  const file = join(await (bundle ??= buildBundle()), 'cli.mjs');
  return {
    start: (args, { cwd = root, env = {}, uid } = {}) => {
      const { SLUICE_API_KEY: _s, OPENAI_API_KEY: _o, SLUICE_BASE_URL: _b, ...inherited } = process.env;
      const options = { cwd, env: { ...inherited, ...env }, ...(uid !== undefined && { uid }) };
      return watch(spawn(process.execPath, [file, ...args], { ...options, stdio: ['ignore', 'pipe', 'pipe'] }));
    },
    file,
  };
}

const PAGE = 'inspect-page.js';
const MAX_AGE_MS = 24 * 3_600_000;

/** A folder by the name of its content, inside the repository, so that the command finds the package it belongs to. */
async function buildBundle(): Promise<string> {
  const common: BuildOptions = { bundle: true, format: 'esm', target: 'es2022', logLevel: 'error' };
  const [cli, page] = await Promise.all([
    textOf({ ...common, ...COMMAND, entryPoints: ['src/cli/main.ts'] }),
    textOf({ ...common, entryPoints: ['src/cli/inspect/page.ts'], platform: 'browser', minify: true }),
  ]);
  const cache = join(root, 'node_modules', '.cache', 'sluice-cli');
  const folder = join(cache, createHash('sha256').update(cli).update(page).digest('hex').slice(0, 16));
  if (existsSync(folder)) return folder;
  mkdirSync(cache, { recursive: true });
  for (const old of readdirSync(cache).map((name) => join(cache, name)))
    if (Date.now() - (statSync(old, { throwIfNoEntry: false })?.mtimeMs ?? 0) > MAX_AGE_MS) rmSync(old, { recursive: true, force: true });
  const made = mkdtempSync(join(cache, 'new-'));
  // Readable for tests that run the command as another user of the system.
  chmodSync(made, 0o755);
  writeFileSync(join(made, 'cli.mjs'), cli);
  writeFileSync(join(made, PAGE), page);
  try {
    renameSync(made, folder);
  } catch {
    // Another process was faster.
    rmSync(made, { recursive: true });
  }
  return folder;
}

async function textOf(options: BuildOptions): Promise<string> {
  const { outputFiles } = await build({ ...options, absWorkingDir: root, write: false });
  return outputFiles[0]?.text ?? '';
}

/** Runs the command in this process, as far as it goes. */
export function runHere(args: readonly string[], options?: CliOptions): Promise<CliResult> {
  return startHere(args, options).ended;
}

/** Starts the command in this process; the end of the test ends it. It has the pages of `sluice inspect` once {@link buildCli} was called. */
export function startHere(args: readonly string[], { cwd = root, env = {} }: CliOptions = {}): CliHere {
  const signals = new EventEmitter();
  const output = collect();
  const host = Object.assign(signals, {
    argv: ['node', 'sluice', ...args],
    env,
    cwd: () => cwd,
    stdout: { write: output.out },
    stderr: { write: output.err } as unknown as NodeJS.WriteStream,
    exitCode: 0,
  });
  const running = async (): Promise<CliResult> => {
    const folder = await (bundle ?? root);
    await runCommandLine(host, pathToFileURL(join(folder, PAGE)));
    return { code: host.exitCode, signal: null, ...output.text() };
  };
  const ended = running();
  const kill = (signal: 'SIGINT' | 'SIGTERM'): boolean => signals.emit(signal);
  onTestFinished(async () => {
    while (signals.emit('SIGTERM')) await new Promise(setImmediate);
    await ended;
  });
  return { kill, ended, prints: (pattern) => output.prints(pattern, ended) };
}

/** Collects what a child process prints. */
export function watch(child: ChildProcess): CliChild {
  const output = collect();
  child.stdout?.setEncoding('utf8').on('data', output.out);
  child.stderr?.setEncoding('utf8').on('data', output.err);
  const ended = new Promise<CliResult>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code, signal) => {
      resolve({ code, signal, ...output.text() });
    });
  });
  return { child, ended, prints: (pattern) => output.prints(pattern, ended) };
}

function collect() {
  let stdout = '';
  let stderr = '';
  const waiting = new Set<() => void>();
  const look = (): void => {
    for (const one of waiting) one();
  };
  return {
    out: (text: string): void => {
      stdout += text;
      look();
    },
    err: (text: string): void => {
      stderr += text;
      look();
    },
    text: () => ({ stdout, stderr }),
    prints: (pattern: RegExp, ended: Promise<unknown>): Promise<RegExpExecArray> =>
      new Promise((resolve, reject) => {
        const look = (): void => {
          const match = pattern.exec(stdout) ?? pattern.exec(stderr);
          if (match === null) return;
          waiting.delete(look);
          resolve(match);
        };
        waiting.add(look);
        look();
        void ended.then(() => {
          reject(new Error(`ended without printing ${String(pattern)}: ${stdout}${stderr}`));
        });
      }),
  };
}
