import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { RunJob } from '../../../src/cli/run/run-job.js';
import { planRun } from '../../../src/cli/run/run-plan.js';
import type { RunSummary } from '../../../src/cli/run/run-summary.js';
import type { StageConfig } from '../../../src/edge/config/schema.js';
import { type ChatTurn, type FakeChat, type FakeChatOptions, startFakeChat } from '../../support/fake-chat-api.js';

let folder: string;
let chat: FakeChat | undefined;
/** Conversations as they came, each message in short. */
let heard: string[][];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-talk-'));
  heard = [];
});
afterEach(async () => {
  await chat?.close();
  chat = undefined;
  rmSync(folder, { recursive: true, force: true });
});

const short = ({ role, content }: ChatTurn): string => `${role}: ${content}`;

/** Answers the n-th request of each conversation with the n-th text, over and over the last one. */
async function serve(answers: readonly string[], more: FakeChatOptions = {}): Promise<void> {
  chat = await startFakeChat({
    answer: (_prompt, messages) => {
      heard.push(messages.map(short));
      const nth = messages.filter(({ role }) => role === 'assistant').length;
      return answers[Math.min(nth, answers.length - 1)] ?? '';
    },
    ...more,
  });
}

function planOf(stage: Omit<StageConfig, 'name'>, rows: readonly string[] = ['a'], more: object = {}) {
  writeFileSync(join(folder, 'in.jsonl'), rows.map((text) => `${JSON.stringify({ id: text, text })}\n`).join(''));
  const config = {
    model: { model: 'm', baseUrl: chat?.baseUrl ?? '', retry: false as const },
    stages: [{ name: 'reply', prompt: 'about {{text}}', ...stage }],
    input: { path: 'in.jsonl' },
    output: { path: 'out.jsonl' },
    ...more,
  };
  return planRun(config, join(folder, 'run.yaml'), { env: {}, cwd: () => '/' });
}

function run(plan: ReturnType<typeof planOf>, retryFailed = false, stop = new AbortController().signal): Promise<RunSummary> {
  const options = { plan, limit: Infinity, maxUsd: undefined, retryFailed, events: undefined };
  return new RunJob(options, { stop, abort: new AbortController().signal }).run();
}

function linesOf(name: string): Record<string, unknown>[] {
  if (!existsSync(join(folder, name))) return [];
  const lines = readFileSync(join(folder, name), 'utf8').split('\n').slice(0, -1);
  return lines.map((line) => JSON.parse(line) as Record<string, unknown>);
}

const replies = (): unknown[] => linesOf('out.jsonl').map(({ reply }) => reply);

describe('a stage that has its answers fixed', () => {
  it('asks again in the same conversation, and says what was wrong', async () => {
    await serve(['Sure!', '{"a": 1}', '["x", "y"]']);
    expect(await run(planOf({ answer: 'list', fixAnswer: { rounds: 2 } }))).toMatchObject({ exitCode: 0, calls: 3, retries: 0 });
    expect(replies()).toEqual(['x', 'y']);
    expect(heard.at(-1)).toEqual([
      'user: about a',
      'assistant: Sure!',
      'user: The answer is not JSON. Answer again with a JSON list and nothing else.',
      'assistant: {"a": 1}',
      'user: The answer is not a JSON list. Answer again with a JSON list and nothing else.',
    ]);
  });

  it.each([
    [1, 'once'],
    [2, '2 times'],
  ])('fails after %i rounds, with the last text', async (rounds, times) => {
    await serve(['no', 'still no', 'never']);
    const plan = planOf({ answer: 'json', fixAnswer: { rounds } });
    expect(await run(plan)).toMatchObject({ exitCode: 1, calls: rounds + 1 });
    expect(linesOf('out.jsonl.failures.jsonl')).toMatchObject([
      {
        error: `the answer is not JSON, although it was asked for again ${times} (\`fixAnswer\`)`,
        fault: 'format',
        partial: rounds === 1 ? 'still no' : 'never',
      },
    ]);
  });

  it('asks nothing again that was cut off, and nothing that is right', async () => {
    await serve(['{}'], {
      choice: (prompt) => (prompt === 'about cut' ? { message: { content: '{"a"' }, finish_reason: 'length' } : undefined),
    });
    expect(await run(planOf({ answer: 'json', fixAnswer: { rounds: 3 } }, ['cut', 'fine']))).toMatchObject({
      exitCode: 1,
      calls: 2,
      rows: { ok: 1, failed: 1 },
    });
    expect(linesOf('out.jsonl.failures.jsonl')).toMatchObject([{ id: 'cut', fault: 'length', partial: '{"a"' }]);
  });

  it('may come later, for what has failed without', async () => {
    await serve(['no', '{}']);
    expect(await run(planOf({ answer: 'json' }))).toMatchObject({ exitCode: 1 });
    expect(await run(planOf({ answer: 'json', fixAnswer: { rounds: 1 } }), true)).toMatchObject({ exitCode: 0, rows: { ok: 1 } });
  });

  it('pays for each round by itself', async () => {
    await serve(['no', 'no', '{}']);
    const prices = { m: { usdPerCall: 0.01 } };
    const plan = planOf({ answer: 'json', fixAnswer: { rounds: 2 } }, ['a', 'b'], {
      prices,
      budget: { usd: 0.04 },
      batches: { concurrency: 1 },
    });
    expect(await run(plan)).toMatchObject({ exitCode: 6, calls: 4, costUsd: 0.04, rows: { ok: 1, failed: 0 } });
  });
});

describe('a stage that gleans', () => {
  it('sends its next message in the same conversation, and joins the texts', async () => {
    await serve(['one', 'two', 'three']);
    const plan = planOf({ gleaning: { prompt: 'more of {{text}}?', rounds: 2 }, system: 'be brief' });
    expect(await run(plan)).toMatchObject({ exitCode: 0, calls: 3, rows: { ok: 1 } });
    expect(replies()).toEqual(['one\ntwo\nthree']);
    expect(heard.at(-1)).toEqual([
      'system: be brief',
      'user: about a',
      'assistant: one',
      'user: more of a?',
      'assistant: two',
      'user: more of a?',
    ]);
  });

  it.each<[StageConfig['answer'], readonly string[], readonly unknown[]]>([
    ['list', ['["x"]', '[]', '["y", ["z"]]'], ['x', 'y', ['z']]],
    ['json', ['{"a": 1}', '[2]', 'null'], [[{ a: 1 }, [2], null]]],
  ])('puts answers together that are %s', async (answer, answers, values) => {
    await serve(answers);
    expect(await run(planOf({ ...(answer && { answer }), gleaning: { prompt: 'more?', rounds: 2 } }))).toMatchObject({ calls: 3 });
    expect(replies()).toEqual(values);
  });

  it.each([
    ['yes', true],
    ['  "Yes", there are more.', true],
    ["'YES'", true],
    ['**yes**', true],
    ['no', false],
    ['Not yes', false],
    ['yesterday', false],
    ['', false],
  ])('asks whether to continue; %j means %s', async (word, isYes) => {
    await serve([], {
      answer: (prompt, messages) => {
        heard.push(messages.map(short));
        return prompt === 'is anything missing?' ? word : String(messages.length);
      },
    });
    const gleaning = { prompt: 'more?', rounds: 3, continue: 'is anything missing?' };
    // The answer and three rounds, with a question between two rounds; or the answer, one round and one question.
    expect(await run(planOf({ gleaning }))).toMatchObject({ exitCode: 0, calls: isYes ? 6 : 3 });
    expect(replies()).toEqual([isYes ? '1\n3\n5\n7' : '1\n3']);
    // Neither question nor answer stays in the conversation.
    for (const messages of heard) expect(messages.slice(0, -1).join()).not.toContain('missing');
  });

  it('fails with what the next answer is, and has none of the first in the output', async () => {
    await serve(['one'], {
      choice: (prompt) => (prompt === 'more?' ? { message: { content: 'tw' }, finish_reason: 'length' } : undefined),
    });
    expect(await run(planOf({ gleaning: { prompt: 'more?' } }))).toMatchObject({ exitCode: 1, rows: { failed: 1 }, calls: 2 });
    expect(linesOf('out.jsonl.failures.jsonl')).toMatchObject([{ fault: 'length', partial: 'tw' }]);
  });

  it('takes turns with other rows under a limit of one call, and holds nothing in between', async () => {
    const rows = Array.from({ length: 12 }, (_, i) => `r${String(i)}`);
    await serve(['one', 'two', 'three'], { delayMs: 1 });
    const plan = planOf({ gleaning: { prompt: 'more?', rounds: 2 } }, rows, { limits: { concurrency: 2 }, batches: { concurrency: 6 } });
    expect(await run(plan)).toMatchObject({ exitCode: 0, rows: { ok: 12 }, calls: 36 });
    expect(chat?.maxOpen).toBeLessThanOrEqual(2);
    expect(replies()).toEqual(Array(12).fill('one\ntwo\nthree'));
  });

  it('begins again with an item whose run was interrupted in the middle, and keeps whole ones', async () => {
    let release = (): void => undefined;
    const held = new Promise<void>((resolve) => (release = resolve));
    await serve(['one', 'two'], { until: held });
    const plan = planOf({ gleaning: { prompt: 'more?' } }, ['a', 'b'], { batches: { concurrency: 1 } });
    const stop = new AbortController();
    const running = run(plan, false, stop.signal);
    await expect.poll(() => chat?.open).toBe(1);
    stop.abort();
    release();
    expect(await running).toMatchObject({ exitCode: 130, calls: 1, rows: { ok: 0, failed: 0 } });
    expect(await run(plan)).toMatchObject({ exitCode: 0, calls: 4, rows: { ok: 2 }, recalled: 0 });
    expect(await run(plan)).toMatchObject({ exitCode: 0, calls: 0, rows: { earlier: 2 } });
  });

  it('belongs to the journal', async () => {
    await serve(['one', 'two']);
    await run(planOf({ gleaning: { prompt: 'more?' } }));
    await expect(run(planOf({ gleaning: { prompt: 'anything else?' } }))).rejects.toMatchObject({ exitCode: 2 });
    await expect(run(planOf({}))).rejects.toMatchObject({ exitCode: 2 });
  });
});
