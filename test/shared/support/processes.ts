import type { ChildProcess } from 'node:child_process';
import { fork } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { build } from 'esbuild';
import { onTestFinished } from 'vitest';
import type { Arrival, FromChild, LimiterPlan, ToChild } from './plans.js';

const root = resolve(import.meta.dirname, '../../..');

export interface Child {
  readonly process: ChildProcess;
  readonly pid: number;
  /** Names of the events of its limiter, with their time. */
  readonly events: { readonly event: string; readonly at: number }[];
  /** Resolves when it has done all its jobs. */
  readonly done: Promise<void>;
  readonly ended: Promise<{ readonly code: number | null; readonly signal: NodeJS.Signals | null }>;
  /** Lets its jobs begin. */
  start(): void;
  /** Keeps its event loop busy for so long. */
  block(ms: number): void;
  kill(signal?: NodeJS.Signals): void;
}

export interface Provider {
  readonly address: string;
  /** All calls so far, in the order in which they arrived. */
  arrivals(): Promise<readonly Arrival[]>;
}

/**
 * A new folder, gone after the test.
 *
 * @param whenFinished - that of the context of a concurrent test
 */
export function testFolder(whenFinished: (clean: () => void) => void = onTestFinished): string {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-test-'));
  whenFinished(() => {
    rmSync(folder, { recursive: true, force: true });
  });
  return folder;
}

let bundle: Promise<string> | undefined;

/** The program of the children as one file: it starts in a tenth of a second. Made once in a process that runs tests. */
export function childProgram(): Promise<string> {
  return (bundle ??= bundled());
}

async function bundled(): Promise<string> {
  const outfile = join(mkdtempSync(join(tmpdir(), 'sluice-child-')), 'child.mjs');
  process.once('exit', () => {
    rmSync(resolve(outfile, '..'), { recursive: true, force: true });
  });
  await build({
    entryPoints: [join(import.meta.dirname, 'child.ts')],
    absWorkingDir: root,
    outfile,
    bundle: true,
    format: 'esm',
    platform: 'node',
    target: 'es2022',
    // ioredis is a CommonJS module.
    banner: { js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);" },
    alias: { '#async-context': join(root, 'src/async-context.ts') },
    logLevel: 'error',
  });
  return outfile;
}

/** A process with a limiter. It is ready, and begins when it is told to. The end of the test kills it. */
export async function startLimiter(plan: LimiterPlan): Promise<Child> {
  const child = await startChild('limiter', JSON.stringify(plan));
  const events: { event: string; at: number }[] = [];
  let isDone = (): void => undefined;
  const done = new Promise<void>((settle) => {
    isDone = settle;
  });
  const ended = new Promise<{ code: number | null; signal: NodeJS.Signals | null }>((settle) => {
    child.once('exit', (code, signal) => {
      settle({ code, signal });
    });
  });
  await new Promise<void>((ready, failed) => {
    void ended.then(({ code }) => {
      failed(new Error(`ended with ${String(code)}`));
    });
    child.on('message', (message: FromChild) => {
      if (message.type === 'ready') ready();
      else if (message.type === 'done') isDone();
      else if (message.type === 'event') events.push(message);
    });
  });
  const tell = (message: ToChild): void => {
    child.send(message);
  };
  return {
    process: child,
    pid: child.pid as number,
    events,
    done,
    ended,
    start: () => {
      tell({ type: 'start' });
    },
    block: (ms) => {
      tell({ type: 'block', ms });
    },
    kill: (signal = 'SIGKILL') => child.kill(signal),
  };
}

/** A process that notes what arrives. */
export async function startProvider(): Promise<Provider> {
  const address = join(testFolder(), 'provider');
  const child = await startChild('provider', address);
  const heard = (type: FromChild['type']): Promise<FromChild> =>
    new Promise((settle) => {
      const listen = (message: FromChild): void => {
        if (message.type !== type) return;
        child.off('message', listen);
        settle(message);
      };
      child.on('message', listen);
    });
  await heard('listening');
  return {
    address,
    arrivals: async () => {
      const answer = heard('arrivals');
      child.send({ type: 'report' } satisfies ToChild);
      const message = await answer;
      return message.type === 'arrivals' ? message.arrivals : [];
    },
  };
}

async function startChild(role: 'limiter' | 'provider', given: string): Promise<ChildProcess> {
  const child = fork(await childProgram(), [role, given], { execArgv: [] });
  onTestFinished(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise((settle) => child.once('exit', settle));
    child.kill('SIGKILL');
    await ended;
  });
  return child;
}
