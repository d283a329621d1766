import { describe, expect, it } from 'vitest';
import { fakeProvider } from '../../marbles/fake-provider.js';
import { openai } from '../../marbles/providers/openai.js';
import type { FlowEvent } from '../../operators/index.js';
import { childOf } from '../../operators/index.js';
import { limitFetch } from '../../src/adapters/fetch.js';
import type { AccountOptions } from '../../src/index.js';
import { chatCompletions, createAccount, createBudget, createModelCaller } from '../../src/index.js';
import { createMetrics } from '../../src/metrics/index.js';
import { PatientClock } from '../support/patient-clock.js';
import { fetchOf } from '../support/provider-fetch.js';

const BASE = 'https://api.openai.com/v1';
const PRICES = { m: { inputUsdPerMillion: 1, outputUsdPerMillion: 10 } };
const CALLS = 40;

function worldOf(options: AccountOptions = {}) {
  const clock = new PatientClock();
  const provider = fakeProvider({
    provider: openai({}),
    answer: () => ({ text: 'yes', outputTokens: 7 }),
    latencyMs: 100,
    scheduler: clock,
  });
  const fetch = fetchOf(provider);
  const account = createAccount({ concurrency: 2, name: 'provider', scheduler: clock, ...options });
  const metrics = createMetrics({ scheduler: clock });
  const request = { model: 'm', max_tokens: 50, messages: [{ role: 'user', content: 'Is it?' }] };
  const askVia = (limiter = account) => {
    const limited = limitFetch({ limiter, fetch, scheduler: clock, random: () => 0.5 });
    const body = JSON.stringify(request);
    return async () => (await limited(`${BASE}/chat/completions`, { method: 'POST', body })).json() as Promise<unknown>;
  };
  const callVia = (options: Pick<AccountOptions, 'onRecord'> = {}, limiter = account) => {
    const models = createModelCaller({
      call: chatCompletions({ baseUrl: BASE, model: 'm', fetch }),
      limiter,
      scheduler: clock,
      timeoutMs: Infinity,
      ...options,
    });
    return () => models.callAsync(request);
  };
  const all = async (ask: () => Promise<unknown>, calls = CALLS): Promise<void> => {
    await clock.until(Promise.all(Array.from({ length: calls }, ask)));
  };
  const end = async (): Promise<void> => {
    account.close();
    await clock.drain();
  };
  return { clock, account, metrics, askVia, callVia, all, end };
}

describe('metrics that watch an account', () => {
  it('have every attempt under it, with tokens and cost', async () => {
    const budget = createBudget({ prices: PRICES });
    const { clock, account, metrics, askVia, all, end } = worldOf({ budget });
    metrics.watch(account);
    const ask = askVia();
    const begun = Array.from({ length: CALLS }, ask);
    await clock.pass(0);
    expect(metrics.snapshot()).toMatchObject({ executing: 2, queued: CALLS - 2, heldBySlot: CALLS - 2 });
    expect(metrics.snapshot().observed['provider']).toMatchObject({ executing: 2, concurrency: 2 });
    await clock.until(Promise.all(begun));
    const { calls, models, executing } = metrics.snapshot();
    expect(calls).toMatchObject({ attempts: CALLS, failures: 0, completionTokens: 7 * CALLS });
    expect(calls.promptTokens).toBeGreaterThan(0);
    expect(calls.costUsd).toBe(budget.snapshot().spentUsd);
    expect(calls.costUsd).toBeGreaterThan(0);
    expect(models['m']).toEqual(calls);
    expect(executing).toBe(0);
    await all(ask, 1);
    expect(metrics.snapshot().calls.attempts).toBe(CALLS + 1);
    await end();
  });

  it('have those of a child limiter, and of a pipeline', async () => {
    const { account, metrics, askVia, callVia, all, end } = worldOf();
    metrics.watch(account);
    await all(askVia(childOf(account, { concurrency: 1 })), 3);
    await all(callVia(), 2);
    expect(metrics.snapshot().calls).toMatchObject({ attempts: 5, completionTokens: 35, costUsd: 0 });
    await end();
  });

  it('have none of what comes after it was stopped', async () => {
    const { account, metrics, askVia, all, end } = worldOf();
    const stop = metrics.watch(account);
    await all(askVia(), 1);
    stop();
    stop();
    await all(askVia(), 1);
    account.penalize(5);
    const { calls, observed } = metrics.snapshot();
    expect([calls.attempts, observed]).toEqual([1, {}]);
    // The name is free again, and the first watch is over for good.
    metrics.watch(account);
    stop();
    expect(Object.keys(metrics.snapshot().observed)).toEqual(['provider']);
    await end();
  });

  it.each(['the account', 'the caller'])('count once what they are told twice, also as listeners of %s', async (whose) => {
    const { metrics } = worldOf();
    const options = { onRecord: metrics.record, onEvent: metrics.sink };
    const { account, callVia, all, end } = worldOf(whose === 'the account' ? options : {});
    metrics.watch(account);
    const child = childOf(account);
    metrics.watch(child, 'child');
    const events: FlowEvent[] = [];
    metrics.events.subscribe((event) => events.push(event));
    await all(callVia(whose === 'the account' ? {} : { onRecord: metrics.record }, child), 3);
    account.penalize(5);
    expect(metrics.snapshot().calls.attempts).toBe(3);
    expect(events).toHaveLength(1);
    await end();
  });

  it('hear the events of the account and of its models, under their names', async () => {
    const { account, metrics, end } = worldOf({ models: [{ model: 'large', concurrency: 1 }], maxQueued: 0 });
    const events: FlowEvent[] = [];
    metrics.events.subscribe((event) => events.push(event));
    const stop = metrics.watch(account);
    account.penalize(5);
    account.observe({ status: 429, headers: { 'retry-after-ms': '7' } }, { model: 'large' });
    stop();
    account.penalize(20);
    expect(events.map(({ type, instance }) => [type, instance])).toEqual([
      ['throttled', 'provider'],
      ['throttled', 'provider/large'],
    ]);
    await end();
  });

  it('leave the events of an account without a name under one number', async () => {
    const { metrics, end } = worldOf();
    const account = createAccount();
    const events: FlowEvent[] = [];
    metrics.events.subscribe((event) => events.push(event));
    for (let i = 0; i < 2; i++) {
      const stop = metrics.watch(account);
      account.setLimits({ concurrency: 5 });
      stop();
    }
    expect(metrics.snapshot().observed).toEqual({});
    expect(events.map(({ instance }) => instance)).toEqual([expect.stringMatching(/^\d+$/), events[0]?.instance]);
    metrics.watch(account);
    expect(Object.keys(metrics.snapshot().observed)).toEqual(['account']);
    account.close();
    await end();
  });

  it('do without the events of a limiter of another make', () => {
    const metrics = createMetrics();
    const own = createAccount({ concurrency: 3 });
    const made = Object.create(null, {
      ...{ enlist: { value: own.enlist.bind(own) }, acquire: { value: own.acquire.bind(own) } },
      snapshot: { value: () => ({ executing: 1, concurrency: 3 }) },
    }) as typeof own;
    const stop = metrics.watch(made, 'mine');
    expect(metrics.snapshot()).toMatchObject({ executing: 1, observed: { mine: { concurrency: 3 } } });
    stop();
    own.close();
  });
});

it('an account tells its events under its name', () => {
  const events: FlowEvent[] = [];
  const account = createAccount({ name: 'provider', onEvent: (event) => events.push(event) });
  account.setLimits({ concurrency: 3 });
  expect(events).toEqual([
    { type: 'limitChanged', concurrency: 3, operator: 'createLimiter', instance: 'provider', at: expect.any(Number) as number },
  ]);
  account.close();
});
