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

/** What a process of its own does: a run that is timed, one that is weighed, short runs until it is stopped, or the server that they ask. */
interface Task {
  readonly what: 'time' | 'weigh' | 'beside' | 'serve';
  readonly folder: string;
  readonly rows: number;
  /** Empty: texts are cut, and no server is called. */
  readonly baseUrl: string;
}

interface Times {
  readonly rows: number;
  readonly ms: number;
  readonly cpuMicros: number;
}

const TASK = 'SLUICE_BULK_RUN';
/** Rows of short runs. */
const SHORT = 10_000;
/** Rows of a run before those that are timed. */
const WARM_UP = 30_000;
const LOOKS = 10;
const MIB = 1024 * 1024;
const TEXT = 'some words of a note, and more of them. '.repeat(5);

/** `--only cut` does one of them, `--only 'cut 1000000'` one size. */
const CONTESTS = [
  { name: 'cut', sizes: [SHORT, 100_000, 1_000_000], asks: false },
  { name: 'ask', sizes: [SHORT, 100_000], asks: true },
];

/** `sluice run` on inputs of several sizes: what a row takes, beside short runs at the same time, and whether memory grows. */
export async function* bulkRunTables(only = ''): AsyncGenerator<string> {
  const server = start({ what: 'serve', folder: '', rows: 0, baseUrl: '' });
  try {
    const { baseUrl } = await answerOf<{ baseUrl: string }>(server);
    for (const { name, sizes, asks } of CONTESTS) {
      const rows: string[][] = [];
      for (const size of sizes) if (['', name, `${name} ${String(size)}`].includes(only)) rows.push(await row(size, asks ? baseUrl : ''));
      const heads = ['rows', 'rows/s', 'short runs meanwhile', 'CPU µs a row', 'short runs meanwhile', 'MiB at least', 'at most'];
      if (rows.length > 0) yield `${name}\n\n${table(heads, rows)}`;
    }
  } finally {
    server.kill();
  }
}

async function row(rows: number, baseUrl: string): Promise<string[]> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-bulk-'));
  try {
    await write(join(folder, 'in.jsonl'), rows);
    await write(join(folder, 'short.jsonl'), SHORT);
    const beside = start({ what: 'beside', folder, rows: SHORT, baseUrl });
    const others: Times[] = [];
    beside.on('message', (times) => others.push(times as Times));
    const times = await answerOf<Times>(start({ what: 'time', folder, rows, baseUrl }));
    if (others.length === 0) await once(beside, 'message');
    beside.kill();
    const mebibytes = await answerOf<number[]>(start({ what: 'weigh', folder, rows, baseUrl }));
    const short = others.reduce((sum, one) => ({
      rows: sum.rows + one.rows,
      ms: sum.ms + one.ms,
      cpuMicros: sum.cpuMicros + one.cpuMicros,
    }));
    return [
      rows.toLocaleString('en'),
      ...[times, short].map(({ rows: done, ms }) => ((done / ms) * 1000).toFixed(0)),
      ...[times, short].map(({ rows: done, cpuMicros }) => (cpuMicros / done).toFixed(0)),
      ...[Math.min(...mebibytes), Math.max(...mebibytes)].map((each) => each.toFixed(1)),
    ];
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function write(path: string, rows: number): Promise<void> {
  const file = createWriteStream(path);
  for (let i = 0; i < rows; i++) if (!file.write(`${JSON.stringify({ id: `r${String(i)}`, text: TEXT })}\n`)) await once(file, 'drain');
  file.end();
  await finished(file);
}

function start(task: Task): ChildProcess {
  return spawn(process.execPath, [import.meta.filename], {
    env: { ...process.env, [TASK]: JSON.stringify(task) },
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
}

async function answerOf<A>(child: ChildProcess): Promise<A> {
  const ended = once(child, 'exit').then(([code]) => {
    throw new Error(`ended with ${String(code)}`);
  });
  const [answer] = (await Promise.race([once(child, 'message'), ended])) as unknown[];
  ended.catch(() => undefined);
  return answer as A;
}

// ---- in a process of its own ----------------------------------------------------------------------------------------

/** A run to its end, or of so many rows; told now and then how many are done. */
async function run(
  { folder, baseUrl }: Task,
  input: string,
  output: string,
  rows: number,
  look: (done: number) => void = () => undefined,
): Promise<Times> {
  const config = {
    model: { baseUrl: baseUrl === '' ? 'http://127.0.0.1:9' : baseUrl, model: 'm' },
    batches: { concurrency: 16 },
    stages: [baseUrl === '' ? { name: 'part', chunk: { field: 'text' } } : { name: 'reply', prompt: 'say {{text}}' }],
    input: { path: input },
    output: { path: output },
  };
  const never = new AbortController().signal;
  const plan = planRun(config, join(folder, 'run.yaml'), { env: {}, cwd: () => folder });
  const job = new RunJob({ plan, limit: rows, maxUsd: undefined, retryFailed: false, events: undefined }, { stop: never, abort: never });
  const looking = setInterval(() => {
    const { progress, earlier } = job.view();
    look(progress.finished - earlier);
  }, 50);
  const before = { at: performance.now(), cpu: process.cpuUsage() };
  const { exitCode, results } = await job.run();
  const { user, system } = process.cpuUsage(before.cpu);
  clearInterval(looking);
  if (exitCode !== 0 || results.written !== rows) throw new Error(`${results.written} of ${rows} rows, exit code ${exitCode}`);
  return { rows, ms: performance.now() - before.at, cpuMicros: user + system };
}

async function warmUp(task: Task): Promise<void> {
  for (let done = 0; done < WARM_UP; done += SHORT) await run(task, 'short.jsonl', `${task.what}-warm-${done}.jsonl`, SHORT);
}

async function beside(task: Task): Promise<never> {
  await warmUp(task);
  for (let i = 0; ; i++) {
    process.send?.(await run(task, 'short.jsonl', `beside-${i}.jsonl`, SHORT));
    for (const end of ['', '.journal']) rmSync(join(task.folder, `beside-${i}.jsonl${end}`), { force: true });
  }
}

/** What is in use after a collection, on and off the heap. By itself: a collection throws away compiled code, too. */
async function weigh(task: Task): Promise<number[]> {
  await warmUp(task);
  const mebibytes: number[] = [];
  await run(task, 'in.jsonl', 'weighed.jsonl', task.rows, (done) => {
    if (done < ((mebibytes.length + 1) * task.rows) / LOOKS) return;
    collectGarbage();
    const { heapUsed, external } = process.memoryUsage();
    mebibytes.push((heapUsed + external) / MIB);
  });
  return mebibytes;
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

async function time(task: Task): Promise<Times> {
  await warmUp(task);
  return run(task, 'in.jsonl', 'timed.jsonl', task.rows);
}

const given = process.env[TASK];
if (given !== undefined) {
  const task = JSON.parse(given) as Task;
  const answer = await { time, weigh, beside, serve }[task.what](task);
  process.send?.(answer);
  if (task.what !== 'serve') process.disconnect();
}
