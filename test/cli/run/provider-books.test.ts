import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { anthropic } from '../../../marbles/providers/anthropic.js';
import { openai } from '../../../marbles/providers/openai.js';
import type { ProviderPreset } from '../../../marbles/providers/types.js';
import { runHere } from '../../support/cli.js';
import { sized } from '../../support/deep.js';
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

beforeEach(() => {
  cwd = mkdtempSync(join(tmpdir(), 'sluice-books-'));
});
afterEach(async () => {
  await server.stop();
  rmSync(cwd, { recursive: true, force: true });
});

async function run(provider: ProviderPreset, limits: object) {
  server = await startProvider({ provider, answer: () => ({ text: 'yes', outputTokens: OUTPUT }), latencyMs: 50 });
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
  const { calls, refused } = server.provider;
  const firstMs = Math.min(...calls.map(({ startedAt }) => startedAt));
  const lastMs = Math.max(...calls.map(({ endedAt }) => endedAt));
  return { code, written, refused, tookMs: lastMs - firstMs };
}

const openaiBooks = openai({ tokensPerMinute: PER_MINUTE, burstSeconds: SAVED_SECONDS });
/** Forty answers are two and a half times what is saved up. The short run has twenty times the rate, and takes a twentieth of the time. */
const speed = sized(20, 1);
const OUTPUT_PER_MINUTE = 8000 * speed;
const anthropicBooks = (outputCharged: 'asGenerated' | 'onArrival') =>
  anthropic({
    inputTokensPerMinute: 2_000_000 * speed,
    outputTokensPerMinute: OUTPUT_PER_MINUTE,
    outputCharged,
    burstSeconds: 60 / speed,
  });

it('loses no row and has at most one refused, with the limits of the account in the configuration', async () => {
  const { code, written, refused, tookMs } = await run(openaiBooks, { tokensPerMinute: PER_MINUTE, concurrency: 16 });
  expect([code, written]).toEqual([0, ROWS]);
  expect(refused).toBeLessThanOrEqual(1);
  // By the books the run had to wait: it took as long as what was not saved up takes to come in.
  const perMs = (PER_MINUTE * HEADROOM) / 60_000;
  expect(tookMs).toBeGreaterThan((ROWS * OUTPUT) / perMs - (SAVED_SECONDS + 1) * 1000);
});

it('loses no row without limits in the configuration, and has only those refused that were under way', async () => {
  const { code, written, refused } = await run(openaiBooks, { concurrency: 16 });
  expect([code, written]).toEqual([0, ROWS]);
  expect(refused).toBeLessThanOrEqual(16);
});

it.each(['asGenerated', 'onArrival'] as const)(
  'carries forty rows over the buckets of Anthropic with all defaults: 500 tokens each of 8,000 a minute, charged %s',
  async (outputCharged) => {
    const { code, written, refused, tookMs } = await run(anthropicBooks(outputCharged), { concurrency: 8 });
    expect([code, written]).toEqual([0, ROWS]);
    expect(refused).toBeLessThanOrEqual(1);
    // 90 s are the least. In a twentieth of the time, dates in whole seconds and late timers weigh twenty times as much.
    expect(tookMs).toBeLessThanOrEqual(sized(220_000, 110_000) / speed);
  },
  sized(60_000, 300_000),
);
