import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { openai } from '../../../marbles/providers/openai.js';
import { runHere } from '../../support/cli.js';
import type { ProviderServer } from '../../support/provider-server.js';
import { startProvider } from '../../support/provider-server.js';

const ROWS = 40;
/** Of an answer, and of `max_tokens`: what the provider charges on arrival. */
const OUTPUT = 500;
const PER_MINUTE = 300_000;
/** Both save up two seconds of it: half of what all rows take. */
const SAVED_SECONDS = 2;
const HEADROOM = 0.9;

let cwd: string;
let server: ProviderServer;

beforeEach(async () => {
  cwd = mkdtempSync(join(tmpdir(), 'sluice-books-'));
  server = await startProvider({
    provider: openai({ tokensPerMinute: PER_MINUTE, burstSeconds: SAVED_SECONDS }),
    answer: () => ({ text: 'yes', outputTokens: OUTPUT }),
    latencyMs: 50,
  });
});
afterEach(async () => {
  await server.stop();
  rmSync(cwd, { recursive: true, force: true });
});

async function run(limits: object) {
  const rows = Array.from({ length: ROWS }, (_, index) => `${JSON.stringify({ id: `r${String(index)}`, text: `t${String(index)}` })}\n`);
  writeFileSync(join(cwd, 'in.jsonl'), rows.join(''));
  const config = {
    limits,
    model: { baseUrl: server.baseUrl, model: 'm', maxTokens: OUTPUT },
    stages: [{ name: 'reply', prompt: 'say {{text}}' }],
    input: { path: 'in.jsonl' },
    output: { path: 'out.jsonl' },
  };
  writeFileSync(join(cwd, 'run.json'), JSON.stringify(config));
  const { code } = await runHere(['run', 'run.json'], { cwd });
  const written = readFileSync(join(cwd, 'out.jsonl'), 'utf8').split('\n').length - 1;
  const { provider } = server;
  const firstMs = Math.min(...provider.calls.map(({ startedAt }) => startedAt));
  const lastMs = Math.max(...provider.calls.map(({ endedAt }) => endedAt));
  return { code, written, refused: provider.refused, tookMs: lastMs - firstMs };
}

it('loses no row and has at most one refused, with the limits of the account in the configuration', async () => {
  const { code, written, refused, tookMs } = await run({ tokensPerMinute: PER_MINUTE, concurrency: 16 });
  expect([code, written]).toEqual([0, ROWS]);
  expect(refused).toBeLessThanOrEqual(1);
  // By the books the run had to wait: it took as long as what was not saved up takes to come in.
  const perMs = (PER_MINUTE * HEADROOM) / 60_000;
  expect(tookMs).toBeGreaterThan((ROWS * OUTPUT) / perMs - (SAVED_SECONDS + 1) * 1000);
});

it('loses no row without limits in the configuration, and has only those refused that were under way', async () => {
  const { code, written, refused } = await run({ concurrency: 16 });
  expect([code, written]).toEqual([0, ROWS]);
  expect(refused).toBeLessThanOrEqual(16);
});
