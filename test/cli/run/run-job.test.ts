import { appendFileSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { dryRun } from '../../../src/cli/run/dry-run.js';
import { RunJob, type RunJobOptions } from '../../../src/cli/run/run-job.js';
import { pathsOf, planRun, type RunPlan } from '../../../src/cli/run/run-plan.js';
import { type RunSummary, runSummaryText } from '../../../src/cli/run/run-summary.js';
import type { Config } from '../../../src/edge/config/schema.js';
import { sized } from '../../support/deep.js';
import { type FakeChat, type FakeChatOptions, startFakeChat } from '../../support/fake-chat-api.js';

/** No keys, and paths are absolute. */
const HOST = { env: {}, cwd: () => '/' };

let folder: string;
let chat: FakeChat | undefined;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-job-'));
});
afterEach(async () => {
  await chat?.close();
  chat = undefined;
  rmSync(folder, { recursive: true, force: true });
});

function planOf(config: Config, rows: readonly object[]): RunPlan {
  writeFileSync(join(folder, 'in.jsonl'), rows.map((row) => `${JSON.stringify(row)}\n`).join(''));
  const given = {
    model: { model: 'm', baseUrl: 'http://127.0.0.1:9' },
    stages: [{ name: 'reply', prompt: 'say {{text}}' }],
    input: { path: 'in.jsonl' },
    output: { path: 'out.jsonl' },
    ...config,
  };
  return planRun(given, join(folder, 'run.yaml'), HOST);
}

async function serve(options: FakeChatOptions = {}): Promise<{ readonly baseUrl: string; readonly model: string }> {
  chat = await startFakeChat(options);
  return { baseUrl: chat.baseUrl, model: 'm' };
}

function start(plan: RunPlan, stop = new AbortController().signal, given: Partial<RunJobOptions> = {}): RunJob {
  const options = { plan, limit: Infinity, maxUsd: undefined, retryFailed: false, events: undefined, ...given };
  return new RunJob(options, { stop, abort: new AbortController().signal });
}

const run = (plan: RunPlan, given: Partial<RunJobOptions> = {}): Promise<RunSummary> => start(plan, undefined, given).run();

function linesOf(name: string): Record<string, unknown>[] {
  if (!existsSync(join(folder, name))) return [];
  const lines = readFileSync(join(folder, name), 'utf8').split('\n').slice(0, -1);
  return lines.map((line) => JSON.parse(line) as Record<string, unknown>);
}

const ROWS = [{ text: 'a' }, { text: 'b' }, { text: 'c' }];

describe('a run goes by all that its configuration says', () => {
  it('of the lane of its calls', async () => {
    const limits = { lanes: ['soon', 'later'] };
    await expect(run(planOf({ lane: 'never', limits }, ROWS))).rejects.toThrow(/`lane`.*`never`/);
    expect(await run(planOf({ model: await serve(), lane: 'soon', limits }, ROWS))).toMatchObject({ exitCode: 0, calls: 3 });
  });

  it('of the time of an item in a stage, which is that of the stage before that of the model', async () => {
    const model = { ...(await serve({ until: new Promise(() => undefined) })), deadlineMs: 60_000, retry: false } as const;
    const stages = [{ name: 'reply', prompt: 'say {{text}}', deadlineMs: 300 }];
    expect(await run(planOf({ model, stages }, ROWS))).toMatchObject({ exitCode: 1, rows: { failed: 3 } });
    expect(linesOf('out.jsonl.failures.jsonl').map(({ error }) => error)).toEqual(
      Array(3).fill(expect.stringMatching(/within (2\d\d|300) ms/)),
    );
  });

  it('of items that a stage may lose, also where it asks nobody', async () => {
    const model = await serve({ answer: () => '[{"text": "kept"}, {"other": "lost"}]' });
    const stages = [
      { name: 'idea', prompt: 'ideas about {{text}}', answer: 'list' },
      { name: 'part', chunk: { field: 'idea.text' }, allowPartialFailure: true },
    ] as const;
    expect(await run(planOf({ model, stages }, ROWS.slice(0, 1)))).toMatchObject({
      rows: { partial: 1 },
      results: { written: 1, failed: 1 },
    });
  });
});

describe('an answer that is not whole', () => {
  const CHOICES: Readonly<Record<string, object>> = {
    length: { message: { content: 'cut off in the mid' }, finish_reason: 'length' },
    content_filter: { message: { content: 'cut' }, finish_reason: 'content_filter' },
    refusal: { message: { content: null, refusal: 'I cannot help with that' }, finish_reason: 'stop' },
    empty: { message: { content: '' }, finish_reason: 'stop' },
  };
  const faults = Object.keys(CHOICES);
  const rows = [...faults, 'fine'].map((text) => ({ text }));
  const choice = (prompt: string): object | undefined => CHOICES[prompt.replace('say ', '')];

  it('is a failure with its text, and asked for again with `retryFailed`', async () => {
    let isWell = false;
    const plan = planOf({ model: await serve({ choice: (prompt) => (isWell ? undefined : choice(prompt)) }) }, rows);
    expect(await run(plan)).toMatchObject({ exitCode: 1, rows: { ok: 1, failed: 4 }, retries: 0 });
    const lines = linesOf('out.jsonl.failures.jsonl').toSorted((a, b) => Number(a['row']) - Number(b['row']));
    expect(lines.map(({ fault, partial }) => [fault, partial])).toEqual([
      ['length', 'cut off in the mid'],
      ['content_filter', 'cut'],
      ['refusal', 'I cannot help with that'],
      ['empty', undefined],
    ]);
    for (const [i, fault] of faults.entries()) expect(lines[i]?.['error']).toContain(`accept: [${fault}]`);
    expect(await run(plan)).toMatchObject({ exitCode: 1, calls: 0, rows: { earlier: 1, earlierFailed: 4 } });
    isWell = true;
    expect(await run(plan, { retryFailed: true })).toMatchObject({ exitCode: 0, calls: 4, rows: { ok: 4, earlier: 1 } });
    expect(linesOf('out.jsonl.failures.jsonl')).toEqual([]);
  });

  it.each([
    ['a stage', (accept: never) => ({ stages: [{ name: 'reply', prompt: 'say {{text}}', accept }] })],
    ['the model', (accept: never) => ({ model: { accept } })],
  ])('is taken when %s accepts it, also by a later run', async (_where, given) => {
    const model = await serve({ choice });
    const some = given(faults.slice(0, 2) as never);
    expect(await run(planOf({ ...some, model: { ...model, ...('model' in some && some.model) } }, rows))).toMatchObject({
      rows: { ok: 3, failed: 2 },
    });
    const all = given(faults as never);
    const plan = planOf({ ...all, model: { ...model, ...('model' in all && all.model) } }, rows);
    expect(await run(plan, { retryFailed: true })).toMatchObject({ exitCode: 0, calls: 2, rows: { ok: 2, earlier: 3 } });
    expect(
      linesOf('out.jsonl')
        .map(({ reply }) => reply)
        .sort(),
    ).toEqual(['', 'I cannot help with that', 'SAY FINE', 'cut', 'cut off in the mid']);
  });

  it('of a stage that accepts nothing is a failure, whatever the model accepts', async () => {
    const model = { ...(await serve({ choice })), accept: ['length'] } as const;
    const stages = [{ name: 'reply', prompt: 'say {{text}}', accept: [] }];
    expect(await run(planOf({ model, stages }, rows.slice(0, 1)))).toMatchObject({ rows: { failed: 1 } });
  });
});

describe('a run of a server that is of no use', () => {
  const rows = Array.from({ length: 40 }, (_, i) => ({ text: `t${String(i)}` }));

  it.each([
    [500, (url: string) => `${url} has answered nothing of use with \`m\` so far: 500 boom. Check \`model\` in the configuration`],
    [403, (url: string) => `${url} refuses the key: 403 boom. Set SLUICE_API_KEY or OPENAI_API_KEY to a valid one`],
    [451, (url: string) => `${url} refuses to work: 451 boom`],
  ])('ends when ten calls were given up with %i and none was answered, and does them all when it is', async (status, says) => {
    let isUp = false;
    const model = { ...(await serve({ fault: () => (isUp ? undefined : { status, message: 'boom' }) })), retry: false } as const;
    const plan = planOf({ model }, rows);
    for (let i = 0; i < 2; i++) await expect(run(plan)).rejects.toMatchObject({ exitCode: 3, message: says(model.baseUrl) });
    expect(linesOf('out.jsonl.failures.jsonl')).toEqual([]);
    isUp = true;
    expect(await run(plan)).toMatchObject({ exitCode: 0, rows: { ok: 40, failed: 0, earlierFailed: 0 } });
  });

  it('ends when one of two models is, and has the answers of the other', async () => {
    let isUp = false;
    const fault = (prompt: string) => (isUp || !prompt.startsWith('next') ? undefined : { status: 403, message: 'no access' });
    const stages = [
      { name: 'reply', prompt: 'say {{text}}' },
      { name: 'next', prompt: 'next {{reply}}', model: 'other' },
    ];
    const plan = planOf({ model: await serve({ fault }), stages }, rows);
    await expect(run(plan)).rejects.toMatchObject({ exitCode: 3 });
    isUp = true;
    expect(await run(plan)).toMatchObject({ exitCode: 0, rows: { ok: 40, earlierFailed: 0 } });
    // Those that were under way when it ended.
    expect([...(chat?.answered.values() ?? [])].filter((times) => times > 1).length).toBeLessThanOrEqual(4);
  });

  it('leaves what has failed until then when it is interrupted', async () => {
    const fault = (_: string, times: number) => (times === 1 ? { status: 500, message: 'boom' } : undefined);
    const model = { ...(await serve({ fault, delayMs: 50 })), retry: false } as const;
    const plan = planOf({ model, batches: { concurrency: 1 } }, ROWS);
    const stop = new AbortController();
    const running = start(plan, stop.signal).run();
    await expect.poll(() => chat?.calls).toBe(2);
    stop.abort();
    expect(await running).toMatchObject({ exitCode: 130, rows: { failed: 0 } });
    expect(linesOf('out.jsonl.failures.jsonl')).toEqual([]);
  });

  it('goes on when it refuses what it is asked: that is about the rows', async () => {
    const model = await serve({ fault: () => ({ status: 400, message: 'not that' }) });
    expect(await run(planOf({ model }, rows))).toMatchObject({ exitCode: 1, rows: { failed: 40 } });
  });

  it('counts calls that took too long as failed', async () => {
    const model = { ...(await serve({ until: new Promise(() => undefined) })), retry: false, timeoutMs: 50 } as const;
    const { stages, calls } = await run(planOf({ model }, ROWS));
    expect([calls, stages]).toEqual([3, [expect.objectContaining({ stage: 'reply', calls: 3, failures: 3 })]]);
    expect(stages[0]?.latencyMs.p50).toBeGreaterThan(40);
  });
});

describe('a run of a server that refuses some rows', () => {
  const rows = Array.from({ length: 20 }, (_, i) => ({ text: `t${String(i)}` }));
  const refused = (status: number, ...texts: string[]): FakeChatOptions => ({
    fault: (prompt) => (texts.includes(prompt.slice(4)) ? { status, message: 'filtered' } : undefined),
  });

  it.each([
    ...[403, 405, 406, 410, 415, 418, 451, 499].map((status) => [status, 't7'] as const),
    ...['t0', 't19'].map((text) => [403, text] as const),
  ])('does the others: %i for %s', async (status, text) => {
    const plan = planOf({ model: await serve(refused(status, text)), batches: { concurrency: 1 } }, rows);
    expect(await run(plan)).toMatchObject({ exitCode: 1, rows: { ok: 19, failed: 1 }, calls: 20 });
    expect(linesOf('out.jsonl.failures.jsonl')).toMatchObject([{ error: `${String(status)} filtered` }]);
    expect(await run(plan)).toMatchObject({ exitCode: 1, calls: 0 });
  });

  it.each([403, 500])('has their failures again when they are taken up again, however many they are: %i', async (status) => {
    const most = rows.slice(4).map(({ text }) => text);
    const plan = planOf({ model: { ...(await serve(refused(status, ...most))), retry: false }, batches: { concurrency: 1 } }, rows);
    for (const retryFailed of [false, true, true])
      expect(await run(plan, { retryFailed })).toMatchObject({ exitCode: 1, rows: { failed: 16 } });
    expect(linesOf('out.jsonl.failures.jsonl')).toHaveLength(16);
  });

  it.each([401, 402, 404])('ends where that is about all of them: %i', async (status) => {
    const plan = planOf({ model: await serve(refused(status, 't7')), batches: { concurrency: 1 } }, rows);
    await expect(run(plan)).rejects.toMatchObject({ exitCode: 3 });
    expect(linesOf('out.jsonl')).toHaveLength(7);
    expect(linesOf('out.jsonl.failures.jsonl')).toEqual([]);
  });
});

describe('a run of a server that refuses each call once', () => {
  const rows = Array.from({ length: 40 }, (_, i) => ({ text: `t${String(i)}` }));
  const many = { limits: { concurrency: 20 }, batches: { concurrency: 20 } };

  it.each([500, 503, 429])('does them all, with %i', async (status) => {
    const model = {
      ...(await serve({ fault: (_, times) => (times === 1 ? { status, message: 'not now' } : undefined) })),
      retry: { delayMs: 5 },
    };
    expect(await run(planOf({ model, ...many }, rows))).toMatchObject({ exitCode: 0, rows: { ok: 40 }, calls: 80, retries: 40 });
  });

  it('says of which rows it was that the share of retries had no room', async () => {
    let refuse = (): void => undefined;
    const until = new Promise<void>((resolve) => (refuse = resolve));
    const server = await serve({ until, fault: (_, times) => (times === 1 ? { status: 500, message: 'not now' } : undefined) });
    const model = { ...server, retry: { maxShare: 0.01, delayMs: 500, jitter: 'none' } } as const;
    const ended = run(planOf({ model, ...many }, rows.slice(0, 12)));
    await expect.poll(() => chat?.open).toBe(12);
    refuse();
    expect(await ended).toMatchObject({ exitCode: 1, rows: { ok: 3, failed: 9 }, retries: 3 });
    const failures = linesOf('out.jsonl.failures.jsonl').map(({ error }) => error);
    expect(failures).toEqual(Array(9).fill('not tried again, for `model.retry.maxShare` had no room: 500 not now'));
  });
});

describe('what a run has cost', () => {
  const rows = Array.from({ length: 40 }, (_, i) => ({ text: `t${String(i)}` }));
  const prices = { m: { usdPerCall: 0.01 } };

  it('is counted with and without a limit, whatever the order', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(fc.constantFrom(undefined, 0.02, 0.05, 0.1), fc.integer({ min: 1, max: 12 })), { minLength: 2, maxLength: 5 }),
        fc.constantFrom<Config['budget']>(undefined, { tokens: 1_000_000 }, { usd: 5, windowMs: 60_000 }),
        async (runs, budget) => {
          await chat?.close();
          const model = await serve();
          const plan = planOf({ model, prices, ...(budget && { budget }) }, rows);
          for (const file of pathsOf(plan.paths)) rmSync(file, { force: true });
          let paid = 0;
          for (const [maxUsd, limit] of runs) {
            const { calls, costUsd } = await run(plan, { maxUsd, limit });
            const left = maxUsd === undefined ? limit : Math.max(0, Math.min(limit, Math.round(maxUsd * 100) - paid));
            expect({ calls, costUsd }).toEqual({ calls: left, costUsd: left / 100 });
            paid += calls;
          }
          expect(chat?.calls).toBe(paid);
        },
      ),
      { numRuns: sized(2, 30) },
    );
  });

  it('is not known of runs without prices, and that is said', async () => {
    const model = await serve();
    await run(planOf({ model }, rows), { limit: 2 });
    const note = 'what earlier runs have spent is not known and not counted: they had neither `prices` nor a `budget`';
    expect(await run(planOf({ model, prices }, rows), { limit: 2, maxUsd: 1 })).toMatchObject({ notes: [note], costUsd: 0.02 });
    expect(await run(planOf({ model, prices }, rows), { limit: 2, maxUsd: 1 })).toMatchObject({ notes: [] });
  });

  it.each<[string, unknown, object]>([
    ['as they say', { prompt_tokens: 7, completion_tokens: 2 }, { promptTokens: 21, completionTokens: 6, estimatedCalls: 0 }],
    ['by estimate when they say nothing', undefined, { promptTokens: 21, completionTokens: 12, estimatedCalls: 3 }],
    ['by estimate when they say half of it', { prompt_tokens: 999, completion_tokens: null }, { promptTokens: 21, estimatedCalls: 3 }],
    ['by estimate when they cannot count', { prompt_tokens: 1e300, completion_tokens: '2' }, { promptTokens: 21, estimatedCalls: 3 }],
    ['by estimate when it is less than nothing', { prompt_tokens: -7, completion_tokens: 2 }, { promptTokens: 21, estimatedCalls: 3 }],
  ])('is that of its answers: %s', async (_what, usage, tokens) => {
    const model = { ...(await serve({ usage: () => usage })), maxTokens: 100 };
    const priced = { m: { inputUsdPerMillion: 1000, outputUsdPerMillion: 1000 } };
    const summary = await run(planOf({ model, prices: priced }, ROWS));
    expect(summary).toMatchObject(tokens);
    expect(summary.costUsd).toBeCloseTo((summary.promptTokens + summary.completionTokens) / 1000, 9);
    const saved = readFileSync(join(folder, 'out.jsonl.budget'), 'utf8').split('\n').at(-2) ?? '';
    // A limit keeps the most that calls can have cost which do not say it.
    if (summary.estimatedCalls === 0) expect(saved).toContain(`"charged":${String(Math.round((summary.costUsd ?? 0) * 1e9))}}`);
    else expect(Number(/"unit":"usd".*"charged":(\d+)/.exec(saved)?.[1])).toBeGreaterThanOrEqual(3 * 100 * 1e6);
    expect(runSummaryText(summary).includes('by estimate')).toBe(summary.estimatedCalls > 0);
  });
});

describe('a run whose calls take too long', () => {
  it.each([1, 2])('makes room with each that is given up: %i at a time', async (concurrency) => {
    let silent = concurrency;
    const model = {
      ...(await serve({ delayMs: () => (silent-- > 0 ? 20_000 : 0) })),
      timeoutMs: 1500,
      retry: { maxAttempts: 2, delayMs: 5 },
    };
    const { exitCode, rows, retries } = await run(planOf({ model, limits: { concurrency } }, ROWS));
    expect({ exitCode, rows, retries }).toMatchObject({ exitCode: 0, rows: { ok: 3 }, retries: concurrency });
    expect(chat?.calls).toBe(3 + concurrency);
  });

  it('drains while one of them waits for its next attempt', async () => {
    const model = { ...(await serve({ delayMs: 5000 })), timeoutMs: 50, retry: { maxAttempts: 5, delayMs: 600_000, maxMs: 600_000 } };
    const stop = new AbortController();
    const job = start(planOf({ model, limits: { concurrency: 1 } }, ROWS.slice(0, 1)), stop.signal);
    const ended = job.run();
    await vi.waitFor(() => {
      expect(job.view().retries).toBe(1);
    });
    stop.abort();
    expect(await ended).toMatchObject({ stopped: 'interrupted', calls: 1 });
  });
});

describe('a run with other prompts than the one before', () => {
  it('begins anew where there was no answer, and is refused where there was one', async () => {
    const model = await serve();
    const typo = [{ name: 'reply', prompt: 'say {{txt}}' }];
    expect(await run(planOf({ model, stages: typo }, ROWS))).toMatchObject({ exitCode: 1, rows: { failed: 3 }, calls: 0 });
    expect(await run(planOf({ model }, ROWS))).toMatchObject({ exitCode: 0, rows: { ok: 3, earlierFailed: 0 }, calls: 3 });
    expect(existsSync(join(folder, 'out.jsonl.failures.jsonl'))).toBe(false);
    await expect(run(planOf({ model, stages: typo }, ROWS))).rejects.toMatchObject({ exitCode: 2 });
    expect(linesOf('out.jsonl')).toHaveLength(3);
  });
});

describe('a run whose files were changed in between', () => {
  it('is refused when something of the output is gone', async () => {
    const plan = planOf({ model: await serve() }, ROWS);
    await run(plan);
    writeFileSync(join(folder, 'out.jsonl'), '{}\n');
    const message =
      '`out.jsonl` is shorter than its journal says; put it back, or remove it, its failures and `out.jsonl.journal` to begin anew';
    await expect(run(plan)).rejects.toMatchObject({ exitCode: 2, message });
  });

  it('goes on without the failures that were taken away', async () => {
    const bad = { other: 'x' };
    const config = { model: await serve() };
    await run(planOf(config, [...ROWS, bad, bad]));
    rmSync(join(folder, 'out.jsonl.failures.jsonl'));
    for (const more of [1, 2]) {
      const plan = planOf(config, [...ROWS, bad, bad, ...Array.from({ length: more }, (_, i) => ({ bad: i }))]);
      expect(await run(plan)).toMatchObject({ rows: { failed: 1, earlierFailed: 1 + more } });
      expect(linesOf('out.jsonl.failures.jsonl').map(({ failure }) => failure)).toEqual(more === 1 ? [1] : [1, 2]);
      // As a process leaves it that was killed.
      appendFileSync(join(folder, 'out.jsonl.failures.jsonl'), '{"fail');
    }
  });
});

describe('a run that names its failures', () => {
  const configOf = (name: string, failures: string) => ({ output: { path: `${name}.jsonl`, failures } });
  /** What the prompt asks for is not there. */
  const bad = (id: string): object[] => [{ id, other: 'x' }];

  it('says in each of them of which output it is, and numbers them through all runs', async () => {
    const model = await serve();
    const given = { model, ...configOf('a', 'failed/f.jsonl') };
    await run(planOf(given, bad('x')));
    await run(planOf(given, [...bad('x'), ...bad('y')]));
    expect(linesOf('failed/f.jsonl').map(({ output, failure, id }) => [output, failure, id])).toEqual(
      ['x', 'y'].map((id, i) => ['../a.jsonl', i + 1, id]),
    );
  });

  it.each([
    ['of another output, whose run came in between', JSON.stringify({ output: 'b.jsonl', failure: 1 })],
    ['of an output that has them beside itself', JSON.stringify({ failure: 1, id: 'x' })],
    ['that are something else', 'Dear diary,'],
  ])('cuts none %s', async (_what, line) => {
    const model = await serve();
    await run(planOf({ model, ...configOf('a', 'f.jsonl') }, ROWS));
    writeFileSync(join(folder, 'f.jsonl'), `${line}\n`);
    const again = planOf({ model, ...configOf('a', 'f.jsonl') }, [...ROWS, ...bad('x')]);
    await expect(run(again)).rejects.toThrow('f.jsonl` is there already and is not what failed of `a.jsonl`; give another name');
    expect(readFileSync(join(folder, 'f.jsonl'), 'utf8')).toBe(`${line}\n`);
    expect(existsSync(join(folder, 'a.jsonl.lock'))).toBe(false);
  });

  it('has them to itself while it goes on', async () => {
    const model = await serve();
    writeFileSync(join(folder, 'f.jsonl.lock'), `${String(process.ppid)}\n`);
    await expect(run(planOf({ model, ...configOf('a', 'f.jsonl') }, ROWS))).rejects.toThrow(
      `process ${String(process.ppid)} is writing this file of failures`,
    );
    expect(existsSync(join(folder, 'a.jsonl.lock'))).toBe(false);
    rmSync(join(folder, 'f.jsonl.lock'));
    expect(await run(planOf({ model, ...configOf('a', 'f.jsonl') }, ROWS))).toMatchObject({ exitCode: 0 });
    expect(existsSync(join(folder, 'f.jsonl.lock'))).toBe(false);
  });
});

describe('a run whose journal is damaged', () => {
  const rows = Array.from({ length: 12 }, (_, i) => ({ id: `r${String(i)}`, text: `t${String(i)}` }));
  const stages = [
    { name: 'part', prompt: 'list {{text}}', answer: 'list', allowPartialFailure: true },
    { name: 'reply', prompt: 'say {{part}}', allowPartialFailure: true },
  ] as const;
  const fault = (prompt: string) => (/^(list t3|say t[47]b)$/.test(prompt) ? { status: 400, message: 'not that' } : undefined);
  const answer = (prompt: string): string =>
    prompt.startsWith('list') ? JSON.stringify([`${prompt.slice(5)}a`, `${prompt.slice(5)}b`]) : prompt;
  const itemsOf = (name: string): string[] => linesOf(name).map(({ row, item = '' }) => `${String(row)} ${String(item)}`);
  const wanted = rows.flatMap((_, i) => ['0', '1'].map((item) => `${String(i + 1)} ${item}`));
  const failing = ['4 ', '5 1', '8 1'];

  /** Changes a character of some lines, and says which they were. */
  function damage(at: (line: string, index: number) => boolean): string[] {
    const path = join(folder, 'out.jsonl.journal');
    const lines = readFileSync(path, 'utf8').split('\n');
    const isDamaged = lines.map((line, i) => i > 0 && line !== '' && at(line, i));
    writeFileSync(path, lines.map((line, i) => (isDamaged[i] ? line.replace(/.$/, '!') : line)).join('\n'));
    return lines.filter((_, i) => isDamaged[i]);
  }

  async function begin(concurrency: number): Promise<RunPlan> {
    await chat?.close();
    const plan = planOf({ model: await serve({ answer, fault }), stages: [...stages], batches: { concurrency } }, rows);
    for (const file of pathsOf(plan.paths)) rmSync(file, { force: true });
    await run(plan);
    return plan;
  }

  it('writes nothing twice and leaves nothing out, whatever lines they are', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(1, 4),
        fc.array(fc.tuple(fc.nat(60), fc.integer({ min: 1, max: 6 })), { minLength: 1, maxLength: 4 }),
        fc.array(fc.boolean(), { minLength: 1, maxLength: 3 }),
        async (concurrency, stretches, retries) => {
          const plan = await begin(concurrency);
          damage((_, i) => stretches.some(([from, length]) => i > from && i <= from + length));
          for (const retryFailed of retries) {
            await run(plan, { retryFailed });
            expect(itemsOf('out.jsonl').toSorted()).toEqual(wanted.filter((item) => !/^(4 .|[58] 1)$/.test(item)).toSorted());
            expect(itemsOf('out.jsonl.failures.jsonl').toSorted()).toEqual(failing);
          }
        },
      ),
      { numRuns: sized(3, 50) },
    );
  });

  it('asks for nothing that it has answers to, when the ends of rows are damaged', async () => {
    const plan = await begin(1);
    expect(damage((line) => line.includes('"status":"ok"'))).toHaveLength(9);
    const calls = chat?.calls;
    const all = itemsOf('out.jsonl');
    // Behind the last end that is known, the output is cut and written again.
    expect(await run(plan)).toMatchObject({ calls: 0, rows: { ok: 9, earlierFailed: 3 }, results: { written: 8 } });
    expect([chat?.calls, itemsOf('out.jsonl')]).toEqual([calls, all]);
  });

  it('takes a row that was changed since for a new one', async () => {
    const plan = await begin(1);
    damage((line) => line.includes('"done":"1-2:'));
    await run(plan);
    const model = { model: 'm', baseUrl: chat?.baseUrl ?? '' };
    const changed = rows.map((row, i) => (i === 1 ? { ...row, text: 'new' } : row));
    await run(planOf({ model, stages: [...stages] }, changed));
    expect(linesOf('out.jsonl').flatMap(({ row, reply }) => (row === 2 ? [reply] : []))).toEqual([
      'say t1a',
      'say t1b',
      'say newa',
      'say newb',
    ]);
  });
});

describe('a run over rows without ids', () => {
  it('knows each by what it says, wherever it stands by then', async () => {
    const input = fc.array(fc.constantFrom('a', 'b', 'c', 'd', 'not JSON', '{ nor this'), { minLength: 1, maxLength: 8 });
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(input, fc.integer({ min: 1, max: 8 })), { minLength: 2, maxLength: 4 }), async (runs) => {
        await chat?.close();
        const model = await serve();
        for (const file of pathsOf(planOf({ model }, []).paths)) rmSync(file, { force: true });
        for (const [texts, limit] of runs) {
          const plan = planOf({ model }, []);
          const lines = texts.map((text) => (text.length > 1 ? text : JSON.stringify({ text })));
          writeFileSync(join(folder, 'in.jsonl'), lines.map((line) => `${line}\n`).join(''));
          await run(plan, { limit });
        }
        const about = [...linesOf('out.jsonl'), ...linesOf('out.jsonl.failures.jsonl')].map(({ id, reply }) => ({ id, reply }));
        const ids = new Set(about.map(({ id }) => id));
        expect(new Set(about.map((line) => JSON.stringify(line))).size).toBe(ids.size);
        expect(new Set(about.flatMap(({ reply }) => reply ?? [])).size).toBe(new Set(linesOf('out.jsonl').map(({ id }) => id)).size);
        // Each as often as in the input that had most of them.
        const most = (text: string): number => Math.max(...runs.map(([texts]) => texts.filter((one) => one === text).length));
        const all = ['a', 'b', 'c', 'd', 'not JSON', '{ nor this'].reduce((sum, text) => sum + most(text), 0);
        expect(about.length).toBeLessThanOrEqual(all);
      }),
      { numRuns: sized(3, 50) },
    );
  });
});

describe('a run over a folder', () => {
  it('takes nothing for a document that belongs to itself', async () => {
    const model = await serve();
    for (const name of ['a.txt', 'run.yaml', 'events.jsonl']) writeFileSync(join(folder, name), 'words');
    const config = { model, stages: [{ name: 'reply', prompt: 'say {{text}}' }], input: { path: '.' }, output: { path: 'out.jsonl' } };
    await run(planRun(config, join(folder, 'run.yaml'), HOST, [join(folder, 'events.jsonl')]));
    expect(linesOf('out.jsonl')).toEqual([{ id: 'a.txt', row: 1, reply: 'SAY WORDS' }]);
  });
});

describe('a run that is interrupted', () => {
  it('gives up nothing that has only waited for its end', async () => {
    const delaysMs = [100, 600];
    const model = await serve({ delayMs: () => delaysMs.shift() ?? 0 });
    const stages = [
      { name: 'reply', prompt: 'reply to {{text}}' },
      { name: 'next', prompt: 'next {{reply}}', timeoutMs: 50 },
    ];
    const stop = new AbortController();
    const plan = planOf({ model: { ...model, retry: false }, stages }, ROWS.slice(0, 2));
    const running = start(plan, stop.signal).run();
    await expect.poll(() => chat?.open).toBe(2);
    stop.abort();
    expect(await running).toMatchObject({ exitCode: 130, rows: { ok: 0, failed: 0 }, calls: 2 });
    expect(await run(plan)).toMatchObject({ exitCode: 0, rows: { ok: 2 }, calls: 2 });
  });
});

describe('a dry run', () => {
  it('says numbers where there is nothing to do, and where nothing is expected', async () => {
    const stages = [
      { name: 'idea', prompt: 'ideas about {{text}}', answer: 'list', expect: { itemsPerDocument: 0 } },
      { name: 'reply', prompt: 'say {{idea}}', expect: { itemsPerDocument: 0 } },
    ] as const;
    for (const rows of [[], [{ other: 'x' }], ROWS]) {
      const estimate = await dryRun(planOf({ stages }, rows), { limit: Infinity, retryFailed: false });
      expect(JSON.stringify(estimate)).not.toContain('null');
    }
  });

  it('counts the calls of a run that goes on where others stopped, with and without what has failed', async () => {
    const refused = new Set<string>();
    const fault = (prompt: string) => (refused.has(prompt) ? { status: 400, message: 'not that' } : undefined);
    const model = await serve({ fault, answer: (prompt) => (prompt.startsWith('ideas') ? '["x", "y"]' : `${prompt}!`) });
    const texts = ['a', 'b', 'c', 'd'];
    const prompts = texts.flatMap((text) => [
      `ideas of ${text}`,
      ...['x', 'y'].flatMap((idea) => [`reply ${text} ${idea}`, `grade reply ${text} ${idea}!`]),
    ]);
    let runs = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.subarray(prompts),
        fc.boolean(),
        fc.integer({ min: 1, max: 4 }),
        fc.boolean(),
        async (refusals, allowPartialFailure, limit, retryFailed) => {
          const stages = [
            { name: 'cut', chunk: { field: 'text' } },
            { name: 'idea', prompt: 'ideas of {{cut}}', answer: 'list', expect: { itemsPerDocument: 1 } },
            { name: 'reply', prompt: 'reply {{text}} {{idea}}', allowPartialFailure, expect: { itemsPerDocument: 2 } },
            { name: 'grade', prompt: 'grade {{reply}}', allowPartialFailure },
          ] as const;
          const output = { path: `out-${String(runs++)}.jsonl` };
          const plan = planOf(
            { model: { ...model, retry: false }, stages, output },
            texts.map((text) => ({ text })),
          );
          for (const prompt of refusals) refused.add(prompt);
          await run(plan, { limit });
          refused.clear();
          const { calls, rows } = await dryRun(plan, { limit: Infinity, retryFailed });
          const done = await run(plan, { retryFailed });
          expect([calls, rows]).toEqual([done.calls, done.rows.ok]);
        },
      ),
      { numRuns: sized(3, 50) },
    );
  });
});

describe('what a run tells', () => {
  const many = Array.from({ length: 40 }, (_, i) => ({ id: `r${String(i)}`, text: `t${String(i)}` }));

  it('of its progress: rows that are over, not rows that were read, also after a restart and with a limit', async () => {
    let open = (): void => undefined;
    const model = await serve({ until: new Promise((resolve) => (open = resolve)) });
    const stop = new AbortController();
    const plan = planOf({ model, batches: { concurrency: 40 } }, many);
    const first = start(plan, stop.signal);
    const ended = first.run();
    await vi.waitFor(() => {
      expect(chat?.open).toBe(40);
    });
    expect(first.view().progress).toEqual({ finished: 0, total: 40, isEstimate: false, share: 0, etaMs: undefined });
    stop.abort();
    open();
    await ended;
    expect(first.view().progress).toMatchObject({ finished: 40, total: 40, share: 1 });

    const other = planOf({ model, output: { path: 'other.jsonl' } }, many);
    await run(other, { limit: 10 });
    await chat?.close();
    chat = await startFakeChat({ until: new Promise(() => undefined) }, Number(new URL(model.baseUrl).port));
    const abort = new AbortController();
    const options = { plan: other, limit: 20, maxUsd: undefined, retryFailed: false, events: undefined };
    const second = new RunJob(options, { stop: new AbortController().signal, abort: abort.signal });
    const aborted = second.run();
    await vi.waitFor(() => {
      expect(chat?.open).toBe(4);
    });
    const { progress, earlier, rowsPerMinute } = second.view();
    expect([progress, earlier, rowsPerMinute]).toEqual([
      { finished: 10, total: 30, isEstimate: false, share: 1 / 3, etaMs: undefined },
      10,
      0,
    ]);
    abort.abort();
    await aborted;
  });

  it('of why rows fail, and of answers that are of no use', async () => {
    const model = await serve({
      answer: (prompt) => (prompt.endsWith('t1') ? '{}' : 'no JSON'),
      fault: (prompt) => (prompt.endsWith('t2') ? { status: 400, message: 'not this one' } : undefined),
    });
    const plan = planOf({ model, stages: [{ name: 'reply', prompt: 'say {{text}}', answer: 'json' }] }, many.slice(0, 6));
    const job = start(plan);
    const summary = await job.run();
    expect(summary).toMatchObject({
      rows: { ok: 1, failed: 5 },
      stages: [{ stage: 'reply', calls: 6, failures: 5, unusable: 4 }],
      reasons: [
        { reason: 'the answer is not JSON', count: 4 },
        { reason: '400 not this one', count: 1 },
      ],
      otherReasons: 0,
    });
    expect(['the answer is not JSON', '400 not this one']).toContain(job.view().lastFailure);
    const text = runSummaryText(summary);
    expect(text).toContain('\nwhy rows or items failed:\n  4 x the answer is not JSON\n  1 x 400 not this one\n');
    expect(text).toContain('\nreply: 6 calls, 5 failed (4 unusable answers); ');
  });

  it('of a pause that the provider has asked for', async () => {
    const model = {
      ...(await serve({ fault: () => ({ status: 429, message: 'slow down' }) })),
      retry: { delayMs: 60_000, jitter: 'none' },
    } as const;
    const abort = new AbortController();
    const options = { plan: planOf({ model }, ROWS), limit: Infinity, maxUsd: undefined, retryFailed: false, events: undefined };
    const job = new RunJob(options, { stop: new AbortController().signal, abort: abort.signal });
    const ended = job.run();
    await vi.waitFor(() => {
      expect(job.view().pausedForMs).toBeGreaterThan(0);
    });
    abort.abort();
    await ended;
  });

  it('of the limit that has stopped it, of several', async () => {
    const model = { ...(await serve()), maxTokens: 50 };
    const prices = { m: { inputUsdPerMillion: 1, outputUsdPerMillion: 1 } };
    const summary = await run(planOf({ model, prices, budget: { usd: 5, tokens: 200 }, batches: { concurrency: 1 } }, many));
    expect(summary).toMatchObject({
      exitCode: 6,
      spent: { name: 'budget.tokens', limit: 200, windowMs: undefined },
      budget: [
        { name: 'budget.tokens', limit: 200 },
        { name: 'budget.usd', limit: 5 },
      ],
      stages: [{ stage: 'reply', calls: summary.calls, failures: 0 }],
    });
    const text = runSummaryText(summary);
    expect(text).toMatch(/\nlimit `budget\.tokens`: \d+ tokens of 200 tokens spent in all runs, \d+ tokens left\nlimit `budget\.usd`: /);
    expect(text).toMatch(/\nstopped by the limit `budget\.tokens`: \d+ tokens left, and the next call may cost \d+ tokens; /);
  });

  it('of an input without rows, and of one that earlier runs were through with', async () => {
    const plan = planOf({ model: await serve() }, []);
    expect(await run(plan)).toMatchObject({ exitCode: 0, notes: ['the input has no rows'] });
    const again = planOf({ model: await serve(), output: { path: 'again.jsonl' } }, ROWS);
    await run(again);
    expect(runSummaryText(await run(again))).toMatch(/\nnothing left to do: again\.jsonl has the results of earlier runs$/);
  });
});
