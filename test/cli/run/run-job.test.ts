import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { dryRun } from '../../../src/cli/run/dry-run.js';
import { RunJob } from '../../../src/cli/run/run-job.js';
import { planRun, type RunPlan } from '../../../src/cli/run/run-plan.js';
import type { RunSummary } from '../../../src/cli/run/run-summary.js';
import type { Config } from '../../../src/edge/config/schema.js';
import { type FakeChat, type FakeChatOptions, startFakeChat } from '../../support/fake-chat-api.js';

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
  return planRun(given, join(folder, 'run.yaml'), {});
}

async function serve(options: FakeChatOptions = {}): Promise<{ readonly baseUrl: string; readonly model: string }> {
  chat = await startFakeChat(options);
  return { baseUrl: chat.baseUrl, model: 'm' };
}

function start(plan: RunPlan, stop = new AbortController().signal): RunJob {
  const options = { plan, limit: Infinity, maxUsd: undefined, retryFailed: false, events: undefined };
  return new RunJob(options, { stop, abort: new AbortController().signal });
}

const run = (plan: RunPlan): Promise<RunSummary> => start(plan).run();

function linesOf(name: string): Record<string, unknown>[] {
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
    const stages = [{ name: 'reply', prompt: 'say {{text}}', deadlineMs: 60 }];
    expect(await run(planOf({ model, stages }, ROWS))).toMatchObject({ exitCode: 1, rows: { failed: 3 } });
    expect(linesOf('out.jsonl.failures.jsonl').map(({ error }) => error)).toEqual(Array(3).fill(expect.stringContaining('60 ms')));
  });

  it('of items that a stage may lose, also where it asks nobody', async () => {
    const model = await serve({ answer: () => '[{"text": "kept"}, {"other": "lost"}]' });
    const stages = [
      { name: 'idea', prompt: 'ideas about {{text}}', answer: 'list' },
      { name: 'part', chunk: { field: 'idea.text' }, allowPartialFailure: true },
    ] as const;
    expect(await run(planOf({ model, stages }, ROWS.slice(0, 1)))).toMatchObject({
      rows: { partial: 1 },
      items: { written: 1, failed: 1 },
    });
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
      const estimate = await dryRun(planOf({ stages }, rows), Infinity);
      expect(JSON.stringify(estimate)).not.toContain('null');
    }
  });
});
