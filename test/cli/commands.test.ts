import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { IndexSummary } from '../../src/cli/index-summary.js';
import { buildCli, type Cli, type CliResult, runHere, startHere, watch } from '../support/cli.js';
import { type FakeProvider, type FakeProviderOptions, startFakeProvider } from '../support/fake-provider.js';

let cli: Cli;
let cwd: string;
let provider: FakeProvider;

beforeAll(async () => {
  cli = await buildCli();
});
beforeEach(() => {
  cwd = mkdtempSync(join(tmpdir(), 'sluice-cli-'));
});
afterEach(async () => {
  await provider.close();
  rmSync(cwd, { recursive: true, force: true });
});

const INDEX = 'index.jsonl';
const PATIENT = { timeout: 20_000, interval: 5 };

const never = new Promise<void>(() => undefined);

function write(name: string, text: string | Uint8Array): void {
  mkdirSync(join(cwd, name, '..'), { recursive: true });
  writeFileSync(join(cwd, name), text);
}

/** Documents of one passage each, whose texts share hardly a word. */
function writeDocuments(count: number): void {
  for (let i = 0; i < count; i += 1) write(`docs/${String(i).padStart(3, '0')}.md`, documentText(i));
}

function documentText(i: number): string {
  return `topic${letters(i)} ${letters(i * 7)} ${letters(i * 31)}\n`;
}

function letters(i: number): string {
  return String(i).replace(/\d/g, (digit) => 'abcdefghij'.charAt(Number(digit)));
}

async function serve(options: FakeProviderOptions = {}): Promise<void> {
  provider = await startFakeProvider(options);
}

function indexArgs(...more: string[]): string[] {
  return ['index', 'docs', '-o', INDEX, '--base-url', provider.baseUrl, '--json', 'summary.json', '--max-batch', '12', ...more];
}

async function index(...more: string[]): Promise<CliResult & { readonly summary: IndexSummary }> {
  const result = await runHere(indexArgs(...more), { cwd });
  return { ...result, summary: readSummary() };
}

function readSummary(): IndexSummary {
  return JSON.parse(readFileSync(join(cwd, 'summary.json'), 'utf8')) as IndexSummary;
}

function indexBytes(): string {
  return readFileSync(join(cwd, INDEX), 'utf8');
}

function journalLines(): number {
  return existsSync(join(cwd, `${INDEX}.journal`)) ? readFileSync(join(cwd, `${INDEX}.journal`), 'utf8').split('\n').length - 1 : 0;
}

function search(question: string, ...more: string[]): Promise<CliResult> {
  return runHere(['search', INDEX, question, '--base-url', provider.baseUrl, ...more], { cwd });
}

describe('sluice index and search', () => {
  it('indexes documents in batches and finds the right one', async () => {
    await serve();
    writeDocuments(40);
    write('docs/logo.png', Uint8Array.of(0x89, 0));
    write('docs/latin.txt', Uint8Array.of(0xe4));
    const { code, stdout, summary } = await index();
    expect(code).toBe(0);
    expect(summary).toMatchObject({
      documents: 40,
      chunks: 40,
      indexed: 40,
      embedded: 40,
      reused: 0,
      callsWithoutBatching: 40,
      accepted: 40,
      settled: 40,
      lost: 0,
      poisoned: [],
      failed: [],
      skipped: [
        { file: 'docs/latin.txt', reason: 'not UTF-8 text' },
        { file: 'docs/logo.png', reason: 'binary (contains NUL bytes)' },
      ],
    });
    expect(summary.calls).toBe(provider.calls.length);
    expect(provider.calls.length).toBeLessThanOrEqual(6);
    expect(Math.max(...provider.calls.map((call) => call.inputs.length))).toBeLessThanOrEqual(12);
    expect(provider.maxOpen).toBeLessThanOrEqual(2);
    expect(stdout).toContain('skipped: docs/logo.png: binary (contains NUL bytes)');
    expect(stdout).toMatch(/wrote index.jsonl: 40 of 40 passages\n$/);
    expect(readdirSync(cwd).sort()).toEqual(['docs', INDEX, 'summary.json']);

    const found = await search(documentText(17), '--top', '1');
    expect(found).toMatchObject({ code: 0, stdout: `1.000  docs/017.md:1-1\n  ${documentText(17)}\n` });
    const asJson = await search(documentText(17), '--top', '2', '--json');
    const hits = JSON.parse(asJson.stdout) as { file: string; score: number }[];
    expect(hits).toHaveLength(2);
    expect(hits[0]).toMatchObject({ file: 'docs/017.md', startLine: 1, endLine: 1, text: documentText(17).trim() });
  });

  it('embeds only what changed, and gives the same bytes as a fresh run', async () => {
    await serve();
    writeDocuments(30);
    await index();
    const first = indexBytes();
    expect((await index()).summary).toMatchObject({ embedded: 0, reused: 30, calls: 0 });
    expect(indexBytes()).toBe(first);

    write('docs/005.md', 'something new');
    expect((await index()).summary).toMatchObject({ embedded: 1, reused: 29, calls: 1 });
    const changed = indexBytes();
    rmSync(join(cwd, INDEX));
    expect((await index()).summary).toMatchObject({ embedded: 30 });
    expect(indexBytes()).toBe(changed);
  });

  it('sends equal texts once', async () => {
    await serve();
    for (const name of ['a', 'b', 'c']) write(`docs/${name}.md`, 'the same words');
    const { summary } = await index();
    expect(summary).toMatchObject({ chunks: 3, indexed: 3, embedded: 1, duplicates: 2 });
    expect(provider.calls.map((call) => call.inputs)).toEqual([['the same words']]);
  });

  it('takes a list of files', async () => {
    await serve();
    writeDocuments(5);
    write('lists/some.txt', '# two of five\ndocs/001.md\ndocs/003.md\n');
    const { code } = await runHere(['index', '--files-from', 'lists/some.txt', '-o', INDEX, '--base-url', provider.baseUrl], { cwd });
    expect(code).toBe(0);
    expect(indexBytes().match(/"file":"[^"]+"/g)).toEqual(['"file":"docs/001.md"', '"file":"docs/003.md"']);
  });

  it('prints pure JSON when it is asked to', async () => {
    await serve();
    writeDocuments(2);
    const { stdout, stderr } = await runHere(['index', 'docs', '-o', INDEX, '--base-url', provider.baseUrl, '--json'], { cwd });
    expect(JSON.parse(stdout)).toMatchObject({ exitCode: 0, indexed: 2 });
    expect(stderr).toContain('wrote index.jsonl: 2 of 2 passages');
  });

  it('refuses to search an index of another model, or a damaged one', async () => {
    await serve();
    writeDocuments(2);
    await index();
    expect(await search('x', '--model', 'other')).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/was made with the model `all-MiniLM-L6-v2`/) as string,
    });
    writeFileSync(join(cwd, INDEX), indexBytes().slice(0, -20));
    const { code, stderr } = await search('x');
    expect(code).toBe(2);
    expect(stderr).toMatch(/^sluice: index `index.jsonl` is damaged at line 4: .*; run `sluice index` again\n$/);
    const again = await index();
    expect(again.summary.notes).toEqual([expect.stringMatching(/^the old index is not reused: .* is damaged at line 4/)]);
    expect(again.summary.embedded).toBe(2);
  });
});

describe('sluice index against a difficult provider', () => {
  it('gets everything through 429s, failures and cut connections', async () => {
    await serve({
      answer: ({ index: i }) => {
        if (i % 7 === 2) return { status: 429, message: 'slow down', retryAfterSeconds: 0.01 };
        if (i % 7 === 4) return { status: 503, message: 'overloaded' };
        return i % 7 === 6 ? 'cut' : undefined;
      },
    });
    writeDocuments(100);
    const { code, summary } = await index();
    expect(code).toBe(0);
    expect(summary).toMatchObject({ embedded: 100, indexed: 100, failed: [], poisoned: [], accepted: 100, settled: 100, lost: 0 });
    expect(summary.throttled).toBeGreaterThan(0);
    expect(summary.retries).toBeGreaterThanOrEqual(summary.throttled);
    expect(summary.calls).toBe(provider.calls.length);
  });

  it.each([true, false])('leaves out a poisoned passage and nothing else, its index named: %s', async (namePoison) => {
    const poison = documentText(13).trim();
    await serve({ poison: (text) => text === poison, namePoison });
    writeDocuments(36);
    const { code, stdout, summary } = await index();
    expect(code).toBe(0);
    expect(summary).toMatchObject({
      chunks: 36,
      indexed: 35,
      embedded: 35,
      lost: 0,
      poisoned: [{ file: 'docs/013.md', startLine: 1, endLine: 1 }],
    });
    expect(summary.splits).toBeGreaterThan(0);
    expect(stdout).toMatch(/poisoned, left out: docs\/013\.md:1-1: 400 .*invalid/);
    expect(indexBytes()).not.toContain('docs/013.md');

    const strict = await index('--strict');
    expect(strict.code).toBe(1);
    expect(strict.summary).toMatchObject({ reused: 35, indexed: 35 });
  });

  it.each(['--requests-per-minute', '--tokens-per-minute'])('keeps to %s', async (flag) => {
    await serve();
    writeDocuments(24);
    // One call takes what there is in a minute.
    const run = startHere(indexArgs(flag, flag === '--requests-per-minute' ? '1' : '80'), { cwd });
    await expect.poll(journalLines, PATIENT).toBeGreaterThan(0);
    run.kill('SIGINT');
    run.kill('SIGINT');
    expect((await run.ended).code).toBe(130);
    expect(readSummary()).toMatchObject({ calls: 1, embedded: journalLines(), throttled: 0 });
  });

  it('stops with one sentence when the server is not there', async () => {
    await serve();
    writeDocuments(30);
    await provider.close();
    const result = await runHere(indexArgs(), { cwd });
    expect(result.code).toBe(3);
    expect(result.stderr).toBe(
      `sluice: cannot reach ${provider.baseUrl} (ECONNREFUSED): is the server running? Start one with \`sluice serve\`\n`,
    );
    expect(readdirSync(cwd)).toEqual(['docs']);
    expect(await search('x')).toMatchObject({ code: 2 });
  });

  it('stops with one sentence, without the key in it, when the key is refused', async () => {
    await serve({ apiKey: 'right-key' });
    writeDocuments(30);
    const run = (env: NodeJS.ProcessEnv) => runHere(indexArgs(), { cwd, env });
    const refused = await run({ OPENAI_API_KEY: 'wrong-key' });
    expect(refused.code).toBe(3);
    expect(refused.stderr).toMatch(
      /^sluice: http:\S+ refuses the key: 401 Incorrect API key provided\. Set SLUICE_API_KEY or OPENAI_API_KEY to a valid one\n$/,
    );
    expect(refused.stdout + refused.stderr).not.toContain('wrong-key');
    expect(provider.calls.length).toBeLessThanOrEqual(2);
    const accepted = await run({ OPENAI_API_KEY: 'wrong-key', SLUICE_API_KEY: 'right-key' });
    expect(accepted.code).toBe(0);
    expect(accepted.stdout + accepted.stderr + indexBytes() + JSON.stringify(readSummary())).not.toContain('right-key');
  });

  it('stops with one sentence when the model is missing', async () => {
    await serve({ model: 'small' });
    writeDocuments(30);
    const result = await runHere(indexArgs('--model', 'large'), { cwd });
    expect(result.code).toBe(3);
    expect(result.stderr).toMatch(
      /does not know the model `large`: 404 The model `large` does not exist\. Check `--model` and `--base-url`\n$/,
    );
  });

  it('keeps the old index when no passage can be embedded', async () => {
    await serve({ poison: (text) => text === 'bad' });
    write('docs/a.md', 'good');
    await index();
    const old = indexBytes();
    write('docs/a.md', 'bad');
    const result = await runHere(indexArgs(), { cwd });
    expect(result).toMatchObject({ code: 3, stderr: expect.stringMatching(/^sluice: no passage could be embedded: 400 /) as string });
    expect(indexBytes()).toBe(old);
  });
});

it('refuses a device as the index instead of reading it without end', async () => {
  await serve();
  writeDocuments(1);
  const { code, stderr } = await runHere(['index', 'docs', '-o', '/dev/full', '--base-url', provider.baseUrl], { cwd });
  expect(stderr).toBe('sluice: `/dev/full` is a device, not a file to write an index to\n');
  expect(code).toBe(2);
});

describe('sluice index, interrupted', () => {
  /** What a run without interruption writes. */
  async function undisturbed(): Promise<string> {
    const calm = await startFakeProvider();
    await runHere(['index', 'docs', '-o', 'calm.jsonl', '--base-url', calm.baseUrl], { cwd });
    await calm.close();
    return readFileSync(join(cwd, 'calm.jsonl'), 'utf8');
  }

  it('loses nothing to kill -9, and ends with the same bytes', async () => {
    let answered = 0;
    await serve({ until: ({ index: i }) => (i < answered ? undefined : never) });
    writeDocuments(120);
    for (const kept of [36, 72]) {
      answered = provider.calls.length + 3;
      const run = cli.start(indexArgs(), { cwd });
      await expect.poll(journalLines, PATIENT).toBe(kept);
      run.child.kill('SIGKILL');
      expect((await run.ended).signal).toBe('SIGKILL');
      expect([journalLines(), existsSync(join(cwd, INDEX))]).toEqual([kept, false]);
    }
    answered = Infinity;
    const { code, summary } = await index();
    expect(code).toBe(0);
    expect(summary).toMatchObject({ indexed: 120, embedded: 48, reused: 72, notes: [] });
    expect(indexBytes()).toBe(await undisturbed());
    expect(existsSync(join(cwd, `${INDEX}.journal`))).toBe(false);
  });

  it('finishes its calls at the first interrupt, and goes on when it is run again', async () => {
    let answer = (): void => undefined;
    const answered = new Promise<void>((resolve) => (answer = resolve));
    await serve({ until: () => answered });
    writeDocuments(200);
    const run = startHere(indexArgs(), { cwd });
    await expect.poll(() => provider.calls.length, PATIENT).toBe(2);
    run.kill('SIGINT');
    answer();
    const result = await run.ended;
    expect(result.code).toBe(130);
    expect(result.stderr).toContain('stopping: waiting for the calls under way');
    expect(result.stdout).toMatch(/interrupted: no index written; .* run the same command again to go on\n$/);
    const { embedded, ...summary } = readSummary();
    expect(summary).toMatchObject({ interrupted: true, lost: 0 });
    expect(embedded).toBeLessThan(200);
    expect(journalLines()).toBe(embedded);
    expect(provider.calls.flatMap((call) => call.inputs)).toHaveLength(embedded);
    expect(readdirSync(cwd).sort()).toEqual(['docs', `${INDEX}.journal`, 'summary.json']);
    expect((await index()).summary).toMatchObject({ reused: embedded, indexed: 200 });
    expect(indexBytes()).toBe(await undisturbed());
  });

  it.each([
    ['is busy', { status: 429, message: 'slow down', retryAfterSeconds: 2 }],
    ['is down', { status: 503, message: 'overloaded' }],
  ] as const)('sends nothing more after the first interrupt when the provider %s', async (_, refusal) => {
    let answered = 0;
    await serve({ answer: () => (answered++ < 1 ? undefined : refusal) });
    writeDocuments(200);
    const run = startHere([...indexArgs(), '--max-batch', '1'], { cwd });
    await expect.poll(() => provider.calls.length, PATIENT).toBeGreaterThan(3);
    run.kill('SIGINT');
    await run.prints(/stopping/);
    const sent = provider.calls.length;
    const before = performance.now();
    expect((await run.ended).code).toBe(130);
    expect(performance.now() - before).toBeLessThan(1900);
    // Two at a time may have been on their way.
    expect(provider.calls.length).toBeLessThanOrEqual(sent + 2);
    expect(readSummary()).toMatchObject({ interrupted: true, lost: 0, embedded: 1, failed: [] });
  });

  it('ends at once at the second interrupt', async () => {
    await serve({ until: () => never });
    writeDocuments(50);
    const run = startHere(indexArgs(), { cwd });
    await expect.poll(() => provider.calls.length, PATIENT).toBeGreaterThan(0);
    run.kill('SIGINT');
    await run.prints(/stopping/);
    run.kill('SIGINT');
    expect((await run.ended).code).toBe(130);
    expect(readdirSync(cwd).sort()).toEqual(['docs', 'summary.json']);
  });

  it('lets one run at a time write an index', async () => {
    let answer = (): void => undefined;
    const answered = new Promise<void>((resolve) => (answer = resolve));
    await serve({ until: () => answered });
    writeDocuments(12);
    const first = cli.start(indexArgs(), { cwd });
    await expect.poll(() => provider.calls.length, PATIENT).toBeGreaterThan(0);
    const second = await runHere(indexArgs(), { cwd });
    expect(second).toMatchObject({ code: 5, stdout: '' });
    expect(second.stderr).toMatch(new RegExp(`^sluice: process ${String(first.child.pid)} is writing this index; wait for it, or remove `));
    answer();
    expect((await first.ended).code).toBe(0);
  });

  it('leaves index and journal usable when the file system refuses', async () => {
    await serve();
    writeDocuments(30);
    await index();
    const old = indexBytes();
    for (let i = 0; i < 30; i += 1) write(`docs/more/${String(i)}.md`, `more ${documentText(i + 100)} ${'x'.repeat(300)}`);
    // Files may not grow beyond 4 kB in this run, which is what a full disk looks like; with the signal ignored, writing fails.
    const limited = `trap '' XFSZ; ulimit -f 4; exec ${process.execPath} ${cli.file} ${indexArgs().join(' ')}`;
    const result = await watch(spawn('bash', ['-c', limited], { cwd, stdio: ['ignore', 'pipe', 'pipe'] })).ended;
    expect(result.stderr).toMatch(/sluice: cannot write the journal .*: the file would grow beyond the allowed size \(EFBIG\)/);
    expect(result.code).toBe(4);
    expect(indexBytes()).toBe(old);
    const kept = readFileSync(join(cwd, `${INDEX}.journal`), 'utf8').split('\n').length - 1;
    expect(kept).toBeGreaterThan(0);
    expect((await index()).summary).toMatchObject({ indexed: 60, reused: 30 + kept, embedded: 30 - kept });
  });

  it('says so when the index cannot be where it should', async () => {
    await serve();
    writeDocuments(2);
    write('file', 'x');
    const result = await runHere(['index', 'docs', '-o', 'file/index.jsonl', '--base-url', provider.baseUrl], { cwd });
    expect(result).toMatchObject({
      code: 4,
      stderr: expect.stringMatching(/^sluice: cannot create the folder of `file\/index.jsonl`: /) as string,
    });
    expect(provider.calls).toHaveLength(0);
  });
});

/** The superuser may do everything, so runs that may not are nobody's. */
const uid = process.getuid?.() === 0 ? 65_534 : undefined;
/** False in a checkout that only the superuser can look into. */
const canRun = spawnSync(process.execPath, ['-e', 'fs.readFileSync(process.argv[1])', import.meta.filename], { uid }).status === 0;

describe.runIf(canRun)('sluice index without permission', () => {
  beforeEach(async () => {
    await serve();
    writeDocuments(3);
    for (const folder of ['.', 'docs', 'out', 'locked']) {
      mkdirSync(join(cwd, folder), { recursive: true });
      chmodSync(join(cwd, folder), folder === 'out' ? 0o777 : 0o755);
    }
  });

  it('names a file it may not read, and goes on', async () => {
    chmodSync(join(cwd, 'docs/001.md'), 0);
    const args = ['index', 'docs', '-o', 'out/index.jsonl', '--base-url', provider.baseUrl];
    const { code, stdout } = await cli.start(args, { cwd, uid }).ended;
    expect(stdout).toContain('skipped: docs/001.md: permission denied\n');
    expect(stdout).toContain('wrote out/index.jsonl: 2 of 2 passages\n');
    expect(code).toBe(0);
  });

  it('does nothing when it may not write the index', async () => {
    chmodSync(join(cwd, 'locked'), 0o555);
    const { code, stderr } = await cli.start(['index', 'docs', '-o', 'locked/index.jsonl', '--base-url', provider.baseUrl], { cwd, uid })
      .ended;
    expect(stderr).toMatch(/^sluice: cannot create the lock `.*locked\/index.jsonl.lock`: permission denied \(EACCES\)\n$/);
    expect(code).toBe(4);
    expect(provider.calls).toHaveLength(0);
  });
});

describe('sluice index --ask', () => {
  it('asks before and while it indexes, and checks the answers', async () => {
    await serve({ delayMs: 40 });
    writeDocuments(120);
    const questions = [7, 105, 33].map((i) => ({
      question: `where is topic${letters(i)} ${letters(i * 7)} ${letters(i * 31)}`,
      expected: `docs/${String(i).padStart(3, '0')}.md`,
    }));
    write('questions.json', JSON.stringify([...questions, { question: 'topica', expected: 'docs/none.md' }]));
    const { code, stdout, summary } = await index('--ask', 'questions.json');
    expect(code).toBe(0);
    expect(summary.p0Idle.count).toBe(10);
    expect(summary.p0Idle.p50Ms).toBeGreaterThanOrEqual(40);
    expect(summary.p0WhileIndexing.count).toBeGreaterThanOrEqual(1);
    expect(summary).toMatchObject({ questionsFailed: 0, indexed: 120, lost: 0 });
    expect(summary.accepted).toBe(120 + 10 + summary.p0WhileIndexing.count);
    expect(summary.questions).toHaveLength(4);
    expect(summary.questions[3]).toMatchObject({ expected: 'docs/none.md', hit: false });
    for (const { question, expected, found, hit } of summary.questions) {
      expect(hit).toBe(found === expected);
      expect(stdout).toContain(`${hit ? 'hit ' : 'miss'}  ${question} -> ${String(found)}`);
    }
    expect(provider.calls.slice(0, 10).map((call) => call.inputs.length)).toEqual(Array.from({ length: 10 }, () => 1));
  });

  it('refuses a file that does not hold questions', async () => {
    await serve();
    writeDocuments(1);
    write('questions.json', '[{ "question": "why?" }]');
    const ask = (file: string) => runHere(indexArgs('--ask', file), { cwd });
    expect(await ask('questions.json')).toMatchObject({ code: 2, stderr: expect.stringContaining('does not hold questions') as string });
    expect(await ask('missing.json')).toMatchObject({ code: 2, stderr: expect.stringContaining('cannot read the questions') as string });
  });
});

describe('the command line', () => {
  beforeEach(() => serve());

  it.each<readonly [string, readonly string[], RegExp]>([
    ['nothing to index', ['index'], /^sluice: nothing to index: name files or folders/],
    ['a path that does not exist', ['index', 'nowhere'], /^sluice: cannot index `nowhere`: no such file or folder/],
    ['an unknown option', ['index', '--bogus'], /unknown option '--bogus'/],
    ['an unknown command', ['bogus'], /unknown command 'bogus'/],
    ['a number that is none', ['index', '.', '--max-batch', '0'], /Expected a whole number of at least 1/],
    ['a rate that is none', ['index', '.', '--requests-per-minute', '-1'], /Expected a number above 0/],
    ['a share that is none', ['serve', '--fault-429', '2'], /Expected a number from 0 to 1/],
    ['an address that is none', ['index', '.', '--base-url', 'host'], /expected `baseUrl` to be an http\(s\) URL/],
    ['a search without an index', ['search', 'missing.jsonl', 'x'], /there is no such file; make one with `sluice index`/],
    ['a search without a question', ['search', 'missing.jsonl', ' '], /expected a question, got an empty text/],
    [
      'a server key that is not set',
      ['serve', '--api-key-env', 'SLUICE_TEST_UNSET'],
      /the environment variable SLUICE_TEST_UNSET is not set/,
    ],
  ])('answers 2 to %s', async (_name, args, message) => {
    write('a.md', 'text');
    const { code, stderr } = await runHere(args, { cwd });
    expect(stderr).toMatch(message);
    expect(code).toBe(2);
  });

  it('explains itself', async () => {
    const help = await runHere(['--help']);
    expect(help.code).toBe(0);
    for (const word of ['index', 'search', 'serve', 'Exit codes:', '130']) expect(help.stdout).toContain(word);
    const manifest = JSON.parse(readFileSync(join(import.meta.dirname, '../../package.json'), 'utf8')) as { version: string };
    expect(await cli.start(['--version']).ended).toMatchObject({ code: 0, stdout: `${manifest.version}\n` });
  });

  it('says that the server is not part of the published package', async () => {
    // A copy outside the repository, as in an installed package.
    write('pkg/package.json', '{ "name": "sluice", "version": "0.1.0", "type": "module" }');
    write('pkg/dist/cli.js', readFileSync(cli.file));
    const modules = join(import.meta.dirname, '../../node_modules');
    mkdirSync(join(cwd, 'pkg/node_modules'));
    for (const name of ['rxjs', 'tslib']) symlinkSync(join(modules, name), join(cwd, 'pkg/node_modules', name));
    const result = await watch(spawn(process.execPath, [join(cwd, 'pkg/dist/cli.js'), 'serve'], { stdio: ['ignore', 'pipe', 'pipe'] }))
      .ended;
    expect(result.code).toBe(2);
    expect(result.stderr).toMatch(
      /^sluice: `sluice serve` needs the model server of the repository, and there is none at .*; run it from a checkout\n$/,
    );
  });

  it('names texts by the SHA-256 of what it sends', async () => {
    write('docs/a.md', '# Title\n\nSome text.\n');
    await index();
    const [text] = provider.calls[0]?.inputs ?? [];
    expect(indexBytes()).toContain(
      createHash('sha256')
        .update(text ?? '')
        .digest('hex'),
    );
  });
});
