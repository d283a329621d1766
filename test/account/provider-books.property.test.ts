import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fakeProvider } from '../../marbles/fake-provider.js';
import { anthropic } from '../../marbles/providers/anthropic.js';
import { gemini } from '../../marbles/providers/gemini.js';
import { openai } from '../../marbles/providers/openai.js';
import type { ProviderPreset, ProviderSimulation } from '../../marbles/providers/types.js';
import { createLimiter, slidingWindow } from '../../operators/index.js';
import { limitFetch } from '../../src/adapters/fetch.js';
import { createAccount } from '../../src/index.js';
import { draws } from '../support/deep.js';
import { PatientClock } from '../support/patient-clock.js';
import { fetchOf } from '../support/provider-fetch.js';

const UNITS = ['requests', 'tokens', 'inputTokens', 'outputTokens'] as const;
type Unit = (typeof UNITS)[number];
const ENOUGH = 1e9;

interface Plan {
  readonly afterMs: number;
  readonly chars: number;
  readonly max: number;
  readonly output: number;
  readonly cached: number;
  readonly streamed: boolean;
  readonly status: number;
  /** When its reader leaves; undefined for one that stays. */
  readonly leavesMs: number | undefined;
}

const plan = fc.record({
  afterMs: fc.nat(3000),
  chars: fc.integer({ min: 1, max: 4000 }),
  max: fc.integer({ min: 1, max: 4000 }),
  // A stream of Anthropic begins with a usage of 1.
  output: fc.integer({ min: 1, max: 3000 }),
  cached: fc.double({ min: 0, max: 1, noNaN: true }),
  streamed: fc.boolean(),
  status: fc.constantFrom(200, 200, 200, 200, 400, 413, 422),
  leavesMs: fc.option(fc.nat(4000), { nil: undefined, freq: 3 }),
});

interface Kind {
  readonly preset: () => ProviderPreset;
  readonly urlOf: (plan: Plan) => string;
  readonly bodyOf: (plan: Plan, index: number) => object;
  /** What both count. */
  readonly units: readonly Unit[];
}

const text = (chars: number): string => 'word '.repeat(Math.ceil(chars / 5)).slice(0, chars);
const messages = ({ chars }: Plan) => [{ role: 'user', content: text(chars) }];

const KINDS: Readonly<Record<string, Kind>> = {
  'Anthropic, output as it is generated': {
    preset: () => anthropic({ requestsPerMinute: 30, inputTokensPerMinute: 9000, outputTokensPerMinute: 20_000 }),
    urlOf: () => 'https://api.anthropic.com/v1/messages',
    bodyOf: (each) => ({ model: 'm', max_tokens: each.max, stream: each.streamed, messages: messages(each) }),
    units: ['requests', 'inputTokens', 'outputTokens'],
  },
  'Anthropic, output on arrival': {
    preset: () =>
      anthropic({ requestsPerMinute: 30, inputTokensPerMinute: 9000, outputTokensPerMinute: 20_000, outputCharged: 'onArrival' }),
    urlOf: () => 'https://api.anthropic.com/v1/messages',
    bodyOf: (each) => ({ model: 'm', max_tokens: each.max, stream: each.streamed, messages: messages(each) }),
    units: ['requests', 'inputTokens', 'outputTokens'],
  },
  OpenAI: {
    preset: () => openai({ requestsPerMinute: 30, tokensPerMinute: 20_000, charge: 'sum' }),
    urlOf: () => 'https://api.openai.com/v1/chat/completions',
    bodyOf: (each) => ({
      ...{ model: 'm', max_tokens: each.max, messages: messages(each) },
      ...(each.streamed && { stream: true, stream_options: { include_usage: true } }),
    }),
    units: ['tokens'],
  },
  Gemini: {
    preset: () => gemini({ requestsPerMinute: 30, inputTokensPerMinute: 9000 }),
    urlOf: ({ streamed }) =>
      `https://generativelanguage.googleapis.com/v1beta/models/m:${streamed ? 'streamGenerateContent?alt=sse' : 'generateContent'}`,
    bodyOf: (each) => ({ contents: [{ parts: [{ text: text(each.chars) }] }], generationConfig: { maxOutputTokens: each.max } }),
    units: ['inputTokens'],
  },
};

/** Makes all calls, waits for the last one, and says what our limiter has charged. */
async function charged(kind: Kind, plans: readonly Plan[], seed: number, cut: number) {
  const clock = new PatientClock();
  const provider = fakeProvider({
    provider: kind.preset(),
    answer: ({ inputTokens, id }) => {
      const { output, cached, status } = plans[Number(id)] as Plan;
      const cacheReadTokens = Math.floor(inputTokens * cached);
      return { text: 'word '.repeat(output), outputTokens: output, cacheReadTokens, ...(status !== 200 && { status }) };
    },
    faults: { cut },
    latencyMs: 300,
    msPerOutputToken: 2,
    seed,
    scheduler: clock,
  });
  // Of a log that forgets nothing is left what was not charged.
  const rates = UNITS.map((unit) => slidingWindow({ unit, amount: ENOUGH, windowMs: ENOUGH }));
  const limiter = createLimiter({ concurrency: 4, rates, headroom: 1, scheduler: clock });
  const limited = limitFetch({ limiter, scheduler: clock, retry: false, fetch: fetchOf(provider) });
  const calls = plans.map(async (each, index) => {
    const { leavesMs } = each;
    await new Promise<void>((resolve) => {
      clock.schedule(() => {
        resolve();
      }, each.afterMs);
    });
    const leave = new AbortController();
    if (leavesMs !== undefined) {
      clock.schedule(() => {
        leave.abort();
      }, leavesMs);
    }
    const headers = { 'content-type': 'application/json', 'x-client-request-id': String(index) };
    const init = { method: 'POST', headers, body: JSON.stringify(kind.bodyOf(each, index)), signal: leave.signal };
    await (await limited(kind.urlOf(each), init)).text();
  });
  await clock.until(Promise.allSettled(calls));
  await clock.drain();
  const ours = Object.fromEntries(limiter.snapshot().rates.map(({ unit, amount, left }) => [unit, amount - left]));
  limiter.close();
  await clock.drain();
  return { provider, ours };
}

/** By how much the books may differ: by what cannot be known of answers that broke off or were left, and of prompts without a response. */
function unseen({ calls }: ProviderSimulation, plans: readonly Plan[]): Readonly<Record<Unit, number>> {
  let [inputTokens, outputTokens] = [0, 0];
  for (const { id, fate, inputTokens: input, outputTokens: output } of calls) {
    if (fate !== 'left' && fate !== 'cut') continue;
    const { max, status } = plans[Number(id)] as Plan;
    // Nothing says what was read from the cache, unless a stream had begun; an estimate counts the frame of a message as well.
    inputTokens += 1.2 * input + 25;
    // What was not streamed; of a call that broke off, or whose refusal was not waited for, all that was charged. A stream begins with a usage of 1.
    outputTokens += status !== 200 || fate === 'cut' ? max : Math.min(max, output) + 1;
  }
  return { requests: 0, inputTokens, outputTokens, tokens: inputTokens + outputTokens };
}

describe.each(Object.entries(KINDS))('what a limiter has charged by the books of %s', (_, kind) => {
  it('is the same for answers and refusals, and differs by what was not seen of the others', { timeout: 600_000 }, async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(plan, { minLength: 1, maxLength: 10 }),
        fc.integer({ min: 1, max: 1e6 }),
        fc.constantFrom(0, 0, 0.3),
        async (plans, seed, cut) => {
          const { provider, ours } = await charged(kind, plans, seed, cut);
          const allowed = unseen(provider, plans);
          for (const unit of kind.units) {
            const difference = (ours[unit] as number) - provider.books.charged(unit);
            expect(Math.abs(difference), unit).toBeLessThanOrEqual(allowed[unit] + 1e-6);
          }
        },
      ),
      { numRuns: draws(75, 2500) },
    );
  });
});

describe('one request', () => {
  it('stops an account for no longer than a window, whatever its max_tokens and its end', { timeout: 600_000 }, async () => {
    const hard = fc.record({
      max: fc.oneof(fc.integer({ min: 1, max: 10_000 }), fc.constantFrom(1e6, 1e9)),
      output: fc.nat(2000),
      status: fc.constantFrom(200, 400, 422),
      leavesMs: fc.option(fc.nat(3000), { nil: undefined }),
      tokensPerMinute: fc.constantFrom(5000, 80_000),
      onArrival: fc.boolean(),
    });
    await fc.assert(
      fc.asyncProperty(hard, async ({ max, output, status, leavesMs, tokensPerMinute, onArrival }) => {
        const clock = new PatientClock();
        const provider = fakeProvider({
          provider: onArrival ? openai({}) : anthropic({}),
          answer: ({ number }) => (number === 1 ? { outputTokens: output, ...(status !== 200 && { status }) } : { outputTokens: 1 }),
          latencyMs: 300,
          scheduler: clock,
        });
        const limiter = createAccount({ concurrency: 2, tokensPerMinute, scheduler: clock });
        const limited = limitFetch({ limiter, scheduler: clock, retry: false, fetch: fetchOf(provider) });
        const url = onArrival ? 'https://api.openai.com/v1/chat/completions' : 'https://api.anthropic.com/v1/messages';
        const ask = async (most: number, signal: AbortSignal | null = null): Promise<unknown> => {
          const body = JSON.stringify({ model: 'm', max_tokens: most, messages: [{ role: 'user', content: 'Hello' }] });
          return (await limited(url, { method: 'POST', body, signal })).text();
        };
        const leave = new AbortController();
        if (leavesMs !== undefined) {
          clock.schedule(() => {
            leave.abort();
          }, leavesMs);
        }
        const first = Promise.allSettled([ask(max, leave.signal)]);
        await clock.pass(1);
        const second = ask(1);
        await clock.until(Promise.allSettled([first, second]));
        expect(provider.calls[1]?.startedAt).toBeLessThanOrEqual(61_000 / 0.9);
        limiter.close();
        await clock.drain();
      }),
      { numRuns: draws(60, 2000) },
    );
  });
});
