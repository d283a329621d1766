import { type ChildProcess, spawn } from 'node:child_process';
import { resolve } from 'node:path';
import { type CliChild, watch } from './cli.js';

const root = resolve(import.meta.dirname, '../..');

const started = new Set<ChildProcess>();

/** Ends the processes that a failed test has left running. */
export function stopAll(): void {
  for (const child of started) child.kill('SIGKILL');
  started.clear();
}

/** Starts a script of the examples. */
function start(args: readonly string[], env: NodeJS.ProcessEnv = {}): CliChild {
  const { OPENAI_API_KEY: _, ...inherited } = process.env;
  const child = spawn(process.execPath, args, { cwd: root, env: { ...inherited, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
  started.add(child);
  return watch(child);
}

/** Starts the model server with the real model, on a free port. */
export async function startServer(...flags: readonly string[]): Promise<CliChild & { readonly baseUrl: string }> {
  const server = startServe('--port', '0', ...flags);
  const [, baseUrl = ''] = await server.prints(/^listening on (http:\/\/127\.0\.0\.1:\d+\/v1)\n/);
  return { ...server, baseUrl };
}

/** Starts the model server, which may refuse its flags. */
export function startServe(...flags: readonly string[]): CliChild {
  return start(['examples/model-server/serve.mjs', ...flags]);
}

/** Starts the command of the example. */
export function startSearch(args: readonly string[], env?: NodeJS.ProcessEnv): CliChild {
  return start(['--import', 'tsx', 'examples/semantic-search/cli.ts', ...args], env);
}
