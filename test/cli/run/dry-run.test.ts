import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type DryRun, dryRun, dryRunText } from '../../../src/cli/run/dry-run.js';
import { RunJob } from '../../../src/cli/run/run-job.js';
import { planRun, type RunPlan } from '../../../src/cli/run/run-plan.js';
import type { RunSummary } from '../../../src/cli/run/run-summary.js';
import type { Config, StageConfig } from '../../../src/edge/config/schema.js';
import { estimateChat } from '../../../src/pipelines/models/chat-api.js';
import { estimatorFor } from '../../../src/tokenizers/estimate.js';
import { type FakeChat, startFakeChat } from '../../support/fake-chat-api.js';

let folder: string;
let chat: FakeChat;

const tokensOf = estimatorFor('m');
const ANSWER = 'word '.repeat(12);
const ANSWER_TOKENS = tokensOf(ANSWER);
const LIST = ['why is it so?', 'how is it so?', 'who is it for?'];
const LIST_LENGTH = LIST.length;
/** Without what JSON adds. */
const LIST_TOKENS = LIST.reduce((sum, question) => sum + tokensOf(question), 0);

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-dry-'));
  chat = await startFakeChat({
    answer: (prompt) => {
      if (prompt.startsWith('ask ')) return JSON.stringify(LIST);
      return prompt.startsWith('parts ') ? '[{"text":"kept"},{"other":"lost"}]' : ANSWER;
    },
    usage: (prompt) => ({
      prompt_tokens: estimateChat({ model: 'm', messages: [{ role: 'user', content: prompt }] }).inputTokens,
      completion_tokens: prompt.startsWith('ask ') ? LIST_TOKENS : ANSWER_TOKENS,
    }),
  });
});
afterEach(async () => {
  await chat.close();
  rmSync(folder, { recursive: true, force: true });
});

function planOf(stages: readonly StageConfig[], rows: readonly (object | string)[], more: Partial<Config> = {}): RunPlan {
  const lines = rows.map((row) => (typeof row === 'string' ? row : JSON.stringify(row)));
  writeFileSync(join(folder, 'in.jsonl'), lines.map((line) => `${line}\n`).join(''));
  const config: Config = {
    model: { baseUrl: chat.baseUrl, model: 'm', retry: false },
    stages,
    input: { path: 'in.jsonl' },
    output: { path: 'out.jsonl' },
    prices: { m: { inputUsdPerMillion: 1000, outputUsdPerMillion: 5000, usdPerCall: 0.01 } },
    expect: { outputTokens: ANSWER_TOKENS },
    ...more,
  };
  return planRun(config, join(folder, 'run.json'), { env: {}, cwd: () => '/' });
}

function run(plan: RunPlan, limit = Infinity): Promise<RunSummary> {
  const never = new AbortController().signal;
  return new RunJob({ plan, limit, maxUsd: undefined, retryFailed: false, events: undefined }, { stop: never, abort: never }).run();
}

const dry = (plan: RunPlan): Promise<DryRun> => dryRun(plan, { limit: Infinity, retryFailed: false });

function failures(): Record<string, unknown>[] {
  const path = join(folder, 'out.jsonl.failures.jsonl');
  if (!existsSync(path)) return [];
  return readFileSync(path, 'utf8')
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

const ROWS = Array.from({ length: 8 }, (_, i) => ({ id: `r${String(i)}`, text: `a text of row ${String(i)}, `.repeat(i + 1), other: 'x' }));
const ASK: StageConfig = { name: 'question', prompt: 'ask about {{text}}', answer: 'list', expect: { outputTokens: LIST_TOKENS } };
const SAY: StageConfig = { name: 'answer', prompt: 'say {{question}} of {{text}}', expect: { itemsPerDocument: LIST_LENGTH } };
const GRADE: StageConfig = { name: 'grade', prompt: 'grade {{answer}}', expect: { itemsPerDocument: LIST_LENGTH } };

/** Of a prompt with an answer in it: text and answer are estimated apart. */
const tolerance = ({ calls }: DryRun): number => 2 * calls;

async function expectSame(plan: RunPlan): Promise<DryRun> {
  const estimate = await dry(plan);
  const done = await run(plan);
  const { ok, partial } = done.rows;
  expect([estimate.calls, estimate.rows, estimate.unusable]).toEqual([done.calls, ok + partial, done.rows.failed]);
  expect(estimate.stages.reduce((sum, { outputTokens }) => sum + outputTokens, 0)).toBe(done.completionTokens);
  const sent = estimate.stages.reduce((sum, { inputTokens }) => sum + inputTokens, 0);
  const most = tolerance(estimate);
  expect(Math.abs(sent - done.promptTokens)).toBeLessThanOrEqual(most);
  expect(Math.abs((estimate.costUsd ?? 0) - (done.costUsd ?? 0))).toBeLessThanOrEqual((most * 1000) / 1e6);
  return estimate;
}

describe('a dry run says what the run does', () => {
  it('of calls and cost to the token, when no prompt holds an answer', async () => {
    const plan = planOf([{ name: 'reply', prompt: 'say {{text}}' }], ROWS);
    const estimate = await dry(plan);
    const done = await run(plan);
    expect([estimate.calls, estimate.tokens]).toEqual([done.calls, done.promptTokens + done.completionTokens]);
    expect(estimate.costUsd).toBeCloseTo(done.costUsd ?? 0, 6);
  });

  it('of prompts that hold answers, and parts of lists', async () => {
    await expectSame(planOf([ASK, SAY, GRADE], ROWS));
  });

  it('of what was answered before, which is not priced again', async () => {
    await run(planOf([ASK, SAY, GRADE], ROWS), 3);
    expect(await expectSame(planOf([ASK, SAY, GRADE], ROWS))).toMatchObject({ rows: 5, earlier: 3 });
  });

  it('of stages that have changed, by the answers that are kept', async () => {
    await run(planOf([ASK, SAY, GRADE], ROWS));
    const graded = { ...GRADE, prompt: 'grade from 0 to 10, with a reason: {{answer}}' };
    const plan = planOf([ASK, SAY, graded], ROWS);
    const estimate = await dry(plan);
    const done = await run(plan);
    expect([estimate.calls, estimate.calls]).toEqual([done.calls, ROWS.length * LIST_LENGTH]);
    // All prompts are known.
    expect(estimate.tokens).toBe(done.promptTokens + done.completionTokens);
    expect(dryRunText(estimate)).toMatch(
      /^note: the stages are not those of the last run \(`grade` is changed\): 8 answers of `question` are kept, /,
    );
  });

  it('of rows that fail before anything is sent for them, which it does not price', async () => {
    const bad = [{ id: 'no text' }, 'not JSON', { id: 'no other', text: 'x' }, 'not this either'];
    const rows = [...ROWS.slice(0, 2), ...bad, ...ROWS.slice(2)];
    const stages = [ASK, { ...SAY, prompt: '{{question}} of {{other}}' }];
    const estimate = await expectSame(planOf(stages, rows));
    expect(estimate).toMatchObject({ rows: 8, unusable: 4, firstProblem: 'row 3: there is no value for `{{text}}`', calls: 8 + 24 });
    expect(failures().map(({ row, stage, error }) => [row, stage, error])).toEqual([
      [3, 'question', 'there is no value for `{{text}}`'],
      [4, undefined, 'it is not JSON'],
      [5, 'answer', 'there is no value for `{{other}}`'],
      [6, undefined, 'it is not JSON'],
    ]);
    expect([...chat.sent.keys()].filter((prompt) => prompt === 'ask about x')).toEqual([]);
  });

  it('of a part of a field', async () => {
    const rows = [{ meta: { title: 'one' } }, { meta: { name: 'two' } }, { meta: 'three' }];
    const estimate = await expectSame(planOf([{ name: 'reply', prompt: 'say {{meta.title}}' }], rows));
    expect(estimate).toMatchObject({ rows: 1, unusable: 2 });
  });

  it('of what cannot be made of answers that are known', async () => {
    const parts: StageConfig = { name: 'part', prompt: 'parts of {{text}}', answer: 'list' };
    const say = (prompt: string, allowPartialFailure: boolean): StageConfig => ({ name: 'reply', prompt, allowPartialFailure });
    await run(planOf([parts, say('say {{part}}', true)], ROWS.slice(0, 2)));
    expect(await dry(planOf([parts, say('say {{part.text}}', true)], ROWS.slice(0, 2)))).toMatchObject({ rows: 2, unusable: 0, calls: 2 });
    const none = await dry(planOf([parts, say('say {{part.text}}', false)], ROWS.slice(0, 2)));
    expect(none).toMatchObject({
      rows: 0,
      unusable: 2,
      calls: 0,
      costUsd: 0,
      firstProblem: 'row 1: there is no value for `{{part.text}}`',
    });
  });

  it('of texts that are cut out of answers', async () => {
    const stages: StageConfig[] = [
      { name: 'reply', prompt: 'say {{text}}' },
      { name: 'part', chunk: { field: 'reply' } },
      { name: 'grade', prompt: 'grade {{part}}', expect: { itemsPerDocument: 1 } },
    ];
    expect(await expectSame(planOf(stages, ROWS))).toMatchObject({ rows: 8, unusable: 0, calls: 16 });
  });
});
