import { once } from 'node:events';
import { createWriteStream, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { finished } from 'node:stream/promises';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { RunJob } from '../../src/cli/run/run-job.js';
import { planRun } from '../../src/cli/run/run-plan.js';
import { collectNow } from '../support/garbage.js';

vi.setConfig({ testTimeout: 1_200_000 });

const SIZES = [10_000, 100_000, 1_000_000];
const MOST_GROWTH = 1.1;
/** Not one of them: a run that is over already has nothing to do. */
const WARM_UP = 30_000;
const MIB = 1024 * 1024;

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-memory-'));
});
afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

/** Rows with a text of 200 characters. */
async function write(rows: number): Promise<void> {
  const file = createWriteStream(join(folder, 'in.jsonl'));
  const text = 'some words of a note, and more of them. '.repeat(5);
  for (let i = 0; i < rows; i++) if (!file.write(`${JSON.stringify({ id: `r${String(i)}`, text })}\n`)) await once(file, 'drain');
  file.end();
  await finished(file);
}

/** Most memory that was in use after a collection, in three moments of a run. What a row takes is measured in `bench/bulk-run.ts`. */
async function measure(rows: number): Promise<{ readonly rows: number; readonly bytes: number }> {
  await write(rows);
  const config = {
    model: { baseUrl: 'http://127.0.0.1:9' },
    stages: [{ name: 'part', chunk: { field: 'text' } }],
    input: { path: 'in.jsonl' },
    output: { path: `out-${String(rows)}.jsonl` },
  };
  const job = new RunJob(
    {
      plan: planRun(config, join(folder, 'run.yaml'), { env: {}, cwd: () => folder }),
      limit: Infinity,
      maxUsd: undefined,
      retryFailed: false,
      events: undefined,
    },
    { stop: new AbortController().signal, abort: new AbortController().signal },
  );
  let bytes = 0;
  const marks = [0.3, 0.6, 0.9];
  const looking = setInterval(() => {
    if (job.view().progress.share < (marks[0] ?? Infinity)) return;
    marks.shift();
    collectNow();
    const { heapUsed, external } = process.memoryUsage();
    bytes = Math.max(bytes, heapUsed + external);
  }, 5);
  const { exitCode, results } = await job.run().finally(() => {
    clearInterval(looking);
  });
  expect([exitCode, results.written]).toEqual([0, rows]);
  return { rows, bytes };
}

it(`needs no more memory for ${SIZES.join(', ')} rows`, async () => {
  // Whatever is loaded and compiled once.
  await measure(WARM_UP);
  const all: Awaited<ReturnType<typeof measure>>[] = [];
  for (const rows of SIZES) all.push(await measure(rows));
  const told = all.map(({ rows, bytes }) => `${String(rows)} rows: ${(bytes / MIB).toFixed(1)} MiB`).join('; ');
  process.stdout.write(`${told}\n`);
  const sizes = all.map(({ bytes }) => bytes);
  expect(Math.max(...sizes) / Math.min(...sizes), told).toBeLessThan(MOST_GROWTH);
});
