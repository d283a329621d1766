import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { RunJob } from '../../../src/cli/run/run-job.js';
import { planRun } from '../../../src/cli/run/run-plan.js';
import type { RunSummary } from '../../../src/cli/run/run-summary.js';
import type { Config } from '../../../src/edge/config/schema.js';
import { type FakeChat, startFakeChat } from '../../support/fake-chat-api.js';

let folder: string;
let chat: FakeChat | undefined;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-odd-'));
});
afterEach(async () => {
  await chat?.close();
  chat = undefined;
  rmSync(folder, { recursive: true, force: true });
});

/** What comes in the place of an answer, how often it is sent for, and what is said of it. */
interface Odd {
  readonly body: unknown;
  readonly type?: string;
  readonly sent?: number;
  readonly error: string | RegExp;
  readonly fault?: string;
  readonly partial?: string;
}

const said = (message: unknown, finish_reason = 'stop'): object => ({ choices: [{ index: 0, message, finish_reason }] });
const NO_OBJECT = 'the answer is no JSON object (status 200, application/json)';

const ODD: Readonly<Record<string, Odd>> = {
  length: {
    body: said({ content: 'cut off in the mid' }, 'length'),
    error: /cut off at its longest/,
    fault: 'length',
    partial: 'cut off in the mid',
  },
  filter: { body: said({ content: 'cut' }, 'content_filter'), error: /by a content filter/, fault: 'content_filter', partial: 'cut' },
  refusal: { body: said({ content: null, refusal: 'I cannot' }), error: /refused to answer/, fault: 'refusal', partial: 'I cannot' },
  empty: { body: said({ content: '' }), error: /has no text/, fault: 'empty' },
  blank: { body: said({ content: ' \n' }), error: /has no text/, fault: 'empty', partial: ' \n' },
  tool: {
    body: said({ content: null, tool_calls: [{ id: 'x', type: 'function', function: { name: 'f', arguments: '{}' } }] }, 'tool_calls'),
    error: 'the answer has no text: the model asks for a tool, and `sluice run` has none (`accept: [empty]` takes it)',
    fault: 'empty',
  },
  broken: {
    body: said({ content: 'half of' }, 'error'),
    error: 'an error at the provider ended the answer',
    fault: 'error',
    partial: 'half of',
  },
  nochoices: { body: { choices: [] }, error: 'the answer has no choices', fault: 'empty' },
  nomessage: { body: { choices: [{ index: 0, finish_reason: 'stop' }] }, error: /has no text/, fault: 'empty' },
  nullchoice: { body: { choices: [null] }, error: 'the answer has no choices', fault: 'empty' },
  textchoices: { body: { choices: 'none' }, error: 'the answer has no choices', fault: 'empty' },
  error200: { body: { error: { message: 'overloaded', code: 529 } }, sent: 2, error: 'overloaded' },
  errortext: { body: { error: 'upstream is gone' }, sent: 2, error: 'upstream is gone' },
  errorrequest: { body: { error: { message: 'not that', type: 'invalid_request_error' } }, error: 'not that' },
  page: { body: '<html>captive portal</html>', type: 'text/html', sent: 2, error: 'the answer is no JSON object (status 200, text/html)' },
  half: { body: '{"choices": [{"message": {"content": "tru', sent: 2, error: NO_OBJECT },
  nothing: { body: '', sent: 2, error: NO_OBJECT },
  list: { body: [1], error: 'the answer has no choices', fault: 'empty' },
  text: { body: '"fine"', sent: 2, error: NO_OBJECT },
};
const NAMES = Object.keys(ODD);

function planOf(config: Config, rows: readonly string[]) {
  writeFileSync(join(folder, 'in.jsonl'), rows.map((text) => `${JSON.stringify({ id: text, text })}\n`).join(''));
  const given = { stages: [{ name: 'reply', prompt: '{{text}}' }], input: { path: 'in.jsonl' }, output: { path: 'out.jsonl' }, ...config };
  return planRun(given, join(folder, 'run.yaml'), { env: {}, cwd: () => '/' });
}

function run(plan: ReturnType<typeof planOf>, retryFailed = false): Promise<RunSummary> {
  const signal = new AbortController().signal;
  const options = { plan, limit: Infinity, maxUsd: undefined, retryFailed, events: undefined };
  return new RunJob(options, { stop: signal, abort: signal }).run();
}

function linesOf(name: string): Record<string, unknown>[] {
  if (!existsSync(join(folder, name))) return [];
  const lines = readFileSync(join(folder, name), 'utf8').split('\n').slice(0, -1);
  return lines.map((line) => JSON.parse(line) as Record<string, unknown>);
}

describe('an answer that is odd', () => {
  it('is never in the output, says what it was, and is asked for again with `retryFailed`', async () => {
    let isWell = false;
    chat = await startFakeChat({
      body: (prompt) => {
        const odd = ODD[prompt];
        if (isWell || odd === undefined) return undefined;
        const text = typeof odd.body === 'string' ? odd.body : JSON.stringify(odd.body);
        return { type: odd.type ?? 'application/json', text };
      },
    });
    const model = { model: 'm', baseUrl: chat.baseUrl, retry: { maxAttempts: 2, delayMs: 1 } };
    // `fine` first, so that the server is known to be of use.
    const plan = planOf({ model, batches: { concurrency: 1 } }, ['fine', ...NAMES]);
    expect(await run(plan)).toMatchObject({ exitCode: 1, rows: { ok: 1, failed: NAMES.length } });
    expect(linesOf('out.jsonl')).toEqual([{ id: 'fine', row: 1, reply: 'FINE' }]);
    const failures = new Map(linesOf('out.jsonl.failures.jsonl').map((line) => [line['id'], line]));
    for (const [name, { error, fault, partial, sent = 1 }] of Object.entries(ODD)) {
      const line = failures.get(name);
      expect({ name, sent: chat.sent.get(name) }).toEqual({ name, sent });
      expect({ name, fault: line?.['fault'], partial: line?.['partial'] }).toEqual({ name, fault, partial });
      if (typeof error === 'string') expect({ name, error: line?.['error'] }).toEqual({ name, error });
      else expect(line?.['error']).toMatch(error);
    }
    isWell = true;
    expect(await run(plan, true)).toMatchObject({ exitCode: 0, rows: { ok: NAMES.length, earlier: 1 }, calls: NAMES.length });
    expect(linesOf('out.jsonl.failures.jsonl')).toEqual([]);
  });

  it('is passed over when the next attempt gets a whole one', async () => {
    const again = NAMES.filter((name) => (ODD[name]?.sent ?? 1) > 1);
    chat = await startFakeChat({
      body: (prompt, times) => {
        const odd = times === 1 ? ODD[prompt] : undefined;
        return odd && { type: odd.type ?? 'application/json', text: typeof odd.body === 'string' ? odd.body : JSON.stringify(odd.body) };
      },
    });
    const model = { model: 'm', baseUrl: chat.baseUrl, retry: { delayMs: 1 } };
    expect(await run(planOf({ model }, again))).toMatchObject({ exitCode: 0, rows: { ok: again.length }, retries: again.length });
  });

  it('in the form of a text where a list was asked for has its text in the failure', async () => {
    chat = await startFakeChat({ answer: (prompt) => (prompt === 'json' ? '{"a": 1}' : 'Sure! Here it is.') });
    const model = { model: 'm', baseUrl: chat.baseUrl };
    const stages = [{ name: 'reply', prompt: '{{text}}', answer: 'list' }] as const;
    expect(await run(planOf({ model, stages }, ['json', 'words']))).toMatchObject({ exitCode: 1, rows: { failed: 2 } });
    const failures = linesOf('out.jsonl.failures.jsonl').toSorted((a, b) => Number(a['row']) - Number(b['row']));
    expect(failures).toMatchObject([
      { id: 'json', error: 'the answer is not a JSON list', fault: 'format', partial: '{"a": 1}' },
      { id: 'words', error: 'the answer is not JSON', fault: 'format', partial: 'Sure! Here it is.' },
    ]);
  });
});
