import { once } from 'node:events';
import { createWriteStream, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { finished } from 'node:stream/promises';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { RunJob } from '../../../src/cli/run/run-job.js';
import { planRun } from '../../../src/cli/run/run-plan.js';
import { isDeep } from '../../support/deep.js';
import { collectNow } from '../../support/garbage.js';

vi.setConfig({ testTimeout: 1_200_000 });

const SIZES = isDeep ? [10_000, 100_000, 1_000_000] : [3000, 9000];
/** What a run has for itself weighs more beside a few thousand rows, and differs from one run to the next. */
const MOST_GROWTH = isDeep ? 1.1 : 1.3;
/** Not one of them: a run that is over already has nothing to do. */
const WARM_UP = isDeep ? 30_000 : 2000;
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

interface Measured {
  readonly rows: number;
  /** Most memory that was in use after a collection, in three moments of a run. */
  readonly bytes: number;
  /** Of another one, without collections, which throw away compiled code, too; not measured in a short test. */
  readonly cpuMicrosPerRow: number;
}

async function run(rows: number, what: string, look: (share: number) => void): Promise<void> {
  const config = {
    model: { baseUrl: 'http://127.0.0.1:9' },
    stages: [{ name: 'part', chunk: { field: 'text' } }],
    input: { path: 'in.jsonl' },
    output: { path: `${what}-${String(rows)}.jsonl` },
  };
  const job = new RunJob(
    { plan: planRun(config, join(folder, 'run.yaml'), {}), limit: Infinity, maxUsd: undefined, retryFailed: false, events: undefined },
    { stop: new AbortController().signal, abort: new AbortController().signal },
  );
  const looking = setInterval(() => {
    look(job.view().share);
  }, 5);
  const { exitCode, items } = await job.run().finally(() => {
    clearInterval(looking);
  });
  expect([exitCode, items.written]).toEqual([0, rows]);
}

async function measure(rows: number): Promise<Measured> {
  await write(rows);
  const before = process.cpuUsage();
  if (isDeep) await run(rows, 'timed', () => undefined);
  const { user, system } = process.cpuUsage(before);
  let bytes = 0;
  const marks = [0.3, 0.6, 0.9];
  await run(rows, 'weighed', (share) => {
    if (share < (marks[0] ?? Infinity)) return;
    marks.shift();
    collectNow();
    const { heapUsed, external } = process.memoryUsage();
    bytes = Math.max(bytes, heapUsed + external);
  });
  return { rows, bytes, cpuMicrosPerRow: (user + system) / rows };
}

it(`needs no more memory for ${SIZES.join(', ')} rows${isDeep ? ', and no more time for each' : ''}`, async () => {
  // Whatever is loaded and compiled once.
  await measure(WARM_UP);
  const all: Measured[] = [];
  for (const rows of SIZES) all.push(await measure(rows));
  const told = all
    .map(
      ({ rows, bytes, cpuMicrosPerRow }) =>
        `${String(rows)} rows: ${(bytes / MIB).toFixed(1)} MiB, ${cpuMicrosPerRow.toFixed(0)} µs of CPU a row`,
    )
    .join('; ');
  process.stdout.write(`${told}\n`);
  const spread = (of: (measured: Measured) => number): number => Math.max(...all.map(of)) / Math.min(...all.map(of));
  expect(
    spread(({ bytes }) => bytes),
    told,
  ).toBeLessThan(MOST_GROWTH);
  if (isDeep)
    expect(
      spread(({ cpuMicrosPerRow }) => cpuMicrosPerRow),
      told,
    ).toBeLessThan(1.2);
});
