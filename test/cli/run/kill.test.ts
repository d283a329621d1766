import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { seededRandom } from '../../../marbles/random.js';
import { buildCli, type Cli, runHere } from '../../support/cli.js';
import { sized } from '../../support/deep.js';
import { type FakeChat, startFakeChat } from '../../support/fake-chat-api.js';

vi.setConfig({ testTimeout: 600_000 });

const KILLS = sized(2, 20);
const LINES = sized(100, 2000);
const CONCURRENCY = 10;
/** Before a kill: all kills together come before the end. */
const MOST_CALLS = sized(60, 250);

let cli: Cli;
let cwd: string;
let chat: FakeChat;
let callsLeft = Infinity;
let kill = (): void => undefined;

beforeAll(async () => {
  cli = await buildCli();
  cwd = mkdtempSync(join(tmpdir(), 'sluice-kill-'));
  const random = seededRandom(17);
  chat = await startFakeChat({
    delayMs: () => random() * 8,
    answer: (prompt) =>
      prompt.startsWith('list ') ? JSON.stringify(['a', 'b'].map((part) => `${prompt.slice(5)}${part}`)) : `said ${prompt.slice(4)}`,
    fault: () => {
      callsLeft -= 1;
      if (callsLeft === 0) kill();
      const drawn = random();
      if (drawn < 0.02) return 'cut';
      if (drawn < 0.05) return { status: 429, message: 'slow down' };
      return drawn < 0.08 ? { status: 503, message: 'overloaded' } : undefined;
    },
  });
});
afterAll(async () => {
  rmSync(cwd, { recursive: true, force: true });
  await chat.close();
});

/** Every prompt whose answer is in the journal. */
function journaled(): Map<string, number> {
  const lines = readFileSync(join(cwd, 'out.jsonl.journal'), 'utf8').split('\n').slice(0, -1);
  const entries = lines.map((line) => JSON.parse(line.slice(17)) as { stage?: string; value?: unknown });
  const prompts = entries.flatMap(({ stage, value }) => {
    if (stage === 'generate') return [`list ${(value as string[])[0]?.slice(0, -1) ?? ''}`];
    return stage === 'reply' ? [`say ${String(value).slice(5)}`] : [];
  });
  return new Map(prompts.map((prompt) => [prompt, chat.sent.get(prompt) ?? 0]));
}

it(`goes on after ${String(KILLS)} kills: each item once, no journaled call again, at most those in flight twice`, async () => {
  const config = {
    model: { baseUrl: chat.baseUrl, model: 'm', retry: { maxAttempts: 10, delayMs: 5, maxMs: 50, maxShare: 10 } },
    limits: { concurrency: CONCURRENCY },
    batches: { concurrency: 8 },
    stages: [
      { name: 'generate', prompt: 'list {{id}}', answer: 'list' },
      { name: 'reply', prompt: 'say {{generate}}' },
    ],
    input: { path: 'in.jsonl' },
    output: { path: 'out.jsonl' },
    prices: { m: { usdPerCall: 0.001 } },
  };
  const ids = Array.from({ length: LINES }, (_, i) => `d${String(i)}`);
  writeFileSync(join(cwd, 'run.json'), JSON.stringify(config));
  writeFileSync(join(cwd, 'in.jsonl'), ids.map((id) => `${JSON.stringify({ id })}\n`).join(''));
  const random = seededRandom(4);

  let known = new Map<string, number>();
  for (let kills = 0; kills < KILLS; kills++) {
    callsLeft = 1 + Math.floor(random() * MOST_CALLS);
    const before = new Map(chat.answered);
    const run = cli.start(['run', 'run.json'], { cwd });
    kill = () => void run.child.kill('SIGKILL');
    expect((await run.ended).signal).toBe('SIGKILL');
    // What was on its way is over before anybody looks.
    await vi.waitFor(
      () => {
        expect(chat.open).toBe(0);
      },
      { timeout: 20_000, interval: 2 },
    );
    for (const [prompt, times] of known) expect([prompt, chat.sent.get(prompt)]).toEqual([prompt, times]);
    known = journaled();
    const unkept = [...chat.answered].filter(([prompt, times]) => times > (before.get(prompt) ?? 0) && !known.has(prompt));
    expect(unkept.length).toBeLessThanOrEqual(CONCURRENCY);
    const asked = [...chat.sent.keys()].filter((prompt) => prompt.startsWith('say '));
    expect(asked.filter((prompt) => !known.has(`list ${prompt.slice(4, -1)}`))).toEqual([]);
  }
  const answeredTwice = (): number => [...chat.answered.values()].reduce((sum, times) => sum + times - 1, 0);
  const { code, stderr } = await runHere(['run', 'run.json'], { cwd });
  expect([code, stderr]).toEqual([0, expect.any(String)]);
  for (const [prompt, times] of known) expect([prompt, chat.sent.get(prompt)]).toEqual([prompt, times]);
  expect(answeredTwice()).toBeLessThanOrEqual(KILLS * CONCURRENCY);

  // What calls had cost that a kill has cut off is still known.
  const saved = readFileSync(join(cwd, 'out.jsonl.budget'), 'utf8').split('\n').at(-2) ?? '';
  const charged = Number(/"unit":"usd".*"charged":(\d+)/.exec(saved)?.[1]) / 1e6;
  expect(charged).toBeGreaterThanOrEqual([...chat.answered.values()].reduce((sum, times) => sum + times, 0));

  const output = readFileSync(join(cwd, 'out.jsonl'), 'utf8').split('\n').slice(0, -1);
  const seen = output.map((line) => JSON.parse(line) as { id: string; item: string; reply: string });
  expect(seen.map(({ id, item }) => `${id} ${item}`).sort()).toEqual(ids.flatMap((id) => [`${id} 0`, `${id} 1`]).sort());
  for (const { id, item, reply } of seen) expect(reply).toBe(`said ${id}${item === '0' ? 'a' : 'b'}`);
});
