import { spawn } from 'node:child_process';
import { appendFileSync, existsSync, mkdtempSync, readFileSync, rmSync, statSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { open, realpath } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { build } from 'esbuild';
import fc from 'fast-check';
import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { isFlowError } from '../../operators/index.js';
import { fileJournal } from '../../src/journal/file-journal.js';
import { Journal } from '../../src/journal/line-journal.js';
import { createStages } from '../../src/pipelines/create-stages.js';
import type { JournalEntry } from '../../src/pipelines/stages/stages-types.js';

let folder: string;
let path: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-file-journal-'));
  path = join(folder, 'jobs.journal');
});
afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

const entry = (documentId: string, value: unknown = documentId, item = ''): JournalEntry => ({ documentId, stage: 'send', item, value });

async function keep(...entries: readonly JournalEntry[]): Promise<void> {
  const journal = await fileJournal(path);
  await Promise.all(entries.map((one) => journal.append(one)));
  await journal.close();
}

async function recalled(...ids: readonly string[]): Promise<unknown[]> {
  const journal = await fileJournal(path);
  try {
    return (await Promise.all(ids.map((id) => journal.recall(id)))).flat().map(({ value }) => value);
  } finally {
    await journal.close();
  }
}

const lines = (): string[] => readFileSync(path, 'utf8').split('\n').slice(0, -1);

describe('fileJournal', () => {
  it('recalls what an earlier one has kept, by document', async () => {
    const value = { text: 'ä\u2028 line', list: [1, null] };
    await keep(entry('a', value), entry('b', 1, '0'), entry('b', 2, '1'));
    const journal = await fileJournal(path);
    expect(await journal.recall('a')).toEqual([entry('a', value)]);
    expect(await journal.recall('b')).toEqual([entry('b', 1, '0'), entry('b', 2, '1')]);
    expect(await journal.recall('c')).toEqual([]);
    await journal.close();
  });

  it('recalls what it has kept itself, and a value that is nothing', async () => {
    const journal = await fileJournal(path);
    await Promise.all([
      journal.append(entry('a', 1)),
      journal.append(entry('b', null)),
      journal.append({ ...entry('a', 2), stage: 'next' }),
    ]);
    await journal.append({ ...entry('none'), value: undefined });
    expect((await journal.recall('a')).map(({ value }) => value)).toEqual([1, 2]);
    expect((await journal.recall('b')).map(({ value }) => value)).toEqual([null]);
    expect((await journal.recall('none')).map(({ value }) => value)).toEqual([undefined]);
    await journal.close();
  });

  it('loses only the torn line wherever the file is cut off, and continues', async () => {
    await keep(entry('a'), entry('b'), entry('c'));
    const whole = readFileSync(path);
    await fc.assert(
      fc.asyncProperty(fc.nat(whole.length), async (at) => {
        writeFileSync(path, whole);
        truncateSync(path, at);
        const complete = whole.subarray(0, at).toString().split('\n').length - 1;
        expect(await recalled('a', 'b', 'c')).toEqual(['a', 'b', 'c'].slice(0, complete));
        await keep(entry('d'));
        expect(await recalled('a', 'b', 'c', 'd')).toEqual([...['a', 'b', 'c'].slice(0, complete), 'd']);
      }),
      { numRuns: 25 },
    );
  });

  it('skips and counts damaged lines, of a wrong checksum or of something else', async () => {
    await keep(entry('a'), entry('b'), entry('c'));
    const [first = '', second = '', third = ''] = lines();
    writeFileSync(path, [first, second.replace('"b"', '"x"'), 'noise', third, ''].join('\n'));
    const journal = await fileJournal(path);
    expect(journal.damagedLines).toBe(2);
    await journal.close();
    expect(await recalled('a', 'b', 'x', 'c')).toEqual(['a', 'c']);
  });

  it('does not recall what was damaged after it was opened', async () => {
    await keep(entry('a'));
    const journal = await fileJournal(path);
    writeFileSync(path, readFileSync(path, 'utf8').replace('"a"', '"z"'));
    expect(await journal.recall('a')).toEqual([]);
    await journal.close();
  });

  it('is refused while it is open, in this process and in another one', async () => {
    const journal = await fileJournal(path);
    await expect(fileJournal(path)).rejects.toMatchObject({
      code: 'FLOW_JOURNAL',
      reason: 'busy',
      message: 'fileJournal: this process is writing this journal already; close it first',
    });
    symlinkSync(path, join(folder, 'link'));
    await expect(fileJournal(join(folder, 'link'))).rejects.toMatchObject({ reason: 'busy' });
    await journal.close();
    writeFileSync(`${path}.lock`, `${String(process.ppid)}\n`);
    await expect(fileJournal(path)).rejects.toMatchObject({
      reason: 'busy',
      message: `fileJournal: process ${String(process.ppid)} is writing this journal; wait for it, or remove \`${path}.lock\` if it is no longer running`,
    });
  });

  it.each(['Dear diary,\n', '0123456789abcdef {"format":"sluice-run"}\n'])('is refused where something else is (%j)', async (text) => {
    writeFileSync(path, text);
    const error: unknown = await fileJournal(path).catch((reason: unknown) => reason);
    expect(isFlowError(error, 'FLOW_JOURNAL') && error.reason).toBe('foreign');
    expect(String(error)).toContain(`\`${path}\` is there already and `);
    expect(readFileSync(path, 'utf8')).toBe(text);
    expect(existsSync(`${path}.lock`)).toBe(false);
  });

  it('is refused where the journal of `sluice run` is', async () => {
    const run = await Journal.open(path, 0);
    await run.add({ format: 'sluice-run', version: 1, work: 'w', retryFailed: false });
    await run.add({ document: '1-1:k', stage: 's', item: '', value: 1 });
    await run.close();
    await expect(fileJournal(path)).rejects.toMatchObject({ reason: 'foreign' });
  });

  it('says when the folder is not there', async () => {
    const missing = join(folder, 'no', 'jobs.journal');
    await expect(fileJournal(missing)).rejects.toMatchObject({
      reason: 'disk',
      message: expect.stringMatching(/the folder does not exist/) as string,
    });
  });

  it('says that the disk is full, keeps saying so, and ends the run with it', async () => {
    const journal = await fileJournal(path);
    await journal.append(entry('a'));
    const file = await open(path);
    const full = vi
      .spyOn(Object.getPrototypeOf(file) as typeof file, 'appendFile')
      .mockRejectedValue(Object.assign(new Error('system'), { code: 'ENOSPC' }));
    await file.close();
    const refusal = {
      code: 'FLOW_JOURNAL',
      reason: 'disk',
      message: `fileJournal: cannot write the journal \`${await realpath(path)}\`: the disk is full (ENOSPC)`,
    };
    const asked: string[] = [];
    const stages = createStages([{ name: 'send', work: (job: string) => asked.push(job) }], { journal, id: (job) => job });
    await expect(stages.run(['a', 'b']).forEach(() => undefined)).rejects.toMatchObject(refusal);
    expect(asked).toEqual(['b']);
    full.mockRestore();
    await expect(journal.append(entry('c'))).rejects.toMatchObject(refusal);
    await expect(journal.close()).rejects.toMatchObject(refusal);
    // The lock is free: a later run goes on with what was kept.
    expect(await recalled('a', 'b')).toEqual(['a']);
  });

  it.each<[string, () => void]>([
    [
      'removed',
      () => {
        rmSync(path);
      },
    ],
    [
      'replaced',
      () => {
        rmSync(path);
        writeFileSync(path, '');
      },
    ],
    [
      'cut off',
      () => {
        truncateSync(path, 0);
      },
    ],
  ])('says that its file was %s while it was open, keeps saying so, and touches nothing else there', async (_, change) => {
    const journal = await fileJournal(path);
    await journal.append(entry('a'));
    change();
    const refusal = {
      code: 'FLOW_JOURNAL',
      reason: 'disk',
      message: expect.stringMatching(
        /cannot write the journal `.*`: the file was removed, replaced or cut off while it was open/,
      ) as string,
    };
    await expect(journal.append(entry('b'))).rejects.toMatchObject(refusal);
    await expect(journal.append(entry('c'))).rejects.toMatchObject(refusal);
    await expect(journal.close()).rejects.toMatchObject(refusal);
    // The lock is free: a later run does again what was lost.
    await keep(entry('d'));
    expect(await recalled('d')).toEqual(['d']);
  });

  it('says at its end that its file is gone, and leaves what has its name alone', async () => {
    const removed = await fileJournal(path);
    await removed.append(entry('a'));
    rmSync(path);
    await expect(removed.close()).rejects.toMatchObject({ reason: 'disk' });
    const replaced = await fileJournal(path);
    rmSync(path);
    writeFileSync(path, 'mine');
    await expect(replaced.close()).rejects.toMatchObject({ reason: 'disk' });
    expect(readFileSync(path, 'utf8')).toBe('mine');
  });

  it('refuses a value that is no JSON, and keeps the others', async () => {
    const journal = await fileJournal(path);
    await expect(journal.append(entry('a', 1n))).rejects.toMatchObject({
      reason: 'value',
      message: 'fileJournal: a value of stage `send` is no JSON',
    });
    await journal.append(entry('b'));
    await journal.close();
    expect(await recalled('a', 'b')).toEqual(['b']);
  });

  it('takes nothing after it was closed, closes once, and leaves neither a lock nor an empty file', async () => {
    const journal = await fileJournal(path);
    const closing = journal.close();
    expect(journal.close()).toBe(closing);
    expect(journal[Symbol.asyncDispose]()).toBe(closing);
    await expect(journal.append(entry('a'))).rejects.toMatchObject({ code: 'FLOW_CLOSED' });
    await expect(journal.recall('a')).rejects.toMatchObject({ code: 'FLOW_CLOSED' });
    await closing;
    expect([existsSync(path), existsSync(`${path}.lock`)]).toEqual([false, false]);
  });

  it.skipIf(process.platform === 'win32')('is for its user alone', async () => {
    await keep(entry('a'));
    expect(statSync(path).mode & 0o777).toBe(0o600);
  });
});

describe('a queue that is killed', () => {
  const JOBS = 60;
  const CONCURRENCY = 4;
  const program = mkdtempSync(join(tmpdir(), 'sluice-journal-child-'));
  const child = join(program, 'child.mjs');
  let bundle: Promise<unknown> | undefined;
  afterAll(() => {
    rmSync(program, { recursive: true, force: true });
  });

  async function run(killAfter: number): Promise<{ signal: NodeJS.Signals | null; output: string }> {
    await (bundle ??= build({
      entryPoints: [join(import.meta.dirname, 'child.ts')],
      outfile: child,
      bundle: true,
      format: 'esm',
      platform: 'node',
      target: 'es2022',
      alias: { '#async-context': resolve(import.meta.dirname, '../../src/async-context.ts') },
      logLevel: 'error',
    }));
    const started = spawn(process.execPath, [child, path, join(folder, 'effects'), String(JOBS), String(killAfter)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let output = '';
    started.stdout.on('data', (piece: Buffer) => {
      output += piece.toString();
    });
    return new Promise((settle) => {
      started.once('close', (_code, signal) => {
        settle({ signal, output });
      });
    });
  }

  it('finishes each job once; a kill repeats at most what was under way', async () => {
    const ids = Array.from({ length: JOBS }, (_, i) => `job-${String(i)}`);
    const kills = [1, 5, 17, 9];
    for (const [index, killAfter] of kills.entries()) {
      const { signal } = await run(killAfter);
      expect(signal).toBe('SIGKILL');
      // As a write that was cut off would leave it.
      if (index === 2) appendFileSync(path, '0123456789abc');
    }
    const { signal, output } = await run(0);
    expect(signal).toBe(null);
    const { done, made } = JSON.parse(output) as { done: string[]; made: number };
    expect(done.sort()).toEqual(ids.map((id) => `${id} fulfilled`).sort());
    // The last run has made only what was missing.
    expect(made).toBeLessThan(JOBS);
    const effects = readFileSync(join(folder, 'effects'), 'utf8').trim().split('\n');
    expect([...new Set(effects)].sort()).toEqual([...ids].sort());
    expect(effects.length - JOBS).toBeLessThanOrEqual(kills.length * CONCURRENCY);
    expect(effects.length).toBeGreaterThan(JOBS);
    const kept = lines().map((line) => (JSON.parse(line.slice(17)) as JournalEntry).documentId);
    expect(kept.sort()).toEqual([...ids].sort());
    // Nothing is left to do.
    expect(JSON.parse((await run(0)).output)).toMatchObject({ made: 0 });
  });
});
