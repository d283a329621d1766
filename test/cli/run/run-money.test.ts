import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { seededRandom } from '../../../marbles/random.js';
import { RunJob } from '../../../src/cli/run/run-job.js';
import { planRun, type RunPlan, refusalsOf } from '../../../src/cli/run/run-plan.js';
import { type RunSummary, runSummaryText } from '../../../src/cli/run/run-summary.js';
import type { Config } from '../../../src/edge/config/schema.js';
import { sized } from '../../support/deep.js';
import { type PaidChatOptions, type PaidEnd, startPaidChat } from '../../support/paid-chat.js';

vi.setConfig({ testTimeout: 120_000 });

const PRICES = { input: 3, cacheRead: 0.3, cacheWrite: 3.75, output: 15 };
const price = {
  inputUsdPerMillion: PRICES.input,
  cacheReadUsdPerMillion: PRICES.cacheRead,
  cacheWriteUsdPerMillion: PRICES.cacheWrite,
  outputUsdPerMillion: PRICES.output,
};
const MOST_OUTPUT = 400;

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-money-'));
});
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

interface World {
  readonly plan: RunPlan;
  readonly chat: Awaited<ReturnType<typeof startPaidChat>>;
  run(maxUsd: number, abort?: AbortSignal): Promise<RunSummary>;
  /** What all runs are charged with, in USD. */
  charged(): number;
}

let made = 0;

async function world(seed: number, given: Partial<PaidChatOptions>, model: object, rows: readonly object[]): Promise<World> {
  const random = seededRandom(seed);
  const chat = await startPaidChat({
    ...{ prices: PRICES, maxOutputTokens: MOST_OUTPUT, random, endOf: () => 'answers' as const, length: () => Math.floor(random() * 450) },
    ...{ bytesPerToken: 4, caches: false, delayMs: 3, ...given },
  });
  const cwd = join(folder, String(made++));
  writeFileSync(`${cwd}.in.jsonl`, rows.map((row) => `${JSON.stringify(row)}\n`).join(''));
  const config: Config = {
    model: {
      baseUrl: chat.baseUrl,
      model: 'm',
      timeoutMs: 150,
      retry: { maxAttempts: 3, delayMs: 2, maxMs: 5 },
      accept: ['length'],
      ...model,
    },
    limits: { concurrency: 8 },
    batches: { concurrency: 6 },
    stages: [
      { name: 'one', prompt: 'first {{text}}' },
      { name: 'two', prompt: 'then {{text}}, for {{one}}', allowPartialFailure: true },
    ],
    input: { path: `${cwd}.in.jsonl` },
    output: { path: `${cwd}.out.jsonl` },
    prices: { m: { ...price, maxOutputTokens: MOST_OUTPUT } },
  };
  const plan = planRun(config, join(folder, 'run.yaml'), { env: {}, cwd: () => '/' });
  const charged = (): number => {
    const saved = JSON.parse(readFileSync(`${cwd}.out.jsonl.budget`, 'utf8').split('\n').at(-2) ?? '{}') as {
      readonly limits: readonly { readonly unit: string; readonly charged: number }[];
    };
    return (saved.limits.find(({ unit }) => unit === 'usd')?.charged ?? 0) / 1e9;
  };
  const run = (maxUsd: number, abort = new AbortController().signal): Promise<RunSummary> =>
    new RunJob(
      { plan, limit: Infinity, maxUsd, retryFailed: false, events: undefined },
      { stop: new AbortController().signal, abort },
    ).run();
  return { plan, chat, run, charged };
}

function rowsOf(count: number, random: () => number): { readonly text: string }[] {
  return Array.from({ length: count }, (_, i) => ({ text: `${String(i)} ${'lorem '.repeat(Math.floor(random() * 60))}` }));
}

const KINDS: readonly PaidEnd[] = ['noUsage', 'fails', 'gateway', 'cut', 'silent'];

describe('`--max-usd`', () => {
  const seeds = Array.from({ length: sized(12, 300) }, (_, i) => i + 1);

  it.each(seeds)('is never gone beyond, whatever becomes of calls, and is used up while work is left (seed %i)', async (seed) => {
    const random = seededRandom(seed * 7919);
    const faultShare = seed % 3 === 0 ? 0 : random() * 0.3;
    const kinds = KINDS.filter(() => random() < 0.6);
    const endOf = (): PaidEnd => (random() < faultShare ? (kinds[Math.floor(random() * kinds.length)] ?? 'answers') : 'answers');
    const bytesPerToken = [1, 2, 4][Math.floor(random() * 3)] as number;
    const { run, chat, charged } = await world(
      seed,
      { endOf, bytesPerToken, caches: random() < 0.5 },
      random() < 0.5 ? {} : { maxTokens: 100 + Math.floor(random() * 300) },
      rowsOf(60, random),
    );
    try {
      const cap = 0.05 + random() * 0.25;
      let kills = random() < 0.4 ? 3 : 0;
      for (let runs = 0; runs < 6; runs++) {
        const abort = new AbortController();
        const kill = (): void => {
          abort.abort();
        };
        if (kills-- > 0) setTimeout(kill, 20 + random() * 60);
        const summary = await run(cap, abort.signal).catch(() => undefined);
        expect(chat.billedUsd).toBeLessThanOrEqual(cap + 1e-9);
        if (summary === undefined || abort.signal.aborted) continue;
        if (summary.stopped === 'budget') expect(summary.spent?.left).toBeLessThan(summary.spent?.asked ?? 0);
        if (summary.stopped === 'budget') expect(cap - charged()).toBeLessThan(summary.spent?.asked ?? 0);
        break;
      }
    } finally {
      await chat.close();
    }
  });

  it('is spent to 95 % and more where it is twenty worst cases and every call says what it took', async () => {
    for (const seed of [1, 2, 3]) {
      const { run, chat } = await world(seed, {}, { maxTokens: 200, timeoutMs: 30_000 }, rowsOf(200, seededRandom(seed)));
      const summary = await run(0.3);
      expect(summary.stopped).toBe('budget');
      expect((summary.spent?.asked ?? 1) * 20).toBeLessThanOrEqual(0.3);
      expect(chat.billedUsd).toBeGreaterThanOrEqual(0.95 * 0.3);
      expect(chat.billedUsd).toBeLessThanOrEqual(0.3);
      expect(summary.costUsd).toBeCloseTo(chat.billedUsd, 6);
      await chat.close();
    }
  });

  it('parts what answers have cost, what is an estimate, and what failed calls may have cost', async () => {
    const ends: PaidEnd[] = ['answers', 'noUsage', 'fails', 'gateway'];
    let next = 0;
    const { run, chat, charged } = await world(
      5,
      { endOf: () => ends[next++] ?? 'answers', length: () => 50 },
      { maxTokens: 100, retry: false, timeoutMs: 30_000 },
      ends.map((text) => ({ text })),
    );
    const summary = await run(10);
    await chat.close();
    const { costUsd = 0, estimatedUsd = 0, failedUsd = 0 } = summary;
    expect(estimatedUsd).toBeGreaterThan(0);
    expect(costUsd).toBeGreaterThan(estimatedUsd);
    // The gateway's: at most the prompt in bytes, and the longest answer. The 500 has cost nothing.
    expect(failedUsd).toBeGreaterThan((100 * PRICES.output) / 1e6);
    expect(failedUsd).toBeLessThan((100 * PRICES.output + 300 * PRICES.cacheWrite) / 1e6);
    // A limit keeps the most that a call without usage can have cost, and the summary says what it is likely to have.
    expect(charged()).toBeGreaterThan(costUsd + failedUsd);
    const text = runSummaryText(summary);
    expect(text).toMatch(/^cost: \d\.\d+ USD, \d\.\d+ USD of it by estimate; failed calls may have cost up to \d\.\d+ USD more$/m);
  });

  it('says what is left, and what the next call may cost', async () => {
    const { run, chat } = await world(
      1,
      {},
      { maxTokens: 400 },
      rowsOf(5, () => 0),
    );
    const summary = await run(0.001);
    await chat.close();
    expect(summary).toMatchObject({
      exitCode: 6,
      stopped: 'budget',
      calls: 0,
      spent: { name: '--max-usd', unit: 'usd', limit: 0.001, left: 0.001 },
    });
    expect(summary.stages).toEqual([]);
    expect(runSummaryText(summary)).toMatch(
      /^stopped by the limit `--max-usd`: 0\.0010 USD left, and the next call may cost 0\.006\d USD; /m,
    );
  });

  it('holds at a provider that says its answers took nothing', async () => {
    let at = 0;
    const { run, chat } = await world(
      3,
      { reports: () => [{ prompt_tokens: 0 }, { completion_tokens: 0 }][at++ % 2] },
      { maxTokens: 200, timeoutMs: 30_000 },
      rowsOf(60, seededRandom(3)),
    );
    const summary = await run(0.1);
    await chat.close();
    expect(summary).toMatchObject({ stopped: 'budget', estimatedCalls: summary.calls });
    expect(chat.billedUsd).toBeLessThanOrEqual(0.1);
  });

  it('is refused for a price that leaves out a part', () => {
    const config = { model: { model: 'm', maxTokens: 5 }, stages: [{ name: 'one', prompt: 'first {{text}}' }] };
    const refusal = (price: object): unknown => refusalsOf({ ...config, prices: { m: price } }, 1)[0]?.message;
    expect(refusal({ inputUsdPerMillion: 3 })).toBe(
      '`--max-usd` needs `outputUsdPerMillion` of the model `m`. Add it to `prices`; 0 if it costs nothing.',
    );
    expect(refusal({})).toContain('`inputUsdPerMillion`');
    expect([refusal({ usdPerCall: 1 }), refusal({ inputUsdPerMillion: 0, outputUsdPerMillion: 0 })]).toEqual([undefined, undefined]);
  });

  it('and `budget` are refused for answers of any length, with the stage and the repair', () => {
    const stages = [{ name: 'one', prompt: 'first {{text}}' }];
    const config = { model: { model: 'm' }, stages, prices: { m: price } };
    const words =
      'needs the longest answer of the stage `one`. Add `maxTokens` to the stage `one` or to `model`, or `maxOutputTokens` to the price of `m`.';
    expect(refusalsOf(config, 1)[0]?.message).toBe(`\`--max-usd\` ${words}`);
    expect(refusalsOf({ ...config, budget: { usd: 1 } })[0]?.message).toBe(`\`budget.usd\` ${words}`);
    expect(refusalsOf({ ...config, prices: {}, budget: { tokens: 100 } })[0]?.message).toBe(`\`budget.tokens\` ${words}`);
    for (const bounded of [
      { ...config, model: { model: 'm', maxTokens: 5 } },
      { ...config, model: { model: 'm', options: { max_completion_tokens: 5 } } },
      { ...config, stages: [{ ...stages[0]!, maxTokens: 5 }] },
      { ...config, prices: { m: { ...price, maxOutputTokens: 5 } } },
      // Answers cost nothing.
      { ...config, prices: { m: { usdPerCall: 0.01 } } },
    ])
      expect(refusalsOf(bounded, 1)).toEqual([]);
  });
});
