import { appendFileSync, existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { exitCodeOf } from '../../../src/cli/exit.js';
import { AnswerCache } from '../../../src/cli/run/answer-cache.js';
import { faultOf, filesOf } from '../../../src/cli/run/run-files.js';
import { RunJob } from '../../../src/cli/run/run-job.js';
import { planRun } from '../../../src/cli/run/run-plan.js';
import { type RunSummary, runSummaryText } from '../../../src/cli/run/run-summary.js';
import type { Config, StageConfig } from '../../../src/edge/config/schema.js';
import { type FakeChat, type FakeChatOptions, startFakeChat } from '../../support/fake-chat-api.js';

const HOST = { env: {}, cwd: () => '/' };

let folder: string;
let chat: FakeChat | undefined;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-cache-'));
});
afterEach(async () => {
  await chat?.close();
  chat = undefined;
  rmSync(folder, { recursive: true, force: true });
});

interface Given {
  readonly texts?: readonly string[];
  readonly stage?: Omit<StageConfig, 'name'>;
  readonly cache?: NonNullable<Config['model']>['cache'];
  readonly output?: string;
  readonly more?: Config;
}

function configOf({ stage = {}, cache = true, output = 'out.jsonl', more }: Given): Config {
  return {
    model: { model: 'm', baseUrl: chat?.baseUrl ?? 'http://127.0.0.1:9', retry: false, cache },
    stages: [{ name: 'reply', prompt: 'say {{text}}', ...stage }],
    input: { path: 'in.jsonl' },
    output: { path: output },
    ...more,
  };
}

function run(given: Given = {}, retryFailed = false): Promise<RunSummary> {
  const { texts = ['a', 'b', 'a', 'a'] } = given;
  writeFileSync(join(folder, 'in.jsonl'), texts.map((text, i) => `${JSON.stringify({ id: `r${String(i)}`, text })}\n`).join(''));
  const plan = planRun(configOf(given), join(folder, 'run.yaml'), HOST);
  const signal = new AbortController().signal;
  return new RunJob({ plan, limit: Infinity, maxUsd: undefined, retryFailed, events: undefined }, { stop: signal, abort: signal }).run();
}

async function serve(options: FakeChatOptions = {}): Promise<void> {
  chat = await startFakeChat(options);
}

function linesOf(name: string): Record<string, unknown>[] {
  if (!existsSync(join(folder, name))) return [];
  const lines = readFileSync(join(folder, name), 'utf8').split('\n').slice(0, -1);
  return lines.map((line) => JSON.parse(line) as Record<string, unknown>);
}

const at = (name: string): string => join(folder, name);

describe('a run with a cache', () => {
  it.each([1, 4])('asks equal requests once, whatever is under way, and keeps each row: %i rows at a time', async (concurrency) => {
    await serve({ delayMs: 5 });
    const prices = { m: { usdPerCall: 0.01 } };
    const summary = await run({ more: { prices, batches: { concurrency } } });
    expect(summary).toMatchObject({ exitCode: 0, rows: { ok: 4 }, calls: 2, cached: 2, costUsd: 0.02 });
    expect(runSummaryText(summary)).toContain('calls: 2, retries: 0, 2 answers from the cache');
    const lines = linesOf('out.jsonl').toSorted((a, b) => Number(a['row']) - Number(b['row']));
    expect(lines.map(({ id, reply }) => [id, reply])).toEqual([
      ['r0', 'SAY A'],
      ['r1', 'SAY B'],
      ['r2', 'SAY A'],
      ['r3', 'SAY A'],
    ]);
  });

  it('takes answers of an earlier run, also of one with another output', async () => {
    await serve();
    const cache = { path: 'shared.cache' };
    expect(await run({ cache })).toMatchObject({ calls: 2 });
    expect(await run({ cache, output: 'other.jsonl', texts: ['a', 'c'] })).toMatchObject({ calls: 1, cached: 1, rows: { ok: 2 } });
    expect(statSync(at('shared.cache')).mode & 0o777).toBe(0o600);
    expect(existsSync(at('shared.cache.lock'))).toBe(false);
    expect(existsSync(at('out.jsonl.cache'))).toBe(false);
  });

  it('asks again when anything of the request is other', async () => {
    await serve();
    const cache = { path: 'shared.cache' };
    await run({ cache, texts: ['a'] });
    for (const [output, stage] of Object.entries({ b: { temperature: 1 }, c: { system: 'be brief' }, d: { model: 'n' } }))
      expect(await run({ cache, stage, output, texts: ['a'] })).toMatchObject({ calls: 1, cached: 0 });
  });

  it('is that of the model, or of a stage by itself', async () => {
    await serve();
    expect(await run({ cache: false, stage: { cache: true } })).toMatchObject({ calls: 2, cached: 2 });
    expect(await run({ stage: { cache: false }, output: 'other.jsonl' })).toMatchObject({ calls: 4, cached: 0 });
    expect([existsSync(at('out.jsonl.cache')), existsSync(at('other.jsonl.cache'))]).toEqual([true, false]);
  });

  it('keeps no answer that is faulty, also of those that are accepted', async () => {
    await serve({ choice: () => ({ message: { content: 'cut' }, finish_reason: 'length' }) });
    expect(await run({ stage: { accept: ['length'] }, more: { batches: { concurrency: 1 } } })).toMatchObject({ calls: 4, cached: 0 });
    expect(await run({ output: 'other.jsonl', cache: { path: 'out.jsonl.cache' } })).toMatchObject({ calls: 4, rows: { failed: 4 } });
  });

  it('keeps no answer of another form, and does not take one that a stage cannot read', async () => {
    let text = 'words';
    await serve({ answer: () => text });
    const json = { stage: { answer: 'json' }, cache: { path: 'shared.cache' }, texts: ['a'] } as const;
    expect(await run(json)).toMatchObject({ exitCode: 1, calls: 1 });
    expect(await run({ ...json, stage: {}, output: 'text.jsonl' })).toMatchObject({ calls: 1, cached: 0 });
    text = '{}';
    expect(await run(json, true)).toMatchObject({ exitCode: 0, calls: 1, cached: 0 });
    expect(await run({ ...json, output: 'again.jsonl' })).toMatchObject({ calls: 0, cached: 1 });
  });

  it('has the answers of a conversation that was cut off in the middle', async () => {
    let isDown = true;
    await serve({ fault: (prompt) => (isDown && prompt === 'more?' ? { status: 500, message: 'boom' } : undefined) });
    const given = { stage: { gleaning: { prompt: 'more?' } }, texts: ['a'] };
    expect(await run(given)).toMatchObject({ exitCode: 1, calls: 2 });
    isDown = false;
    expect(await run(given, true)).toMatchObject({ exitCode: 0, calls: 1, cached: 1 });
    expect(linesOf('out.jsonl')).toMatchObject([{ reply: 'SAY A\nMORE?' }]);
  });

  it('lets each row fail by itself when the request that they share does', async () => {
    await serve({ delayMs: 5, fault: () => ({ status: 400, message: 'not that' }) });
    expect(await run({ texts: ['a', 'a', 'a'] })).toMatchObject({ exitCode: 1, rows: { failed: 3 }, calls: 3, cached: 0 });
    expect(linesOf('out.jsonl.failures.jsonl').map(({ error }) => error)).toEqual(Array(3).fill('400 not that'));
  });

  it('passes over lines that are damaged or torn', async () => {
    await serve();
    const cache = { path: 'shared.cache' };
    await run({ cache, texts: ['a', 'b'] });
    const [head, first = '', second = ''] = readFileSync(at('shared.cache'), 'utf8').split('\n');
    writeFileSync(at('shared.cache'), [head, first.replace('SAY', 'sai'), second, '0123456789abcdef {"requ'].join('\n'));
    const summary = await run({ cache, output: 'other.jsonl', texts: ['a', 'b'] });
    expect(summary).toMatchObject({ calls: 1, cached: 1, notes: ['1 damaged line of the cache was skipped'] });
    expect(await run({ cache, output: 'third.jsonl', texts: ['a', 'b'] })).toMatchObject({ calls: 0, cached: 2 });
  });

  it.each([
    ['a diary', 'Dear diary,\n'],
    ['the journal of a run', undefined],
  ])('is refused where %s stands, which stays as it is', async (_what, text) => {
    await serve();
    if (text === undefined) await run({ cache: false, output: 'shared' });
    else writeFileSync(at('shared.journal'), text);
    const before = readFileSync(at('shared.journal'), 'utf8');
    expect(await run({ cache: { path: 'shared.journal' } }).catch(exitCodeOf)).toBe(2);
    expect(readFileSync(at('shared.journal'), 'utf8')).toBe(before);
    expect(existsSync(at('out.jsonl.lock'))).toBe(false);
  });

  it('has its file to itself', async () => {
    await serve();
    appendFileSync(at('shared.cache.lock'), `${String(process.ppid)}\n`);
    await expect(run({ cache: { path: 'shared.cache' } })).rejects.toThrow(`process ${String(process.ppid)} is writing this cache`);
    expect(existsSync(at('out.jsonl.lock'))).toBe(false);
  });

  it.each(['in.jsonl', 'out.jsonl', 'out.jsonl.journal', 'out.jsonl.failures.jsonl.lock'])(
    'has a file of its own, not %s',
    async (path) => {
      const fault = await faultOf(filesOf(configOf({ cache: { path } }), join(folder, 'run.yaml'), HOST));
      expect(fault).toMatchObject({ path: 'model.cache.path', message: expect.stringContaining('are one file') as string });
    },
  );
});

describe('a cache of answers', () => {
  const request = { messages: [{ role: 'user', content: 'hello' }] };
  const never = (): Promise<never> => Promise.reject(new Error('asked'));
  const any = (): boolean => true;
  const noHit = (): void => undefined;

  it('has long answers whole, and the last of several', async () => {
    const text = `${'漢'.repeat(30_000)}end`;
    let cache = await AnswerCache.open(at('c'), 'c');
    await cache.answer(request, any, noHit, async () => ({ text: 'short', isFaultless: true }));
    await cache.answer(
      request,
      (found) => found !== 'short',
      noHit,
      async () => ({ text, isFaultless: true }),
    );
    expect(await cache.answer(request, any, noHit, never)).toBe(text);
    await cache.close();
    cache = await AnswerCache.open(at('c'), 'c');
    expect(await cache.answer(request, any, noHit, never)).toBe(text);
    await cache.close();
  });

  it('asks anew for those that have waited for a request that failed', async () => {
    const cache = await AnswerCache.open(at('c'), 'c');
    let hits = 0;
    let fail: (() => void) | undefined;
    const pending = new Promise<never>((_, reject) => {
      fail = () => {
        reject(new Error('left'));
      };
    });
    let isAsked = false;
    const first = cache.answer(request, any, noHit, () => {
      isAsked = true;
      return pending;
    });
    await expect.poll(() => isAsked).toBe(true);
    const second = cache.answer(
      request,
      any,
      () => hits++,
      async () => ({ text: 'own', isFaultless: true }),
    );
    fail?.();
    await expect(first).rejects.toThrow('left');
    expect([await second, hits]).toEqual(['own', 0]);
    await cache.close();
  });
});
