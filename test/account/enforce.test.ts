import { describe, expect, it } from 'vitest';
import type { FlowEvent } from '../../operators/index.js';
import { isFlowError } from '../../operators/index.js';
import { limitFetch } from '../../src/adapters/fetch.js';
import type { AccountOptions } from '../../src/index.js';
import { createAccount, createBudget } from '../../src/index.js';
import { createMetrics } from '../../src/metrics/index.js';
import { PatientClock } from '../support/patient-clock.js';

const PRICES = { m: { inputUsdPerMillion: 1, outputUsdPerMillion: 10 } };
const USAGE = { prompt_tokens: 10, completion_tokens: 5 };

/** An account that enforces nothing, with a client whose calls take 100 ms. */
function worldOf(options: AccountOptions, answer: (call: number) => Response = () => Response.json({ usage: USAGE })) {
  const clock = new PatientClock();
  const metrics = createMetrics({ scheduler: clock });
  const sentAt: number[] = [];
  const account = createAccount({ enforce: false, headroom: 1, scheduler: clock, random: () => 0.5, ...options });
  metrics.watch(account);
  const events: FlowEvent[] = [];
  metrics.events.subscribe((event) => events.push(event));
  const fetch = async (): Promise<Response> => {
    const call = sentAt.push(clock.now());
    await new Promise<void>((resolve) => {
      clock.schedule(() => {
        resolve();
      }, 100);
    });
    return answer(call);
  };
  const limited = limitFetch({ limiter: account, fetch, scheduler: clock, random: () => 0.5 });
  const body = JSON.stringify({ model: 'm', max_tokens: 50, messages: [{ role: 'user', content: 'Is it?' }] });
  const ask = async (): Promise<unknown> => (await limited('https://host/v1/chat/completions', { method: 'POST', body })).json();
  return { clock, metrics, account, events, sentAt, ask };
}

describe('calls under an account that enforces nothing', () => {
  it('go at once, are charged what they used, and are told', async () => {
    const limits = { concurrency: 2, requestsPerMinute: 10, burst: 10, tokensPerMinute: 6000, requestsPerDay: 5, maxQueued: 1 };
    const { clock, metrics, account, events, sentAt, ask } = worldOf(limits);
    await clock.until(Promise.all(Array.from({ length: 100 }, ask)));
    expect(new Set(sentAt)).toEqual(new Set([0]));
    expect(sentAt).toHaveLength(100);
    const { flow, calls } = metrics.snapshot();
    expect([flow.wouldWait, calls.attempts, calls.promptTokens]).toEqual([98, 100, 1000]);
    expect(events.every(({ type }) => type === 'wouldWait' || type === 'costClamped')).toBe(true);
    const { executing, rates } = account.snapshot();
    expect(executing).toBe(0);
    const left = Object.fromEntries(rates.map(({ unit, windowMs, left: amount }) => [`${unit} ${String(windowMs)}`, Math.round(amount)]));
    // Two seconds of tokens were saved up, and a tenth of a second's worth has come in.
    expect(left).toEqual({ 'requests 60000': -90, 'tokens 60000': 200 - 1500 + 10, 'requests 86400000': -95 });
  });

  it('are refused by its budget all the same', async () => {
    const budget = createBudget({ prices: PRICES, limits: [{ usd: 0.000_001 }] });
    const { clock, ask, sentAt } = worldOf({ budget });
    const error: unknown = await clock.until(ask().catch((reason: unknown) => reason));
    expect(isFlowError(error, 'FLOW_BUDGET_EXCEEDED')).toBe(true);
    expect(sentAt).toEqual([]);
    const watched = worldOf({ budget: createBudget({ prices: PRICES, limits: [{ usd: 0.000_001 }], enforce: false }) });
    await watched.clock.until(watched.ask());
    expect(watched.sentAt).toEqual([0]);
  });

  it('that were refused wait for their own `retry-after`, and hold no others', async () => {
    const refused = (call: number): Response =>
      call === 1 ? new Response('{}', { status: 429, headers: { 'retry-after': '5' } }) : Response.json({ usage: USAGE });
    const { clock, ask, sentAt, events } = worldOf({}, refused);
    const first = ask();
    await clock.pass(200);
    await clock.until(ask());
    await clock.until(first);
    expect(sentAt).toEqual([0, 200, expect.toSatisfy((at: number) => at >= 5100)]);
    expect(events.find(({ type }) => type === 'throttled')).toMatchObject({ pauseMs: 5000 });
    expect(events.filter(({ type }) => type === 'wouldWait')).toMatchObject([{ limitedBy: 'pause', queued: 1 }]);
  });
});
