import { execFileSync } from 'node:child_process';
import { EventEmitter } from 'node:events';
import { existsSync, linkSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { onInterrupt } from '../../../src/cli/interrupt.js';
import { importRecording, replay } from '../../../src/inspector/recording.js';
import { buildCli, type Cli, type CliResult, runHere, startHere } from '../../support/cli.js';
import { type FakeChat, type FakeChatOptions, startFakeChat } from '../../support/fake-chat-api.js';

const PATIENT = { timeout: 20_000, interval: 5 };

let cli: Cli;
let cwd: string;
let chat: FakeChat;

beforeAll(async () => {
  cli = await buildCli();
});
beforeEach(() => {
  cwd = mkdtempSync(join(tmpdir(), 'sluice-run-'));
});
afterEach(async () => {
  await chat.close();
  rmSync(cwd, { recursive: true, force: true });
});

interface Settings {
  readonly [section: string]: unknown;
}

async function serve(options: FakeChatOptions = {}): Promise<void> {
  chat = await startFakeChat(options);
}

/** A configuration of one stage, and ten rows. */
function write(settings: Settings = {}, rows = rowsOf(10)): void {
  const config = {
    model: { baseUrl: chat.baseUrl, model: 'm', retry: { maxAttempts: 3, delayMs: 5 } },
    stages: [{ name: 'reply', prompt: 'say {{text}}' }],
    input: { path: 'in.jsonl' },
    output: { path: 'out.jsonl' },
    ...settings,
  };
  writeFileSync(join(cwd, 'run.json'), JSON.stringify(config));
  writeFileSync(join(cwd, 'in.jsonl'), rows);
}

function rowsOf(count: number): string {
  return Array.from({ length: count }, (_, i) => `${JSON.stringify({ id: `r${String(i)}`, text: `t${String(i)}` })}\n`).join('');
}

const run = (args: readonly string[] = []): Promise<CliResult> => runHere(['run', 'run.json', ...args], { cwd });

function linesOf(name: string): Record<string, unknown>[] {
  const path = join(cwd, name);
  if (!existsSync(path)) return [];
  return readFileSync(path, 'utf8')
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

describe('sluice run', () => {
  it('takes rows through stages, writes what came of them, and does nothing twice', async () => {
    await serve({
      answer: (prompt) => (prompt.startsWith('list') ? `\`\`\`json\n["one of ${prompt.slice(5)}", {"two": 2}]\n\`\`\`` : prompt),
    });
    const stages = [
      { name: 'parts', chunk: { field: 'text', maxTokens: 20 } },
      { name: 'ideas', prompt: 'list {{id}}', answer: 'list' },
      { name: 'reply', prompt: '{{parts}} / {{ideas}} / {{title}}', system: 'Be brief.' },
    ];
    write({ stages }, `${JSON.stringify({ id: 'a', title: 'T', text: 'short text' })}\n`);
    const first = await run(['--json', 'summary.json', '--events', 'events.jsonl']);
    expect([first.code, first.stderr]).toEqual([0, '']);
    expect(linesOf('out.jsonl')).toEqual([
      { id: 'a', row: 1, item: '0.0', parts: 'short text', ideas: 'one of a', reply: 'short text / one of a / T' },
      { id: 'a', row: 1, item: '0.1', parts: 'short text', ideas: { two: 2 }, reply: 'short text / {"two":2} / T' },
    ]);
    const summary = JSON.parse(readFileSync(join(cwd, 'summary.json'), 'utf8')) as unknown;
    expect(summary).toMatchObject({ exitCode: 0, calls: 3, expanded: 2, expandedInto: 3, rows: { ok: 1 }, results: { written: 2 } });
    expect(summary).not.toHaveProperty('costUsd');
    expect(first.stdout).toMatch(/\nreply: 2 calls, 0 failed; p50 /);
    const recorded = replay(importRecording(readFileSync(join(cwd, 'events.jsonl'), 'utf8')));
    expect(recorded.counters).toMatchObject({ calls: 4, lost: 0, waiting: 0 });
    expect(readdirSync(cwd).sort()).toEqual(['events.jsonl', 'in.jsonl', 'out.jsonl', 'out.jsonl.journal', 'run.json', 'summary.json']);

    const second = await run();
    expect([second.code, chat.calls]).toEqual([0, 3]);
    expect(second.stdout).toContain('1 done and 0 failed in earlier runs');
  });

  it('numbers what failed, and takes it up again when it is told to', async () => {
    let isKind = false;
    const stages = [
      { name: 'parts', prompt: 'list {{text}}', answer: 'list', allowPartialFailure: true },
      { name: 'reply', prompt: 'say {{parts}}', allowPartialFailure: true },
    ];
    await serve({
      answer: (prompt) =>
        prompt.startsWith('list') ? JSON.stringify([`${prompt.slice(5)}a`, `${prompt.slice(5)}b`]) : prompt.toUpperCase(),
      fault: (prompt) => (!isKind && prompt === 'say t3b' ? { status: 400, message: 'not this one' } : undefined),
    });
    write({ stages }, `${rowsOf(5)}nonsense\n{"id":"r9"}\n`);
    expect((await run()).code).toBe(1);
    expect(linesOf('out.jsonl')).toHaveLength(9);
    const failures = linesOf('out.jsonl.failures.jsonl');
    expect(failures.map(({ failure }) => failure)).toEqual([1, 2, 3]);
    expect(failures.map(({ failure: _, ...line }) => line).sort((a, b) => Number(a['row']) - Number(b['row']))).toEqual([
      { id: 'r3', row: 4, item: '1', stage: 'reply', error: '400 not this one' },
      { id: expect.stringMatching(/^[0-9a-f]{16}$/) as string, row: 6, error: 'it is not JSON' },
      { id: 'r9', row: 7, stage: 'parts', error: 'there is no value for `{{text}}`' },
    ]);
    const calls = chat.calls;
    expect([(await run()).code, chat.calls]).toEqual([1, calls]);

    isKind = true;
    expect((await run(['--retry-failed'])).code).toBe(1);
    expect(chat.calls).toBe(calls + 1);
    expect(linesOf('out.jsonl')).toHaveLength(10);
    expect(new Set(linesOf('out.jsonl').map(({ id, item }) => `${String(id)} ${String(item)}`)).size).toBe(10);
    expect(linesOf('out.jsonl.failures.jsonl')).toHaveLength(2);
  });

  it('drains at the first interrupt, and goes on after it', async () => {
    let answer = (): void => undefined;
    await serve({ until: new Promise((resolve) => (answer = resolve)) });
    write({ batches: { concurrency: 3 } });
    const first = cli.start(['run', 'run.json'], { cwd });
    await expect.poll(() => chat.open, PATIENT).toBe(3);
    first.child.kill('SIGINT');
    await first.prints(/stopping: waiting for the calls under way/);
    answer();
    const { code, stdout } = await first.ended;
    expect(code).toBe(130);
    expect(stdout).toMatch(/interrupted: what is done is kept in out\.jsonl\.journal/);
    expect(chat.calls).toBe(3);
    expect(linesOf('out.jsonl')).toHaveLength(3);
    expect((await run()).code).toBe(0);
    expect([chat.calls, linesOf('out.jsonl').length]).toEqual([10, 10]);
  });

  it('aborts at the second', async () => {
    await serve({ until: new Promise(() => undefined) });
    // As many as would make the provider one that answers nothing.
    write({ batches: { concurrency: 20 } }, rowsOf(20));
    const first = startHere(['run', 'run.json'], { cwd });
    await expect.poll(() => chat.open, PATIENT).toBe(20);
    first.kill('SIGINT');
    await first.prints(/stopping/);
    first.kill('SIGINT');
    // The same key press may arrive again.
    expect(first.kill('SIGINT')).toBe(true);
    const { code, stdout, stderr } = await first.ended;
    expect([code, stderr]).toEqual([130, 'stopping: waiting for the calls under way (interrupt again to abort them)\n']);
    expect(stdout).toContain('interrupted: what is done is kept in out.jsonl.journal');
    expect(first.kill('SIGINT')).toBe(false);
    expect(readdirSync(cwd).sort()).toEqual(['in.jsonl', 'out.jsonl.journal', 'run.json']);
  });

  it('can be ended by a third interrupt when its end takes more than a second', () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    const host = new EventEmitter();
    const signals = onInterrupt(host, () => undefined);
    for (let i = 0; i < 3; i += 1) expect(host.emit('SIGINT')).toBe(true);
    expect([signals.stop.aborted, signals.abort.aborted]).toEqual([true, true]);
    vi.advanceTimersByTime(1000);
    expect(host.emit('SIGINT')).toBe(false);
  });

  it('writes a line now and then where there is no terminal', async () => {
    vi.useFakeTimers({ toFake: ['setInterval'] });
    onTestFinished(() => void vi.useRealTimers());
    await serve({ until: new Promise(() => undefined) });
    write();
    const first = startHere(['run', 'run.json'], { cwd });
    await vi.waitFor(() => {
      expect(chat.open).toBeGreaterThan(0);
    }, PATIENT);
    vi.advanceTimersByTime(5000);
    await first.prints(
      /running 0 %, 0 of about \d+ rows, 0 failed; rows: .*; reply: .* executing; calls: .*; per minute: .*; so far: 0 retries\n/,
    );
    first.kill('SIGINT');
    first.kill('SIGINT');
    expect((await first.ended).stderr).not.toContain('\u001b');
  });

  it('goes on when nobody reads what it says', async () => {
    let answer = (): void => undefined;
    await serve({ until: new Promise((resolve) => (answer = resolve)) });
    write();
    const first = cli.start(['run', 'run.json'], { cwd });
    first.child.stdout?.destroy();
    await expect.poll(() => chat.open, PATIENT).toBeGreaterThan(0);
    answer();
    expect(await first.ended).toMatchObject({ code: 0, stderr: '' });
  });

  it('lets one run at a time work on an output', async () => {
    let answer = (): void => undefined;
    await serve({ until: new Promise((resolve) => (answer = resolve)) });
    write();
    const first = cli.start(['run', 'run.json'], { cwd });
    await expect.poll(() => chat.open, PATIENT).toBeGreaterThan(0);
    const second = await run();
    const checked = await runHere(['config', 'check', 'run.json'], { cwd });
    expect(checked).toMatchObject({
      code: 0,
      stdout: `run.json: note: a run is going on: process ${String(first.child.pid)} is writing \`out.jsonl\`, and another run waits for its end\nrun.json: nothing is wrong\n`,
    });
    expect([second.code, second.stdout]).toEqual([5, '']);
    expect(second.stderr).toMatch(
      new RegExp(`^sluice: process ${String(first.child.pid)} is writing this output; wait for it, or remove `),
    );
    answer();
    expect((await first.ended).code).toBe(0);
    expect(linesOf('out.jsonl')).toHaveLength(10);
  });

  it('takes up so many rows at a time, and says beforehand what they would take', async () => {
    await serve();
    write({
      prices: { m: { inputUsdPerMillion: 1000, outputUsdPerMillion: 0 } },
      limits: { requestsPerMinute: 60, burst: 1, headroom: 1 },
    });
    const dry = await run(['--dry-run', '--limit', '4', '--json']);
    expect(dry.code).toBe(0);
    expect(JSON.parse(dry.stdout)).toMatchObject({
      rows: 4,
      calls: 4,
      throughput: { bottleneck: { setting: 'limits.requestsPerMinute' } },
    });
    expect(dry.stderr).toMatch(/assumed: a call of `reply` takes 5 s/);
    expect([chat.calls, readdirSync(cwd).length]).toEqual([0, 2]);
    expect((await run(['--limit', '2'])).code).toBe(0);
    expect(linesOf('out.jsonl').map(({ id }) => id)).toEqual(['r0', 'r1']);
    expect((await run(['--dry-run'])).stdout).toMatch(/^rows: 8 to do, 2 from earlier runs\n/);
    expect((await run(['--dry-run'])).stdout).toMatch(
      /\ntime: at least \S+ s, bounded by `limits\.requestsPerMinute` \(60\); with `limits\.requestsPerMinute` at \d+ in place of 60 it would be /,
    );
  });

  it('stops before more is spent, over several runs together', async () => {
    await serve();
    write({ prices: { m: { usdPerCall: 0.01 } }, batches: { concurrency: 1 } });
    const first = await run(['--max-usd', '0.04']);
    expect([first.code, chat.calls, linesOf('out.jsonl').length]).toEqual([6, 4, 4]);
    expect(first.stdout).toMatch(
      /reply: 4 calls, 0 failed; (.*\n)+cost: 0\.0400 USD\nlimit `--max-usd`: 0\.0400 USD of 0\.0400 USD spent in all runs, 0\.0000 USD left\n(.*\n)+stopped by the limit `--max-usd`: 0\.0000 USD left, and the next call may cost 0\.0100 USD; what is done is kept in .*, raise it and run/,
    );
    expect([(await run(['--max-usd', '0.06'])).code, chat.calls]).toEqual([6, 6]);
    expect([(await run()).code, chat.calls, linesOf('out.jsonl').length]).toEqual([0, 10, 10]);
    expect(existsSync(join(cwd, 'out.jsonl.failures.jsonl'))).toBe(false);
  });

  it('says that it is at an end of a disk, and goes on when there is room', async (context) => {
    const disk = join(cwd, 'disk');
    mkdirSync(disk);
    try {
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', disk], { stdio: 'ignore' });
    } catch {
      context.skip('a small disk can be mounted by root alone');
    }
    try {
      await serve({ answer: (prompt) => prompt.repeat(200) });
      writeFileSync(join(disk, 'others'), 'x'.repeat(64 * 1024));
      write({ output: { path: 'disk/out.jsonl' } });
      expect((await run()).stderr).toMatch(/^sluice: cannot create the lock `.*`: the disk is full \(ENOSPC\)\n$/);
      expect(readdirSync(disk)).toEqual(['others']);
      rmSync(join(disk, 'others'));
      write({ output: { path: 'disk/out.jsonl' } }, rowsOf(60));
      const full = await run();
      expect(full.stderr).toMatch(
        /^sluice: cannot write the (journal|output) `.*`: the disk is full \(ENOSPC\)\nkept: \d+ rows of this run in .*\. To continue, repair that and run `sluice run run\.json` again\n$/,
      );
      expect(full.code).toBe(4);
      const paid = chat.calls;
      execFileSync('mount', ['-o', 'remount,size=1m', disk], { stdio: 'ignore' });
      expect((await run()).code).toBe(0);
      expect(new Set(linesOf('disk/out.jsonl').map(({ id }) => id)).size).toBe(60);
      expect(linesOf('disk/out.jsonl')).toHaveLength(60);
      expect(chat.calls).toBeLessThanOrEqual(60 + Math.min(paid, 4 + 4));
    } finally {
      execFileSync('umount', [disk], { stdio: 'ignore' });
    }
  });
});

interface Provoked {
  readonly what: string;
  readonly settings?: Settings | (() => Settings);
  readonly server?: FakeChatOptions;
  readonly rows?: string;
  readonly files?: Readonly<Record<string, string>>;
  readonly args?: readonly string[];
  readonly code: number;
  readonly says: RegExp;
}

const closedServer = (): Settings => {
  void chat.close();
  return {};
};

const stage = { name: 'reply', prompt: 'say {{text}}' };

describe('sluice run says in a sentence what is wrong', () => {
  it.each<Provoked>([
    { what: 'a key of the configuration', settings: { stagse: [] }, code: 2, says: /`stagse`.*Did you mean `stages`\?/ },
    { what: 'no stages', settings: { stages: undefined }, code: 2, says: /a run needs `stages`$/ },
    {
      what: 'a name that is taken',
      settings: { stages: [{ ...stage, name: 'id' }] },
      code: 2,
      says: /`stages\[0\]\.name`: `id` is a field of every/,
    },
    { what: 'no address', settings: { model: { model: 'm' } }, code: 2, says: /a run needs `model\.baseUrl` \(or SLUICE_BASE_URL\)$/ },
    {
      what: 'a key that is not set',
      settings: () => ({ model: { baseUrl: chat.baseUrl, model: 'm', apiKeyEnv: 'NO_SUCH_KEY' } }),
      code: 2,
      says: /`model\.apiKeyEnv`: the environment variable `NO_SUCH_KEY` is not set\. Set it\.$/,
    },
    {
      what: 'no input',
      settings: { input: { path: 'none.jsonl' } },
      code: 2,
      says: /cannot read the input `none\.jsonl`: there is no such file or folder$/,
    },
    {
      what: 'an output that is the input',
      settings: { output: { path: 'in.jsonl' } },
      code: 2,
      says: /the input `in\.jsonl` and the output `in\.jsonl` are one file\. Rename one of them\.$/,
    },
    {
      what: 'an output of somebody else',
      files: { 'out.jsonl': 'mine\n' },
      code: 2,
      says: /`out\.jsonl` is there already, and no journal belongs to it/,
    },
    {
      what: 'a journal that is none',
      files: { 'out.jsonl.journal': 'Dear diary\n' },
      code: 2,
      says: /`out\.jsonl\.journal` is there already and is not a journal/,
    },
    { what: 'a device', settings: { output: { path: '/dev/full' } }, code: 2, says: /`\/dev\/full` is a device, not a file/ },
    {
      what: 'a limit without a price',
      args: ['--max-usd', '1'],
      code: 2,
      says: /`--max-usd` needs the price of the model `m`\. Add it to `prices`/,
    },
    ...['constructor', 'toString', '__proto__'].map((model) => ({
      what: `a limit without a price of ${model}`,
      settings: { stages: [{ name: 'reply', prompt: 'say {{text}}', model }], prices: { m: { usdPerCall: 1 } } },
      args: ['--max-usd', '1'],
      code: 2,
      says: new RegExp(`needs the price of the model \`${model}\``),
    })),
    {
      what: 'a wrong key',
      server: { apiKey: 'right' },
      code: 3,
      says: /refuses the key: 401 .* Set SLUICE_API_KEY or OPENAI_API_KEY to a valid one\nkept: 0 rows of this run in `out\.jsonl`, and all answers so far in `out\.jsonl\.journal`\. To continue, repair that and run `sluice run run\.json` again$/,
    },
    {
      what: 'a wrong model',
      server: { model: 'other' },
      code: 3,
      says: /does not know the model `m`, or is not the whole address of the API: 404 .* Check the name of the model, `m`, and `model\.baseUrl`, http:\/\/127\.0\.0\.1:\d+\/v1$/m,
    },
    { what: 'no server', settings: closedServer, code: 3, says: /cannot reach .* \(ECONNREFUSED\): is the server running/ },
    {
      what: 'a server that lets everything down',
      server: { fault: () => ({ status: 500, message: 'boom' }) },
      settings: () => ({ model: { baseUrl: chat.baseUrl, model: 'm', retry: false } }),
      rows: rowsOf(30),
      code: 3,
      says: /has answered nothing of use with `m` so far: 500 boom\. Check `model` in the configuration$/m,
    },
    {
      what: 'a port that nobody may ask',
      settings: { model: { baseUrl: 'http://127.0.0.1:6000/v1', model: 'm' } },
      code: 3,
      says: /cannot reach http:\/\/127\.0\.0\.1:6000\/v1: `fetch` does not go to that port/,
    },
    {
      what: 'a folder that is a file',
      settings: { output: { path: 'in.jsonl/out.jsonl' } },
      code: 2,
      says: /cannot write the output `in\.jsonl\/out\.jsonl`: a part of the path is not a folder/,
    },
  ])('$what', async ({ settings = {}, server = {}, rows, files = {}, args = [], code, says }) => {
    await serve(server);
    write(typeof settings === 'function' ? settings() : settings, rows);
    for (const [name, text] of Object.entries(files)) writeFileSync(join(cwd, name), text);
    const result = await run(args);
    expect(result.stderr.trimEnd()).toMatch(says);
    expect(result.stderr).toMatch(/^sluice: /);
    expect([result.code, result.stdout]).toEqual([code, '']);
    for (const [name, text] of Object.entries(files)) expect(readFileSync(join(cwd, name), 'utf8')).toBe(text);
  });

  it.each([
    ['in.jsonl', 'is neither a file nor a folder'],
    ...['out.jsonl', 'out.jsonl.failures.jsonl', 'out.jsonl.journal', 'out.jsonl.lock', 'out.jsonl.budget', 'events.jsonl'].map((name) => [
      name,
      'is a pipe, not a file to write to',
    ]),
  ])('a pipe where %s is, which nobody could wait for', async (name, says) => {
    await serve();
    write({ prices: { m: { usdPerCall: 0.01 } } });
    rmSync(join(cwd, name), { force: true });
    execFileSync('mkfifo', [join(cwd, name)]);
    for (const args of [[], ['--dry-run']]) {
      const { code, stderr } = await run(['--events', 'events.jsonl', ...args]);
      expect([code, stderr]).toEqual([2, expect.stringContaining(`\`${name}\` ${says}`)]);
    }
    expect([chat.calls, readdirSync(cwd).sort()]).toEqual([0, [...new Set(['in.jsonl', 'run.json', name])].sort()]);
  });
  const OWN = {
    configuration: 'run.json',
    input: 'in.jsonl',
    output: 'out.jsonl',
    journal: 'out.jsonl.journal',
    lock: 'out.jsonl.lock',
    budget: 'out.jsonl.budget',
    'new budget': 'out.jsonl.budget.tmp',
    'output before': 'out.jsonl.before',
    'new output before': 'out.jsonl.before.tmp',
    failures: 'f.jsonl',
    'failures lock': 'f.jsonl.lock',
    events: 'e.jsonl',
    summary: 's.json',
  };
  type Own = keyof typeof OWN;
  const NAMED = ['input', 'failures', 'events', 'summary'] as const;
  const pairs = NAMED.flatMap((named) =>
    (Object.keys(OWN) as Own[]).flatMap((other) => (other === named || other === `${named} lock` ? [] : [[named, other] as const])),
  );

  it.each(pairs)('the %s that is the %s, by its name, another one, or a link', async (named, other) => {
    await serve();
    symlinkSync(OWN[other], join(cwd, 'link'));
    symlinkSync('link', join(cwd, 'chain'));
    const names = [OWN[other], `../${basename(cwd)}/./${OWN[other]}`, 'chain'];
    if (['configuration', 'input'].includes(other)) {
      write();
      linkSync(join(cwd, OWN[other]), join(cwd, 'twin'));
      names.push('twin');
    }
    for (const name of names) {
      const given = { ...OWN, [named]: name };
      write({ input: { path: given.input, format: 'jsonl' }, output: { path: given.output, failures: given.failures } });
      const before = readdirSync(cwd).sort();
      const says = [`the ${named} \`${name}\``, `the ${other} \`${OWN[other]}\``];
      const one = new RegExp(`(${says.join(' and ')}|${says.toReversed().join(' and ')}) are one file\\. Rename one of them\\.\n$`);
      const isKnown = ![named, other].some((what) => ['events', 'summary'].includes(what));
      const checked = await runHere(['config', 'check', 'run.json'], { cwd });
      // Of files that only the command line names, a check knows nothing.
      if (isKnown) expect([name, checked.code, checked.stdout]).toEqual([name, 2, expect.stringMatching(one)]);
      else expect(checked.stdout).not.toMatch(one);
      const { code, stderr } = await run(['--events', given.events, '--json', given.summary]);
      expect([name, code, stderr]).toEqual([name, 2, expect.stringMatching(one)]);
      expect([chat.calls, readdirSync(cwd).sort()]).toEqual([0, before]);
    }
  });
});
