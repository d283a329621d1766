import { describe, expect, it } from 'vitest';
import { fakeProvider } from '../../marbles/fake-provider.js';
import { ledgerOf } from '../../src/account/ledger.js';
import type { AccountOptions, CallRecord } from '../../src/index.js';
import { createAccount, createBudget, withJob } from '../../src/index.js';
import { PatientClock } from '../support/patient-clock.js';
import type { Ask, Given } from '../support/provider-callers.js';
import { ADAPTERS, BATCHES, EMBEDDINGS, presetOf, UNCOUNTED } from '../support/provider-callers.js';
import { fetchOf } from '../support/provider-fetch.js';

const LATENCY_MS = 100;

function worldOf(adapter: string, options: AccountOptions = {}) {
  const clock = new PatientClock();
  const provider = fakeProvider({
    provider: presetOf(adapter),
    answer: () => ({ text: 'yes', outputTokens: 7 }),
    latencyMs: LATENCY_MS,
    scheduler: clock,
  });
  const limiter = createAccount({ concurrency: 2, scheduler: clock, ...options });
  const records: CallRecord[] = [];
  ledgerOf(limiter).watch((record) => records.push(record));
  const make = ADAPTERS[adapter] as (typeof ADAPTERS)[string];
  const askOf = (job?: Given['job']): Ask => make({ limiter, clock, fetch: fetchOf(provider), job });
  const end = async (): Promise<void> => {
    limiter.close();
    await clock.drain();
  };
  /** How many requests reached the provider before the one with that text. */
  const before = (text: string): number => provider.calls.findIndex(({ input }) => JSON.stringify(input.body).includes(text));
  return { clock, provider, limiter, records, askOf, before, end };
}

describe.each(Object.keys(ADAPTERS))('calls by %s', (adapter) => {
  it.each(['job', 'withJob'] as const)('take turns by the key of their %s', async (way) => {
    const { clock, askOf, before, end, records } = worldOf(adapter);
    const [a, b] = way === 'job' ? [askOf({ key: 'A' }), askOf({ key: 'B' })] : [askOf(), askOf()];
    const as = (key: string, ask: Ask, text: string): PromiseLike<unknown> =>
      way === 'job' ? ask(text) : withJob({ key }, () => ask(text));
    const all = Array.from({ length: 60 }, (_, index) => as('A', a, `first ${String(index)}`));
    await clock.pass(0);
    all.push(as('B', b, 'the other'));
    await clock.until(Promise.all(all));
    // Those that had their permits, and one more of A; a batch that waits for its permit holds one.
    expect(before('the other')).toBeLessThanOrEqual(4);
    expect(before('the other')).toBeGreaterThan(0);
    // A batch may be of texts of several.
    const of = (tenant: string): number => records.filter(({ key }) => key === tenant).length;
    expect([records.length, of('A'), of('B')]).toEqual(BATCHES.has(adapter) ? [61, 0, 0] : [61, 60, 1]);
    await end();
  });

  it('have records with model, key, lane and tokens', async () => {
    const { clock, askOf, records, end } = worldOf(adapter);
    const key = BATCHES.has(adapter) ? null : 'A';
    await clock.until(Promise.resolve(askOf({ key: 'A', lane: 'user' })('How many are there?')));
    const isEstimated = UNCOUNTED.has(adapter);
    const promptTokens = (isEstimated ? null : expect.toSatisfy((tokens: unknown) => Number(tokens) > 0)) as unknown;
    const noTokens = expect.toSatisfy((tokens: unknown) => tokens === null || tokens === 0) as unknown;
    const completionTokens = EMBEDDINGS.has(adapter) ? noTokens : 7;
    expect(records).toMatchObject([
      {
        model: 'm',
        key,
        lane: 'user',
        attempt: 1,
        status: 'success',
        errorCode: null,
        promptTokens,
        completionTokens,
        isEstimated,
      },
    ]);
    await end();
  });

  it('go by lanes', async () => {
    const { clock, askOf, before, end } = worldOf(adapter);
    const [later, first] = [askOf({ lane: 'background' }), askOf({ lane: 'user' })];
    const all = Array.from({ length: 10 }, (_, index) => later(`later ${String(index)}`));
    await clock.pass(0);
    all.push(first('urgent'));
    await clock.until(Promise.all(all));
    expect(before('urgent')).toBe(2);
    await end();
  });

  it('keep to the limits of their model', async () => {
    const { clock, askOf, provider, end } = worldOf(adapter, { models: [{ model: 'm', concurrency: 1 }] });
    const ask = askOf();
    await clock.until(Promise.all(['one', 'two', 'three'].map((text) => Promise.resolve(ask(text)))));
    const times = provider.calls.map(({ startedAt }) => startedAt);
    expect(times.map((at) => at - (times[0] ?? 0))).toEqual([0, LATENCY_MS, 2 * LATENCY_MS]);
    await end();
  });

  it('are charged to the budget of the account, and refused unsent without room', async () => {
    const price = { inputUsdPerMillion: 1, outputUsdPerMillion: 1 };
    const prices = { m: price, default: price };
    const budget = createBudget({ prices, limits: [{ usd: 0.001 }] });
    const { clock, askOf, end } = worldOf(adapter, { budget });
    await clock.until(Promise.resolve(askOf()('How many are there?')));
    expect(budget.snapshot().limits[0]?.spent).toBeGreaterThan(0);
    expect(budget.snapshot().limits[0]?.spent).toBeLessThan(0.0001);
    await end();
    const none = worldOf(adapter, { budget: createBudget({ prices, limits: [{ usd: 0.000_001 }] }) });
    const [refused] = await none.clock.until(Promise.allSettled([none.askOf()('How many are there, all in all?')]));
    expect(refused.status).toBe('rejected');
    expect(none.provider.calls).toHaveLength(0);
    expect(none.limiter.snapshot().executing).toBe(0);
    await none.end();
  });
});
