import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type CliResult, runHere } from '../../support/cli.js';
import { type FakeChat, startFakeChat } from '../../support/fake-chat-api.js';

/** As a design of a question pipeline writes them; stages with prompts, model and files are added below. */
const LEVELS = {
  'all that it can say': `concurrency:
  # ===== Layer 1 =====
  batch_level:
    max_concurrent_batches: 3
    questions_per_batch: 20
    scheduling: "fair"  # fair | priority | round_robin
  stage_level:
    generation:
      concurrency: 1
      batch_mode: true
    answering:
      concurrency: 5
      timeout: 120
      allow_partial_failure: true
    grading:
      concurrency: 3
      timeout: 60
      allow_partial_failure: true
  request_level:
    max_concurrent_requests: 10
    rate_limit:
      requests_per_second: 5.0
      burst_size: 10
    connection_pool:
      size: 20
      keepalive: 30
      timeout: 300
`,
  development: `concurrency:
  batch_level:
    max_concurrent_batches: 1    # one paper
  stage_level:
    answering:
      concurrency: 2
    grading:
      concurrency: 1
  request_level:
    max_concurrent_requests: 5
    rate_limit:
      requests_per_second: 2.0
`,
  production: `concurrency:
  batch_level:
    max_concurrent_batches: 3
  stage_level:
    answering:
      concurrency: 5
    grading:
      concurrency: 3
  request_level:
    max_concurrent_requests: 10
    rate_limit:
      requests_per_second: 5.0
`,
  'high load': `concurrency:
  batch_level:
    max_concurrent_batches: 5
  stage_level:
    answering:
      concurrency: 10
    grading:
      concurrency: 5
  request_level:
    max_concurrent_requests: 20
    rate_limit:
      requests_per_second: 10.0
`,
} as const;

let cwd: string;
let chat: FakeChat;
beforeEach(() => {
  cwd = mkdtempSync(join(tmpdir(), 'sluice-levels-'));
});
afterEach(async () => {
  await chat.close();
  rmSync(cwd, { recursive: true, force: true });
});

/** Two questions each, unless a paper says another number. */
async function serve(): Promise<void> {
  chat = await startFakeChat({
    answer: (prompt) => {
      const [, wanted = '2'] = /^(\d+) questions/.exec(prompt) ?? [];
      return /questions about/.test(prompt)
        ? JSON.stringify(Array.from({ length: prompt.includes('short') ? 1 : Number(wanted) }, (_, i) => `q${String(i)}`))
        : `re ${prompt}`;
    },
  });
}

function write(levels: string, generation: string, papers: readonly string[]): void {
  const rest = {
    model: { baseUrl: chat.baseUrl, model: 'm' },
    stages: [
      { name: 'generation', prompt: generation, answer: 'list' },
      { name: 'answering', prompt: '{{generation}}' },
      { name: 'grading', prompt: 'grade {{answering}}' },
    ],
    input: { path: 'in.jsonl' },
    output: { path: 'out.jsonl' },
  };
  // A rate of a few per second would make a test of it wait.
  const fast = levels.replace(/requests_per_second: [\d.]+/, 'requests_per_second: 500');
  writeFileSync(
    join(cwd, 'run.yaml'),
    fast +
      Object.entries(rest)
        .map(([key, value]) => `${key}: ${JSON.stringify(value)}\n`)
        .join(''),
  );
  writeFileSync(join(cwd, 'in.jsonl'), papers.map((text) => `${JSON.stringify({ text })}\n`).join(''));
}

const sluice = (...args: string[]): Promise<CliResult> => runHere(args, { cwd });
const answers = (): Record<string, unknown>[] =>
  readFileSync(join(cwd, 'out.jsonl'), 'utf8')
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Record<string, unknown>);

describe('levels in another spelling', () => {
  it.each(Object.entries(LEVELS).slice(1))('run as they stand: %s', async (_, levels) => {
    await serve();
    write(levels, 'questions about {{text}}', ['tea', 'rain']);
    const { code, stderr } = await sluice('run', 'run.yaml');
    expect([code, stderr.includes('note')]).toEqual([0, false]);
    expect(answers().map(({ grading }) => grading)).toEqual(Array(2).fill(['re grade re q0', 're grade re q1']).flat());
  });

  it('with all that they can say run, ask for so many questions, and say what has no effect and which lists are of another length', async () => {
    await serve();
    write(LEVELS['all that it can say'], '{{questions_per_batch}} questions about {{text}}', ['tea', 'short', 'rain']);
    const { code, stdout, stderr } = await sluice('run', 'run.yaml');
    expect(code).toBe(0);
    expect(answers()).toHaveLength(20 + 1 + 20);
    expect(stderr).toContain('note: `concurrency.request_level.connection_pool`, line 24: `connection_pool` has no effect.');
    expect(stdout).toContain('note: 1 of 3 lists of `generation` do not have 20 elements, but 1\n');
    expect((await sluice('run', 'run.yaml', '--dry-run')).stdout).not.toContain('elements (`expect');
  });

  it('are checked and explained with the same note, and with the number of questions', async () => {
    await serve();
    write(LEVELS['all that it can say'], 'questions about {{text}}', ['tea']);
    const { code, stdout } = await sluice('config', 'check', 'run.yaml');
    expect(code).toBe(0);
    expect(stdout.split('\n')).toEqual([
      'run.yaml: note: `concurrency.batch_level.questions_per_batch`, line 5: the prompt of `generation` does not say this number to the model. Write `{{questions_per_batch}}` in it.',
      "run.yaml: note: `concurrency.request_level.connection_pool`, line 24: `connection_pool` has no effect. Node's `fetch` keeps its own connections.",
      'run.yaml: nothing is wrong',
      '',
    ]);
    expect((await sluice('config', 'explain', 'run.yaml', '--documents', '100')).stdout).toContain('2,000 results, 4,100 calls');
    const json = JSON.parse((await sluice('config', 'check', 'run.yaml', '--json')).stdout) as { notices: unknown[] };
    expect(json.notices).toHaveLength(2);
  });
});
