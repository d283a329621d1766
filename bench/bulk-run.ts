import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream, mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { finished } from 'node:stream/promises';
import { RunJob } from '../src/cli/run/run-job.js';
import { planRun } from '../src/cli/run/run-plan.js';
import { collectGarbage, table } from './harness.js';

/** What a process of its own is to do: a run of so many rows, or the server that they ask. */
type Task = { readonly what: 'serve' } | { readonly what: 'run'; readonly folder: string; readonly rows: number; readonly baseUrl: string };

/** A run in a process that has done another one before: all code is compiled. */
interface Measured {
  readonly rowsPerSecond: number;
  readonly cpuMicrosPerRow: number;
  /** In use after a collection, on and off the heap; at each tenth of the run. */
  readonly mebibytes: readonly number[];
}

const TASK = 'SLUICE_BULK_RUN';
/** Rows of a run before the one that is measured, and of that one before anything is. */
const WARM_UP = 30_000;
const FIRST = 2000;
const LOOKS = 10;
const MIB = 1024 * 1024;
const TEXT = 'some words of a note, and more of them. '.repeat(5);

/** `--only` takes those whose name says so: `cut 1000000`. */
const CONTESTS = [
  { name: 'cut', sizes: [10_000, 100_000, 1_000_000], asks: false },
  { name: 'ask', sizes: [10_000, 100_000], asks: true },
];

/** `sluice run` on inputs of several sizes: what a row takes, and whether memory grows. */
export async function* bulkRunTables(only = ''): AsyncGenerator<string> {
  const server = start({ what: 'serve' });
  try {
    const { baseUrl } = (await told(server)) as { baseUrl: string };
    for (const { name, sizes, asks } of CONTESTS) {
      const rows: string[][] = [];
      for (const size of sizes) {
        if (!`${name} ${String(size)}`.includes(only)) continue;
        const { rowsPerSecond, cpuMicrosPerRow, mebibytes } = await measured(size, asks ? baseUrl : '');
        const shown = [mebibytes[0], Math.max(...mebibytes), mebibytes.at(-1)].map((each) => (each ?? 0).toFixed(1));
        rows.push([size.toLocaleString('en'), rowsPerSecond.toFixed(0), cpuMicrosPerRow.toFixed(0), ...shown]);
      }
      const heads = ['rows', 'rows/s', 'CPU µs a row', 'MiB at a tenth', 'most', 'at the end'];
      if (rows.length > 0) yield `${name}\n\n${table(heads, rows)}`;
    }
  } finally {
    server.kill();
  }
}

async function measured(rows: number, baseUrl: string): Promise<Measured> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-bulk-'));
  try {
    const file = createWriteStream(join(folder, 'in.jsonl'));
    for (let i = 0; i < rows; i++) if (!file.write(`${JSON.stringify({ id: `r${String(i)}`, text: TEXT })}\n`)) await once(file, 'drain');
    file.end();
    await finished(file);
    return (await told(start({ what: 'run', folder, rows, baseUrl }))) as Measured;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function start(task: Task): ChildProcess {
  return spawn(process.execPath, [import.meta.filename], {
    env: { ...process.env, [TASK]: JSON.stringify(task) },
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
}

async function told(child: ChildProcess): Promise<unknown> {
  const [message] = (await Promise.race([
    once(child, 'message'),
    once(child, 'exit').then(([code]) => {
      throw new Error(`ended with ${String(code)}`);
    }),
  ])) as unknown[];
  return message;
}

// ---- in a process of its own ----------------------------------------------------------------------------------------

async function run({ folder, rows, baseUrl }: Extract<Task, { what: 'run' }>): Promise<Measured> {
  const jobOf = (output: string, limit: number): RunJob => {
    const config = {
      model: { baseUrl: baseUrl === '' ? 'http://127.0.0.1:9' : baseUrl, model: 'm' },
      batches: { concurrency: 16 },
      stages: [baseUrl === '' ? { name: 'part', chunk: { field: 'text' } } : { name: 'reply', prompt: 'say {{text}}' }],
      input: { path: 'in.jsonl' },
      output: { path: output },
    };
    const never = new AbortController().signal;
    const plan = planRun(config, join(folder, 'run.yaml'), {});
    return new RunJob({ plan, limit, maxUsd: undefined, retryFailed: false, events: undefined }, { stop: never, abort: never });
  };
  for (let warm = 0; warm < WARM_UP; warm += rows) await jobOf(`warm-${String(warm)}.jsonl`, WARM_UP).run();

  let began: { readonly done: number; readonly at: number; readonly micros: number } | undefined;
  let ended = { done: 0, at: 0, micros: 0 };
  await watched(jobOf('timed.jsonl', Infinity), rows, (done) => {
    ended = { done, at: performance.now(), micros: cpuMicros() };
    if (done >= FIRST) began ??= ended;
  });
  if (began === undefined) throw new Error('it was over before anybody looked');
  const done = ended.done - began.done;
  const rowsPerSecond = (done / (ended.at - began.at)) * 1000;
  const cpuMicrosPerRow = (ended.micros - began.micros) / done;

  // By itself: a collection throws away compiled code, too.
  const mebibytes: number[] = [];
  await watched(jobOf('weighed.jsonl', Infinity), rows, (done) => {
    if (done < ((mebibytes.length + 1) * rows) / LOOKS) return;
    collectGarbage();
    const { heapUsed, external } = process.memoryUsage();
    mebibytes.push((heapUsed + external) / MIB);
  });
  return { rowsPerSecond, cpuMicrosPerRow, mebibytes };
}

/** Runs it to its end, and looks now and then at how many rows are done. */
async function watched(job: RunJob, rows: number, look: (done: number) => void): Promise<void> {
  const looking = setInterval(() => {
    look(job.view().rows.done);
  }, 50);
  const { exitCode, items } = await job.run();
  clearInterval(looking);
  if (exitCode !== 0 || items.written !== rows)
    throw new Error(`${String(items.written)} of ${String(rows)} rows, exit code ${String(exitCode)}`);
}

function cpuMicros(): number {
  const { user, system } = process.cpuUsage();
  return user + system;
}

/** Answers every chat with the same word. */
async function serve(): Promise<{ baseUrl: string }> {
  const message = { role: 'assistant', content: 'said' };
  const usage = { prompt_tokens: 50, completion_tokens: 1 };
  const body = JSON.stringify({ choices: [{ index: 0, message, finish_reason: 'stop' }], usage });
  const server = createServer((request, response) => {
    request.resume().on('end', () => response.writeHead(200, { 'content-type': 'application/json' }).end(body));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { baseUrl: `http://127.0.0.1:${String((server.address() as AddressInfo).port)}/v1` };
}

const given = process.env[TASK];
if (given !== undefined) {
  const task = JSON.parse(given) as Task;
  const answer = task.what === 'serve' ? await serve() : await run(task);
  process.send?.(answer);
  if (task.what === 'run') process.disconnect();
}
