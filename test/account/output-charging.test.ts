import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fakeProvider } from '../../marbles/fake-provider.js';
import { anthropic } from '../../marbles/providers/anthropic.js';
import type { FlowEvent } from '../../operators/index.js';
import type { SentCall } from '../../src/account/output-charging.js';
import { chargedOnArrival, OutputCharging, remainingOutput } from '../../src/account/output-charging.js';
import { limitFetch } from '../../src/adapters/fetch.js';
import { createAccount } from '../../src/index.js';
import { draws } from '../support/deep.js';
import { PatientClock } from '../support/patient-clock.js';
import { fetchOf } from '../support/provider-fetch.js';

const MOST = 8192;
const call = (sentAt: number, told: Partial<SentCall> = {}): SentCall => ({ sentAt, maxOutputTokens: MOST, endedAt: Infinity, ...told });
const thousands = (tokens: number): number => Math.max(0, Math.round(tokens / 1000) * 1000);

describe('how a provider charges output', () => {
  it('is read from the header of Anthropic alone', () => {
    const name = 'anthropic-ratelimit-output-tokens-remaining';
    expect(remainingOutput({ status: 200, headers: { [name]: '7000' } })).toBe(7000);
    expect(remainingOutput({ status: 200, headers: new Headers({ [name]: ' 0 ' }) })).toBe(0);
    for (const text of ['', '-1', '1e3', 'many']) expect(remainingOutput({ status: 200, headers: { [name]: text } })).toBeUndefined();
    expect(remainingOutput({ status: 200, headers: { 'x-ratelimit-remaining-tokens': '7' } })).toBeUndefined();
  });

  it.each<[string, boolean | undefined, SentCall[]]>([
    ['nothing of a first response', undefined, [call(0, { remaining: 80_000 })]],
    ['on arrival, of a fall by max_tokens', true, [call(0, { remaining: 80_000 }), call(10, { remaining: 72_000 })]],
    ['as generated, of no fall', false, [call(0, { remaining: 80_000 }), call(10, { remaining: 80_000 })]],
    [
      'nothing of a fall by what was generated meanwhile',
      undefined,
      [call(0, { remaining: 80_000, outputTokens: 8000, endedAt: 60_000 }), call(60_001, { remaining: 72_000 })],
    ],
    [
      'on arrival, of a fall by more than can have been generated',
      true,
      [call(0, { remaining: 80_000 }), call(0), call(0), call(100, { remaining: 72_000 })],
    ],
    ['nothing of a small max_tokens', undefined, [call(0, { remaining: 8000 }), call(1, { remaining: 7000, maxOutputTokens: 1500 })]],
  ])('says %s', (_, verdict, calls) => {
    expect(chargedOnArrival(calls, calls.at(-1) as SentCall)).toBe(verdict);
  });

  const load = fc.array(
    fc.record({ gapMs: fc.nat(8000), tokens: fc.integer({ min: 1, max: MOST }), perMs: fc.double({ min: 0.02, max: 0.2, noNaN: true }) }),
    { minLength: 3, maxLength: 40 },
  );

  it('is never taken for on arrival where output is charged as it is generated, whatever runs side by side', () => {
    fc.assert(
      fc.property(load, fc.integer({ min: 20_000, max: 400_000 }), (loads, limit) => {
        const charging = new OutputCharging();
        let at = 0;
        const sent = loads.map(({ gapMs, tokens, perMs }) => {
          at += gapMs;
          return { tokens, perMs, call: call(at) };
        });
        for (const { call: one } of sent) charging.sent('m', one);
        for (const [index, { call: one }] of sent.entries()) {
          const generated = sent
            .slice(0, index)
            .reduce((sum, other) => sum + Math.min(other.tokens, (one.sentAt - other.call.sentAt) * other.perMs), 0);
          // Nothing is given back here, which makes falls as large as they can be.
          charging.told('m', one, thousands(limit - generated));
        }
        expect(charging.isOnArrival('m')).toBe(false);
      }),
      { numRuns: draws(300, 10_000) },
    );
  });

  it('is found by the second fall, and told once', async () => {
    const clock = new PatientClock();
    const events: FlowEvent[] = [];
    const provider = fakeProvider({
      provider: anthropic({ outputTokensPerMinute: 80_000, outputCharged: 'onArrival' }),
      answer: () => ({ outputTokens: 500 }),
      latencyMs: 400,
      msPerOutputToken: 10,
      scheduler: clock,
    });
    const limiter = createAccount({ concurrency: 4, scheduler: clock, onEvent: (event) => events.push(event) });
    const limited = limitFetch({ limiter, scheduler: clock, random: () => 0.5, fetch: fetchOf(provider) });
    const ask = async (): Promise<void> => {
      const body = JSON.stringify({ model: 'claude', max_tokens: MOST, messages: [{ role: 'user', content: 'Tell me.' }] });
      const response = await limited('https://api.anthropic.com/v1/messages', { method: 'POST', body });
      if (!response.ok) throw new Error(await response.text());
      await response.text();
    };
    await clock.until(Promise.all(Array.from({ length: 12 }, ask)), 600_000);
    expect(events.filter(({ type }) => type === 'chargedOnArrival')).toMatchObject([{ model: 'claude' }]);
    // All of it is charged while the call is under way, and what was not used comes back.
    const full = limiter.snapshot().rates.find(({ unit }) => unit === 'outputTokens')?.left ?? NaN;
    const last = ask();
    await clock.pass(1);
    const left = limiter.snapshot().rates.find(({ unit }) => unit === 'outputTokens')?.left ?? NaN;
    expect(full - left).toBeGreaterThan(MOST - 100);
    await clock.until(last);
    expect(provider.refused).toBe(0);
    limiter.close();
    await clock.drain();
  });
});
