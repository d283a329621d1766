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
      raise: { from: 60, to: 240, next: 'limits.concurrency', makespanMs: 300_000 },
      assumed: ['expect.inputTokens = 1000', 'expect.outputTokens = 300'],
    });
    const { stdout: text } = await config('explain', 'limits.yaml');
    expect(text).toContain('Assumed, as nothing says otherwise: expect.documents = 1000, expect.secondsPerCall = 5,');
  });

  it('explain says when a limit can only come near to what there is to gain', async () => {
    const stage = '{ name: ask, prompt: "{{text}}", concurrency: 3, expect: { callsPerItem: 3, secondsPerCall: 9 } }';
    write('near.yaml', `limits: { requestsPerMinute: 48, burst: 2, headroom: 1 }\nstages: [${stage}]\nexpect: { documents: 4 }\n`);
    const { stdout } = await config('explain', 'near.yaml');
    expect(stdout).toContain('Raise `limits.requestsPerMinute` from 48 to 4,800: 36 s, and more gains next to nothing.');
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
