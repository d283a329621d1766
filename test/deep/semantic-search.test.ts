import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { type IndexedPassage, readIndex } from '../../examples/semantic-search/index-file.js';
import type { CliChild } from '../support/cli.js';
import { startSearch, startServer, stopAll } from '../support/semantic-search.js';

// The demo on the real model, with a small part of its corpus.
vi.setConfig({ testTimeout: 240_000, hookTimeout: 240_000 });

const corpus = readFileSync(resolve(import.meta.dirname, '../../examples/semantic-search/corpus.txt'), 'utf8');
const DOCUMENTS = ['signal-exit', 'tree-kill', 'nanoid', 'minimatch', 'fast-levenshtein', 'html-escaper', 'json5'];

let folder: string;
let list: string;
/** The index of a run that nothing disturbs. */
let calm: string;
let all: readonly IndexedPassage[];

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'semantic-search-'));
  list = join(folder, 'corpus.txt');
  const paths = corpus.split('\n').filter((path) => DOCUMENTS.some((name) => path.startsWith(`node_modules/${name}/`)));
  expect(paths).toHaveLength(DOCUMENTS.length);
  writeFileSync(list, paths.join('\n'));
  calm = join(folder, 'calm.jsonl');
  const server = await startServer();
  all = (await index(server.baseUrl, calm)).passages;
  server.child.kill('SIGTERM');
});
afterAll(() => {
  stopAll();
  rmSync(folder, { recursive: true, force: true });
});

function start(baseUrl: string, output: string): CliChild {
  return startSearch(['index', '--files-from', list, '--base-url', baseUrl, '-o', output, '--max-batch', '8']);
}

/** Indexes the documents, and answers with the report and what is in the index. */
async function index(baseUrl: string, output: string): Promise<{ readonly report: string; readonly passages: readonly IndexedPassage[] }> {
  const { code, stdout } = await start(baseUrl, output).ended;
  expect(code).toBe(0);
  return { report: stdout, passages: (await readIndex(output)).passages };
}

describe('the demo on the real model', () => {
  it('loses and doubles nothing when the server throttles, fails, cuts a socket and refuses three passages', async () => {
    const refused = [5, 21, 40].flatMap((i) => all[i] ?? []);
    expect(refused).toHaveLength(3);
    const faults = ['--faults.rate429', '0.1', '--faults.rate5xx', '0.02', '--faults.cutSockets', '1', '--faults.seed', '7'];
    const poison = refused.flatMap(({ sha256 }) => ['--faults.poisonSha256', sha256]);
    const server = await startServer(...faults, '--faults.blame', 'false', ...poison);
    const { report, passages } = await index(server.baseUrl, join(folder, 'faults.jsonl'));
    expect(report).toMatch(/429s: [1-9]\d*, retries: [1-9]\d*, splits: [1-9]/);
    expect(report).toMatch(/accepted \d+, lost 0;/);
    expect(report.match(/^left out .*(?=: 400 )/gm)?.sort()).toEqual(
      refused.map(({ file, startLine, endLine }) => `left out ${file}:${startLine}-${endLine}`).sort(),
    );
    // Byte for byte what the undisturbed run found, less the three.
    expect(passages).toEqual(all.filter((passage) => !refused.includes(passage)));
  });

  it('writes the same index after being killed in the middle', async () => {
    const server = await startServer();
    const output = join(folder, 'killed.jsonl');
    const first = start(server.baseUrl, output);
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
    const { report } = await index(server.baseUrl, output);
    const [, reused = ''] = /sent, (\d+) reused/.exec(report) ?? [];
    expect(Number(reused)).toBeGreaterThan(8);
    expect(report).toMatch(/accepted \d+, lost 0;/);
    expect(readFileSync(output).equals(readFileSync(calm))).toBe(true);
  });
});
