import { describe, expect, it } from 'vitest';
import { fakeProvider } from '../../marbles/fake-provider.js';
import { anthropic } from '../../marbles/providers/anthropic.js';
import { limitFetch } from '../../src/adapters/fetch.js';
import type { ProviderRules } from '../../src/index.js';
import { createAccount, providers } from '../../src/index.js';
import { PatientClock } from '../support/patient-clock.js';
import { fetchOf } from '../support/provider-fetch.js';

const OUTPUT = 500;
const PER_MINUTE = 80_000;
const CALLS = 80;

/** How long the answers after the tenth take, and how many requests are refused on the way. */
async function load(maxTokens: number, rules: ProviderRules) {
  const clock = new PatientClock();
  const provider = fakeProvider({
    provider: anthropic({ outputTokensPerMinute: PER_MINUTE, outputCharged: rules.outputCharged }),
    answer: () => ({ outputTokens: OUTPUT }),
    latencyMs: 400,
    msPerOutputToken: 4,
    scheduler: clock,
  });
  const limiter = createAccount({ concurrency: 8, outputTokensPerMinute: PER_MINUTE, provider: rules, scheduler: clock });
  const limited = limitFetch({ limiter, scheduler: clock, random: () => 0.5, fetch: fetchOf(provider) });
  const answeredAt: number[] = [];
  const ask = async (): Promise<void> => {
    const body = JSON.stringify({ model: 'claude', max_tokens: maxTokens, messages: [{ role: 'user', content: 'Tell me.' }] });
    const response = await limited('https://api.anthropic.com/v1/messages', { method: 'POST', body });
    await response.text();
    answeredAt.push(clock.now());
  };
  await clock.until(Promise.all(Array.from({ length: CALLS }, ask)), 3_600_000);
  limiter.close();
  await clock.drain();
  return { lastMs: (answeredAt.at(-1) as number) - (answeredAt[9] as number), refused: provider.refused };
}

describe('calls that use 500 of what max_tokens allows, by 8 permits on 80,000 a minute', () => {
  it.each([8192, 32_000])(
    'take as long with %i as with 600, where output counts as it is generated',
    { timeout: 120_000 },
    async (maxTokens) => {
      const [long, short] = [await load(maxTokens, providers.anthropic), await load(600, providers.anthropic)];
      expect(long.refused + short.refused).toBe(0);
      expect(long.lastMs).toBeLessThanOrEqual(short.lastMs / 0.9);
    },
  );

  it.each([8192, 32_000])('are not refused with %i where output counts on arrival', { timeout: 120_000 }, async (maxTokens) => {
    const rules = { ...providers.anthropic, outputCharged: 'onArrival' } as const;
    expect((await load(maxTokens, rules)).refused).toBe(0);
  });
});
