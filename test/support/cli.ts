import { type ChildProcess, spawn } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { build } from 'esbuild';

const root = resolve(import.meta.dirname, '../..');

export interface CliResult {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface CliRun {
  readonly child: ChildProcess;
  /** Resolves to the match when standard output or standard error matches. */
  prints(pattern: RegExp): Promise<RegExpExecArray>;
  readonly ended: Promise<CliResult>;
}

export interface CliOptions {
  /** @defaultValue the repository */
  readonly cwd?: string;
  readonly env?: NodeJS.ProcessEnv;
  /** User to run as. @defaultValue the one who runs the tests */
  readonly uid?: number | undefined;
}

export interface Cli {
  /** Starts the command; keys and addresses of the machine's own environment are left out. */
  start(args: readonly string[], options?: CliOptions): CliRun;
  run(args: readonly string[], options?: CliOptions): Promise<CliResult>;
  /** Path of the bundle, for tests that start it in their own way. */
  readonly file: string;
  remove(): void;
}

/**
 * Bundles the command as the build does, inside the repository, so that it finds the package it belongs to.
 *
 * @param withPages and what `sluice inspect` puts into its pages
 */
export async function buildCli(withPages = false): Promise<Cli> {
  const cache = join(root, 'node_modules', '.cache');
  mkdirSync(cache, { recursive: true });
  const folder = mkdtempSync(join(cache, 'sluice-cli-'));
  // Readable for tests that run the command as somebody else.
  chmodSync(folder, 0o755);
  const file = join(folder, 'cli.mjs');
  await build({
    entryPoints: [join(root, 'src/cli/main.ts')],
    outfile: file,
    bundle: true,
    format: 'esm',
    platform: 'node',
    target: 'es2022',
    minifyWhitespace: true,
    minifySyntax: true,
    banner: { js: "import { createRequire } from 'node:module';\nconst require = createRequire(import.meta.url);" },
    logLevel: 'error',
  });
  if (withPages) {
    await build({
      entryPoints: [join(root, 'src/cli/inspect/page.ts')],
      outfile: join(folder, 'inspect-page.js'),
      bundle: true,
      minify: true,
      format: 'esm',
      platform: 'browser',
      target: 'es2022',
      logLevel: 'error',
    });
  }
  const start: Cli['start'] = (args, { cwd = root, env = {}, uid } = {}) => {
    const { SLUICE_API_KEY: _s, OPENAI_API_KEY: _o, SLUICE_BASE_URL: _b, ...inherited } = process.env;
    return watch(
      spawn(process.execPath, [file, ...args], {
        cwd,
        env: { ...inherited, ...env },
        stdio: ['ignore', 'pipe', 'pipe'],
        ...(uid !== undefined && { uid }),
      }),
    );
  };
  return {
    start,
    run: (args, options) => start(args, options).ended,
    file,
    remove: () => {
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Collects what a child process prints. */
export function watch(child: ChildProcess): CliRun {
  let stdout = '';
  let stderr = '';
  const waiting = new Set<() => void>();
  const onText = (add: (text: string) => void) => (text: string) => {
    add(text);
    for (const look of waiting) look();
  };
  child.stdout?.setEncoding('utf8').on(
    'data',
    onText((text) => (stdout += text)),
  );
  child.stderr?.setEncoding('utf8').on(
    'data',
    onText((text) => (stderr += text)),
  );
  const ended = new Promise<CliResult>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code, signal) => {
      resolve({ code, signal, stdout, stderr });
    });
  });
  const prints = (pattern: RegExp): Promise<RegExpExecArray> =>
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
    });
  return { child, prints, ended };
}
