import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { formatTime } from '../../src/cli/explain-text.js';
import { parseConfig } from '../../src/edge/index.js';
import { presets } from '../../src/pipelines/presets.js';
import { type CliResult, runHere } from '../support/cli.js';

const page = readFileSync(resolve(import.meta.dirname, '../../docs/config.md'), 'utf8');
const [, example = ''] = /```yaml\n([^]*?)```/.exec(page) ?? [];

let cwd: string;
beforeAll(() => {
  cwd = mkdtempSync(join(tmpdir(), 'sluice-config-'));
  writeFileSync(join(cwd, 'papers.yaml'), example);
  writeFileSync(join(cwd, 'papers.jsonl'), '{"text":"a paper"}\n');
});
afterAll(() => {
  rmSync(cwd, { recursive: true, force: true });
});

const config = (...args: string[]): Promise<CliResult> => runHere(['config', ...args], { cwd, env: { PLANTED: 'sk-planted' } });
const write = (name: string, text: string): void => {
  writeFileSync(join(cwd, name), text);
};

describe('sluice config', () => {
  it('explain prints what the page shows of its example', async () => {
    const { code, stdout, stderr } = await config('explain', 'papers.yaml');
    expect([code, stderr]).toEqual([0, '']);
    expect(page).toContain(stdout);
    expect(stdout).toContain('<- bottleneck');
  });

  it('explain takes another load from flags, and says what it assumes', async () => {
    write('limits.yaml', 'limits: { concurrency: 8, requestsPerMinute: 60, headroom: 1 }\n');
    const { stdout } = await config('explain', 'limits.yaml', '--documents', '1200', '--seconds-per-call', '2', '--json');
    expect(JSON.parse(stdout)).toMatchObject({
      calls: 1200,
      makespanMs: 1_200_000,
      bottleneck: { setting: 'limits.requestsPerMinute', limit: 60 },
      raise: { from: 60, to: 120, isStep: true, next: 'limits.requestsPerMinute', makespanMs: 600_000 },
      assumed: ['expect.inputTokens = 1000', 'expect.outputTokens = 300'],
    });
    const { stdout: text } = await config('explain', 'limits.yaml');
    expect(text).toContain('Assumed, as nothing says otherwise: expect.documents = 1000, expect.secondsPerCall = 5,');
  });

  it('explain says when more gains next to nothing, and when no limit is in the way', async () => {
    write('near.yaml', 'batches: { concurrency: 600 }\nstages: [{ name: ask, prompt: "{{text}}" }]\n');
    expect((await config('explain', 'near.yaml')).stdout).toContain(
      'Raise `batches.concurrency` from 600 to 1,000: 5 s, and more gains next to nothing.',
    );
    const stage = '{ name: ask, prompt: "{{text}}", concurrency: 3, expect: { callsPerItem: 3, secondsPerCall: 9 } }';
    write('no.yaml', `limits: { requestsPerMinute: 4800, burst: 2, headroom: 1 }\nstages: [${stage}]\nexpect: { documents: 4 }\n`);
    const { stdout } = await config('explain', 'no.yaml');
    expect(stdout).toContain('No limit is in the way: only shorter calls, or fewer in a row, would help.');
    expect(stdout).toContain('no limit is in the way: make the calls shorter, or fewer in a row');
  });

  it('explain goes a step at a time: at most twice of what is set', async () => {
    write('step.yaml', 'batches: { concurrency: 3 }\nstages: [{ name: ask, prompt: "{{text}}" }]\n');
    const { stdout } = await config('explain', 'step.yaml');
    expect(stdout).toContain('Raise `batches.concurrency` from 3 to 6: 13 min 55 s, and it is still the bottleneck.');
    expect(stdout).not.toMatch(/to 1,000/);
  });

  it('explain says what to change when something is seen, with the names and numbers of the file', async () => {
    write(
      'advice.yaml',
      `concurrency:
  batch_level: { max_concurrent_batches: 3, questions_per_batch: 20 }
  stage_level:
    generation: { concurrency: 1, batch_mode: true }
    answering: { concurrency: 5, timeout: 120 }
  request_level: { max_concurrent_requests: 10, rate_limit: { requests_per_second: 5, burst_size: 10 }, connection_pool: {} }
stages: [{ name: generation, expect: { secondsPerCall: 60 } }, { name: answering, timeoutMs: 9000, expect: { secondsPerCall: 30 } }]
expect: { documents: 100 }
`,
    );
    const { stdout } = await config('explain', 'advice.yaml', '--json');
    expect(JSON.parse(stdout)).toMatchObject({
      advice: [
        {
          seen: 'CPU and network idle, few results',
          change:
            'raise `concurrency.request_level.max_concurrent_requests` (10), the bottleneck, then `concurrency.batch_level.max_concurrent_batches` (3)',
        },
        { seen: 'much memory in use', change: 'lower `concurrency.batch_level.max_concurrent_batches` (3)' },
        {
          seen: 'refusals for the rate (429)',
          change:
            'lower `concurrency.request_level.rate_limit.requests_per_second` (5/s); where the account takes more at once, raise `concurrency.request_level.rate_limit.burst_size` (10)',
        },
        {
          seen: '`generation` takes long, or times out',
          change: 'raise `concurrency.stage_level.generation.timeout` (120 s), or name a faster model in `stages.generation.model`',
        },
        {
          seen: '`answering` takes long, or times out',
          change: 'raise `stages.answering.timeoutMs` (9,000 ms), or name a faster model in `stages.answering.model`',
        },
      ],
      notices: [{ path: 'concurrency.request_level.connection_pool' }],
    });
    const { stdout: text } = await config('explain', 'advice.yaml');
    expect(text).toContain('concurrency.request_level.rate_limit.requests_per_second  5/s x 0.9, 10 at once');
    expect(text).not.toMatch(/`(batches|limits)\./);
    expect(text).toContain('note: `concurrency.request_level.connection_pool`, line 6:');
  });

  it.each([
    [
      'limits: {}\n',
      ['no limit is in the way: make the calls shorter, or fewer in a row', 'set `limits.requestsPerMinute` to what the account allows'],
    ],
    [
      'model: { model: m, timeoutMs: 9000 }\nbatches: { concurrency: 1, scheduling: priority, priority: p, maxQueued: 9 }\nstages: [{ name: cut, chunk: { field: t } }, { name: ask }]\n',
      [
        '`batches.concurrency` (1) is the least: cut documents into smaller ones',
        'raise `model.timeoutMs` (9,000 ms), or name a faster model in `model.model`',
      ],
    ],
    [
      'batches: { scheduling: priority, priority: p, maxQueued: 9 }\nstages: [{ name: ask, model: slow }]\n',
      ['lower `batches.concurrency` (4), and `batches.maxQueued` (9)', 'or name a faster model in `stages.ask.model`'],
    ],
  ])('explain advises by what there is: %s', async (text, advice) => {
    write('some.yaml', text);
    const { stdout } = await config('explain', 'some.yaml');
    for (const one of advice) expect(stdout).toContain(one);
  });

  it('check says everything that is wrong and exits with 2, and no secret', async () => {
    write(
      'bad.json',
      '{ "limits": { "concurency": 1 }, "model": { "apiKey": "sk-planted", "baseUrl": "${PLANTED}", "model": "${NOT_SET}" } }',
    );
    const { code, stdout } = await config('check', 'bad.json');
    expect([code, stdout.split('\n').length]).toEqual([2, 5]);
    expect(stdout).toContain('bad.json: `limits.concurency`, line 1: unknown key `concurency`. Did you mean `concurrency`?');
    const json = await config('check', 'bad.json', '--json');
    expect(json.code).toBe(2);
    expect((JSON.parse(json.stdout) as { problems: { path: string }[] }).problems.map(({ path }) => path)).toEqual([
      'limits.concurency',
      'model.apiKey',
      'model.baseUrl',
      'model.model',
    ]);
    const explain = await config('explain', 'bad.json');
    expect([explain.code, explain.stdout]).toEqual([2, '']);
    expect(stdout + json.stdout + explain.stderr).not.toContain('sk-planted');
    expect(await config('check', 'papers.yaml')).toMatchObject({ code: 0, stdout: 'papers.yaml: nothing is wrong\n' });
  });

  it.each<readonly [string, object, string]>([
    ['id', {}, '`stages[0].name`: `id` is a field of every output line. Rename the stage.'],
    ['row', {}, '`stages[0].name`: `row` is a field of every output line. Rename the stage.'],
    ['item', {}, '`stages[0].name`: `item` is a field of every output line. Rename the stage.'],
    ['reply', { budget: { usd: 1 } }, '`budget.usd` needs the price of the model `m`. Add it to `prices` in the configuration.'],
    [
      'reply',
      { budget: { usd: 1 }, prices: { other: { usdPerCall: 1 } } },
      '`budget.usd` needs the price of the model `m`. Add it to `prices` in the configuration.',
    ],
  ])('check refuses what run refuses, with the same words: %s %j', async (name, more, message) => {
    const model = { baseUrl: 'http://127.0.0.1:9/v1', model: 'm' };
    const files = { input: { path: 'papers.jsonl' }, output: { path: 'refused.jsonl' } };
    write('refused.json', JSON.stringify({ model, stages: [{ name, prompt: 'say {{text}}' }], ...files, ...more }));
    expect(await config('check', 'refused.json')).toMatchObject({ code: 2, stdout: `refused.json: ${message}\n` });
    expect(await runHere(['run', 'refused.json'], { cwd })).toMatchObject({ code: 2, stderr: `sluice: ${message}\n` });
  });

  it('check refuses what is not UTF-8, and takes a byte order mark, of YAML and of JSON', async () => {
    for (const name of ['latin.yaml', 'latin.json']) {
      writeFileSync(join(cwd, name), Buffer.from('{ "name": "\u00fcbersetzen" }', 'latin1'));
      expect(await config('check', name)).toMatchObject({
        code: 2,
        stderr: `sluice: cannot read the configuration \`${name}\`: it is not UTF-8\n`,
      });
    }
    for (const name of ['mark.yaml', 'mark.json']) {
      write(name, '\uFEFF{ "name": "\u00fcbersetzen" }');
      expect(await config('check', name)).toMatchObject({ code: 0, stdout: `${name}: nothing is wrong\n` });
    }
  });

  it('preset prints what is read back as it was', async () => {
    const { stdout } = await config('preset', 'paper.production');
    expect(parseConfig(stdout)).toEqual({ value: presets.paper.production });
    expect((await config('preset')).stdout.trim().split('\n')).toEqual([
      'chat',
      ...['production', 'highConcurrency', 'lowLatency', 'test'].map((name) => `llmProperties.${name}`),
      ...['development', 'production', 'highLoad'].map((name) => `paper.${name}`),
    ]);
  });

  it('schema prints the schema of the documentation', async () => {
    const { stdout } = await config('schema');
    expect(stdout).toBe(readFileSync(resolve(import.meta.dirname, '../../docs/config.schema.json'), 'utf8'));
  });

  it.each([
    [['check', 'none.yaml'], 'sluice: cannot read the configuration `none.yaml`: there is no such file\n'],
    [['preset', 'paper.producton'], 'sluice: unknown preset `paper.producton`. Did you mean `paper.production`?'],
    [['explain', 'papers.yaml', '--documents', 'many'], "error: option '--documents <n>' argument 'many' is invalid."],
    [['explain'], "error: missing required argument 'file'"],
  ])('%j exits with 2', async (args, message) => {
    const { code, stderr } = await config(...args);
    expect(code).toBe(2);
    expect(stderr).toContain(message);
  });
});

describe('a time', () => {
  it.each([
    [0, '0 s'],
    [1234, '1.2 s'],
    [59_960, '60 s'],
    [60_000, '1 min 0 s'],
    [3_599_600, '1 h 0 min'],
    [10_644_000, '2 h 57 min'],
    [360_000_000, '100 h 0 min'],
    [Infinity, 'for ever'],
  ])('of %d ms is %s', (ms, text) => {
    expect(formatTime(ms)).toBe(text);
  });
});
