import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { buildCli, type Cli } from '../../support/cli.js';
import { type FakeChat, startFakeChat } from '../../support/fake-chat-api.js';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 600_000 });

const root = resolve(import.meta.dirname, '../../..');
/** Kept, to be looked at. */
const screens = join(root, '.screenshots', 'sluice-run');

let cli: Cli;
let chat: FakeChat;
let cwd: string;
let socket: string;
let tmuxPath: string;
let release = (): void => undefined;

beforeAll(async () => {
  tmuxPath = execFileSync('node', [join(root, '.ci/tmux.mjs')], { encoding: 'utf8' }).trim();
  cli = await buildCli();
  chat = await startFakeChat({ until: new Promise((open) => (release = open)) });
  cwd = mkdtempSync(join(tmpdir(), 'sluice-terminal-'));
  socket = join(cwd, 'tmux');
  mkdirSync(screens, { recursive: true });
  for (const name of ['drained', 'aborted']) {
    const config = {
      model: { baseUrl: chat.baseUrl, model: 'm' },
      stages: [{ name: 'reply', prompt: `${name} {{id}}` }],
      input: { path: 'in.jsonl' },
      output: { path: `${name}.jsonl` },
    };
    writeFileSync(join(cwd, `${name}.json`), JSON.stringify(config));
  }
  writeFileSync(join(cwd, 'in.jsonl'), Array.from({ length: 40 }, (_, i) => `{"id":"r${String(i)}"}\n`).join(''));
});
afterAll(async () => {
  tmux('kill-server');
  await chat.close();
  rmSync(cwd, { recursive: true, force: true });
});

function tmux(...args: readonly string[]): string {
  return execFileSync(tmuxPath, ['-S', socket, '-f', '/dev/null', ...args], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
}

/** Starts a run in a terminal of its own; its exit code is printed at the end. */
function open(name: string, env = ''): void {
  // The shell stays when its child is interrupted.
  const command = `trap : INT; cd ${cwd}; env -u NO_COLOR ${env} ${process.execPath} ${cli.file} run ${name}.json; echo "exit $?"; cat`;
  tmux('new-session', '-d', '-s', name, '-x', '100', '-y', '30', 'sh', '-c', command);
}

/** Waits for something on the screen, and keeps what is there then. `-e` keeps colours. */
async function screen(name: string, as: string, pattern: RegExp, ...flags: readonly string[]): Promise<string> {
  let text = '';
  await vi.waitFor(
    () => {
      text = tmux('capture-pane', '-p', '-t', name, ...flags);
      expect(text).toMatch(pattern);
    },
    { timeout: 20_000, interval: 50 },
  );
  writeFileSync(join(screens, `${as}.txt`), text);
  return text;
}

const VIEW =
  /running \[[#.]{24}\] 0 %  0 of about \d+ rows, 0 failed\nlevel +queued +held by rate.*\nrows .*\nreply .*\ncalls .*\nper minute: 0 rows, 0 results, \d+ calls, .* tokens\nso far: 0 retries\n/;

it('shows a run in a terminal: in colour, in any width, drained by one interrupt', async () => {
  open('drained');
  expect(await screen('drained', 'wide', VIEW)).not.toContain('\u001b');
  expect(await screen('drained', 'colour', /running/, '-e')).toContain('\u001b[2m');
  tmux('resize-window', '-t', 'drained', '-x', '40', '-y', '30');
  const narrow = await screen(
    'drained',
    'narrow',
    /^running 0 %\n0 of about \d+ rows, 0 failed\ncalls: 4 executing, 0 queued\n0 results per minute\n/m,
  );
  tmux('resize-window', '-t', 'drained', '-x', '120', '-y', '30');
  const again = await screen('drained', 'wide-again', VIEW);
  tmux('resize-window', '-t', 'drained', '-x', '120', '-y', '9');
  const low = await screen('drained', 'low', /^running 0 %\n0 of about/m);
  tmux('resize-window', '-t', 'drained', '-x', '80', '-y', '24');
  const usual = await screen('drained', 'usual', VIEW);
  // One view, whatever the terminal has made of the ones before.
  for (const text of [narrow, again, low, usual]) expect(text.match(/^calls/gm)).toHaveLength(1);
  tmux('send-keys', '-t', 'drained', 'C-c');
  await screen('drained', 'stopping', /stopping: waiting for the calls under way[\s\S]*stopping \[[#.]{24}\]/);
  release();
  expect(await screen('drained', 'drained', /exit 130/)).toMatch(/interrupted: what is done is kept in drained\.jsonl\.journal/);
  expect(readFileSync(join(cwd, 'drained.jsonl'), 'utf8').split('\n').length - 1).toBe(4);
});

it('has no colours with NO_COLOR, and ends at once at the second interrupt', async () => {
  chat.close().catch(() => undefined);
  chat = await startFakeChat({ until: new Promise(() => undefined) }, chat.port);
  open('aborted', 'NO_COLOR=1');
  expect(await screen('aborted', 'no-colour', VIEW, '-e')).not.toContain('\u001b[2m');
  tmux('send-keys', '-t', 'aborted', 'C-c');
  await screen('aborted', 'stopping-again', /stopping: waiting/);
  tmux('send-keys', '-t', 'aborted', 'C-c');
  expect(await screen('aborted', 'aborted', /exit 130/)).toContain('interrupted: what is done is kept in aborted.jsonl.journal');
});
