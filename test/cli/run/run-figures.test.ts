import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { dryRun, dryRunText } from '../../../src/cli/run/dry-run.js';
import { RunJob } from '../../../src/cli/run/run-job.js';
import { planRun, type RunPlan, refusalsOf } from '../../../src/cli/run/run-plan.js';
import type { RunSummary } from '../../../src/cli/run/run-summary.js';
import type { Config } from '../../../src/edge/config/schema.js';
import { type FakeChat, type FakeChatOptions, startFakeChat } from '../../support/fake-chat-api.js';

vi.setConfig({ testTimeout: 60_000 });

/** Ten texts of 400 characters, and one that the provider refuses. */
const TEXTS = [...Array.from({ length: 10 }, (_, i) => String(i).padEnd(400, 'x')), 'POISON'.padEnd(400, 'x')];
const LIST = JSON.stringify(['why', 'how', 'who']);
const REPLY = 'because of it'.padEnd(80, '.');
const PRICE = { inputUsdPerMillion: 0.15, outputUsdPerMillion: 0.6 };
const ASK = 'List questions about {{text}}';
const ANSWER = 'Answer {{question}} from {{text}}';

/** By hand: four characters are a token, there are three questions to a text. */
const tokens = (text: string): number => Math.ceil(text.length / 4);
const usd = (input: number, output: number): number => (input * 0.15 + output * 0.6) / 1e6;
const text = TEXTS[0] as string;
const askUsd = usd(tokens(ASK.replace('{{text}}', text)), tokens(LIST));
const answerUsd = usd(tokens(ANSWER.replace('{{question}}', 'why').replace('{{text}}', text)), tokens(REPLY));
const ALL_USD = 10 * (askUsd + 3 * answerUsd);

let folder: string;
let chat: FakeChat;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-figures-'));
});
afterEach(async () => {
  await chat.close();
  rmSync(folder, { recursive: true, force: true });
});

async function planned(model: Config['model'], options: FakeChatOptions = {}): Promise<RunPlan> {
  chat = await startFakeChat({
    answer: (prompt) => (prompt.startsWith('List') ? LIST : REPLY),
    ...options,
    fault: (prompt, times) => {
      if (prompt.includes('POISON')) return { status: 400, message: 'content policy violation' };
      return options.fault?.(prompt, times);
    },
  });
  writeFileSync(join(folder, 'in.jsonl'), TEXTS.map((each) => `${JSON.stringify({ text: each })}\n`).join(''));
  const config: Config = {
    model: { baseUrl: chat.baseUrl, model: 'm', retry: { maxAttempts: 8, delayMs: 1, maxMs: 2 }, ...model },
    limits: { concurrency: 10 },
    stages: [
      { name: 'question', prompt: ASK, answer: 'list' },
      {
        name: 'answer',
        prompt: ANSWER,
        allowPartialFailure: true,
        expect: { itemsPerDocument: 3, outputTokens: tokens(REPLY) },
      },
    ],
    input: { path: 'in.jsonl' },
    output: { path: 'out.jsonl' },
    prices: { m: PRICE },
  };
  return planRun(config, join(folder, 'run.yaml'), { env: {}, cwd: () => '/' });
}

function run(plan: RunPlan, maxUsd?: number): Promise<RunSummary> {
  const never = new AbortController().signal;
  return new RunJob({ plan, limit: Infinity, maxUsd, retryFailed: false, events: undefined }, { stop: never, abort: never }).run();
}

it('a job of 11 rows costs what its answers say: 41 calls, of which one is refused', async () => {
  const summary = await run(await planned({ maxTokens: 400 }));
  expect(summary).toMatchObject({
    rows: { ok: 10, failed: 1 },
    results: { written: 30, failed: 1 },
    calls: 41,
    retries: 0,
    estimatedUsd: 0,
  });
  expect(summary.costUsd).toBeCloseTo(ALL_USD, 9);
  // A filter may have read the one that was refused.
  expect(summary.failedUsd).toBeGreaterThan(usd(100, 400));
});

it('calls that the provider fails cost nothing, however often', async () => {
  const plan = await planned({ maxTokens: 400 }, { fault: (_, times) => (times <= 2 ? { status: 500, message: 'sorry' } : undefined) });
  const summary = await run(plan);
  expect(summary).toMatchObject({ rows: { ok: 10, failed: 1 }, retries: 2 * 40 });
  expect(summary.costUsd).toBeCloseTo(ALL_USD, 9);
  expect(summary.failedUsd).toBeLessThan(2 * usd(700, 400));
});

it('a limit without a longest answer is refused', async () => {
  const { config } = await planned({});
  expect(refusalsOf(config, 0.02)[0]?.message).toContain('needs the longest answer of the stage `question`');
});

it('one run spends a limit up to less than one call, and a second one finishes', async () => {
  const plan = await planned({ maxTokens: 400 });
  const cap = ALL_USD / 2 + usd(700, 400);
  const first = await run(plan, cap);
  expect(first.stopped).toBe('budget');
  expect((first.costUsd ?? 0) + (first.failedUsd ?? 0)).toBeLessThanOrEqual(cap);
  expect(cap - (first.costUsd ?? 0) - (first.failedUsd ?? 0)).toBeLessThan(first.spent?.asked ?? 0);
  const second = await run(plan, 1);
  expect(second).toMatchObject({ stopped: undefined });
  expect((first.costUsd ?? 0) + (second.costUsd ?? 0)).toBeCloseTo(ALL_USD, 9);
});

it('a dry run says how far a limit reaches, of what is left of it', async () => {
  const plan = await planned({ maxTokens: 400 });
  const whole = (await dryRun(plan, { limit: Infinity, retryFailed: false })).costUsd ?? 0;
  const reach = async (maxUsd: number, rows: number): Promise<void> => {
    const dry = await dryRun(plan, { limit: Infinity, retryFailed: false, maxUsd });
    expect(dry.reach).toMatchObject([{ name: '--max-usd', limit: maxUsd, left: maxUsd, rows }]);
    expect(dryRunText(dry)).toMatch(
      rows === 11
        ? /\nlimit `--max-usd`: \S+ USD of \S+ USD left, enough for all rows\n/
        : new RegExp(`\nlimit \`--max-usd\`: \\S+ USD of \\S+ USD left, enough for about ${String(rows)} of 11 rows\n`),
    );
  };
  await reach(whole * 0.5, 5);
  await reach(whole * 2, 11);
});

it('a dry run says what the run costs, when it is told what to expect', async () => {
  const plan = await planned({ maxTokens: 400 });
  const { calls, stages } = await dryRun(plan, { limit: Infinity, retryFailed: false });
  expect(calls).toBe(11 + 33);
  expect(stages.find(({ stage }) => stage === 'answer')).toMatchObject({ calls: 33, outputTokens: 33 * tokens(REPLY) });
});
