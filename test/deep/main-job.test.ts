import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { buildCli, type Cli, type CliChild } from '../support/cli.js';

// The main job on the real model, with a small part of its corpus.
vi.setConfig({ testTimeout: 240_000, hookTimeout: 240_000 });

const root = resolve(import.meta.dirname, '../..');
const corpus = readFileSync(join(root, 'examples/main-job/corpus.txt'), 'utf8');
const DOCUMENTS = ['signal-exit', 'tree-kill', 'nanoid', 'minimatch', 'fast-levenshtein', 'html-escaper', 'json5'];

interface Line {
  readonly file: string;
  readonly startLine: number;
  readonly sha256: string;
  readonly vector: string;
}

interface Summary {
  readonly accepted: number;
  readonly settled: number;
  readonly lost: number;
  readonly chunks: number;
  readonly embedded: number;
  readonly reused: number;
  readonly calls: number;
  readonly throttled: number;
  readonly retries: number;
  readonly failed: readonly unknown[];
  readonly poisoned: readonly { readonly file: string; readonly startLine: number }[];
}

let cli: Cli;
let cwd: string;
let list: string;
let clean: string;
let chunks: Line[];
const servers: CliChild[] = [];

beforeAll(async () => {
  cli = await buildCli();
  cwd = mkdtempSync(join(tmpdir(), 'sluice-main-job-'));
  list = join(cwd, 'corpus.txt');
  const paths = corpus.split('\n').filter((path) => DOCUMENTS.some((name) => path.startsWith(`node_modules/${name}/`)));
  expect(paths).toHaveLength(DOCUMENTS.length);
  writeFileSync(list, paths.join('\n'));
  clean = join(cwd, 'clean.jsonl');
  const { baseUrl, stop } = await serve();
  expect((await index(baseUrl, clean)).failed).toEqual([]);
  await stop();
  chunks = chunksOf(clean);
});
afterAll(() => {
  // Those a failed test has left running.
  for (const server of servers) server.child.kill('SIGKILL');
  rmSync(cwd, { recursive: true, force: true });
});

async function serve(...flags: string[]): Promise<{ readonly baseUrl: string; readonly stop: () => Promise<void> }> {
  const server = cli.start(['serve', '--port', '0', ...flags]);
  servers.push(server);
  const [, baseUrl = ''] = await server.prints(/^listening on (http:\/\/127\.0\.0\.1:\d+\/v1)\n/);
  const stop = async (): Promise<void> => {
    server.child.kill('SIGTERM');
    expect((await server.ended).code).toBe(0);
  };
  return { baseUrl, stop };
}

function start(baseUrl: string, output: string): CliChild {
  return cli.start(['index', '--files-from', list, '--base-url', baseUrl, '-o', output, '--max-batch', '8', '--json', `${output}.summary`]);
}

async function index(baseUrl: string, output: string): Promise<Summary> {
  const { code } = await start(baseUrl, output).ended;
  expect(code).toBe(0);
  return JSON.parse(readFileSync(`${output}.summary`, 'utf8')) as Summary;
}

function chunksOf(file: string): Line[] {
  return readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line.includes('"vector"'))
    .map((line) => JSON.parse(line) as Line);
}

describe('the main job on the real model', () => {
  it('loses and doubles nothing when the server throttles, fails, cuts a socket and refuses three passages', async () => {
    const poisoned = [5, 21, 40].map((i) => chunks[i] as Line);
    const faults = ['--fault-429', '0.1', '--fault-5xx', '0.02', '--fault-cut', '1', '--fault-seed', '7', '--no-blame'];
    const { baseUrl, stop } = await serve(...faults, '--poison-sha256', ...poisoned.map((chunk) => chunk.sha256));
    const output = join(cwd, 'faults.jsonl');
    const summary = await index(baseUrl, output);
    await stop();
    expect(summary.retries).toBeGreaterThan(0);
    expect(summary.throttled).toBeGreaterThan(0);
    expect(summary.failed).toEqual([]);
    expect(summary).toMatchObject({ lost: 0, accepted: summary.settled });
    expect(summary.poisoned.map(({ file, startLine }) => `${file}:${String(startLine)}`).sort()).toEqual(
      poisoned.map(({ file, startLine }) => `${file}:${String(startLine)}`).sort(),
    );
    // Byte for byte what the undisturbed run found, less the three.
    expect(chunksOf(output)).toEqual(chunks.filter((chunk) => !poisoned.includes(chunk)));
  });

  it('writes the same index after being killed in the middle', async () => {
    const { baseUrl, stop } = await serve();
    const output = join(cwd, 'killed.jsonl');
    const first = start(baseUrl, output);
    // Killed as soon as some of the work is on disk.
    await vi.waitFor(
      () => {
        expect(existsSync(`${output}.journal`) && readFileSync(`${output}.journal`, 'utf8').split('\n').length).toBeGreaterThan(10);
      },
      { timeout: 60_000, interval: 20 },
    );
    first.child.kill('SIGKILL');
    expect((await first.ended).signal).toBe('SIGKILL');
    expect(existsSync(output)).toBe(false);
    const summary = await index(baseUrl, output);
    await stop();
    expect(summary.reused).toBeGreaterThan(8);
    expect(summary.embedded).toBeLessThan(summary.chunks);
    expect(summary.lost).toBe(0);
    expect(readFileSync(output).equals(readFileSync(clean))).toBe(true);
  });
});
