import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fakeProvider } from '../../marbles/fake-provider.js';
import { anthropic } from '../../marbles/providers/anthropic.js';
import type { ProviderAnswer, ProviderFaults } from '../../marbles/providers/types.js';
import { limitFetch } from '../../src/adapters/fetch.js';
import { createAccount, createBudget } from '../../src/index.js';
import { draws } from '../support/deep.js';
import { PatientClock } from '../support/patient-clock.js';
import { fetchOf } from '../support/provider-fetch.js';

const PRICE = {
  inputUsdPerMillion: 3,
  cacheReadUsdPerMillion: 0.3,
  cacheWriteUsdPerMillion: 3.75,
  cacheWrite1hUsdPerMillion: 6,
  outputUsdPerMillion: 15,
};
const MOST = 400;
const CHARS = 2000;
/** All of the prompt is written for an hour; the estimate of a prompt is at most so much above it. */
const WORST_USD = ((CHARS / 4) * PRICE.cacheWrite1hUsdPerMillion * 1.3 + MOST * PRICE.outputUsdPerMillion) / 1e6;
const MESSAGES = 'https://api.anthropic.com/v1/messages';

type Cached = Required<Pick<ProviderAnswer, 'cacheReadTokens' | 'cacheWriteTokens' | 'cacheWrite1hTokens' | 'outputTokens'>>;

interface Load {
  readonly capUsd: number;
  readonly faults: ProviderFaults;
  readonly seed: number;
  /** Of the prompt, for each request. */
  readonly shares: readonly Readonly<Record<'read' | 'written' | 'writtenLong' | 'output', number>>[];
  /** Of each call in turn: after how many ms its reader leaves; undefined for one that stays. */
  readonly leavesMs: readonly (number | undefined)[];
}

/** Four callers, each of which asks until the budget refuses. Answers what was really spent, at real prices, by the provider's books. */
async function spendAll({ capUsd, faults, seed, shares, leavesMs }: Load) {
  const clock = new PatientClock();
  const answers = new Map<string, Cached>();
  const provider = fakeProvider({
    provider: anthropic({}),
    answer: ({ id, number, inputTokens }) => {
      const share = shares[number % shares.length] as (typeof shares)[number];
      const cacheReadTokens = Math.floor(inputTokens * share.read);
      const cacheWriteTokens = Math.floor((inputTokens - cacheReadTokens) * share.written);
      const cacheWrite1hTokens = Math.floor((inputTokens - cacheReadTokens - cacheWriteTokens) * share.writtenLong);
      const answer = { cacheReadTokens, cacheWriteTokens, cacheWrite1hTokens, outputTokens: Math.ceil(MOST * share.output) };
      answers.set(id, answer);
      return answer;
    },
    faults,
    seed,
    latencyMs: 100,
    msPerOutputToken: 2,
    scheduler: clock,
  });
  const budget = createBudget({ limits: [{ usd: capUsd }], prices: { claude: PRICE }, scheduler: clock });
  const limiter = createAccount({ concurrency: 4, budget, scheduler: clock });
  const limited = limitFetch({ limiter, scheduler: clock, random: () => 0.5, fetch: fetchOf(provider) });
  let asked = 0;
  const caller = async (): Promise<void> => {
    for (;;) {
      const index = asked++;
      // Calls that are left before they are sent cost nothing, and would go on for ever.
      if (index > 600) return;
      const leave = new AbortController();
      const after = leavesMs[index % leavesMs.length];
      if (after !== undefined) {
        clock.schedule(() => {
          leave.abort();
        }, after);
      }
      const body = {
        ...{ model: 'claude', max_tokens: MOST, stream: index % 2 === 0 },
        messages: [{ role: 'user', content: 'word '.repeat(CHARS / 5) }],
      };
      try {
        await (await limited(MESSAGES, { method: 'POST', body: JSON.stringify(body), signal: leave.signal })).text();
      } catch (error) {
        if ((error as { readonly code?: string }).code === 'FLOW_BUDGET_EXCEEDED') return;
      }
    }
  };
  await clock.until(Promise.all([caller(), caller(), caller(), caller()]));
  limiter.close();
  await clock.drain();
  let spentUsd = 0;
  for (const { id, fate, inputTokens, outputTokens } of provider.calls) {
    const answer = answers.get(id);
    if (answer === undefined || fate === 'failed' || fate === 'rejected' || fate === 'refused') continue;
    const { cacheReadTokens: read, cacheWriteTokens: written, cacheWrite1hTokens: writtenLong } = answer;
    spentUsd +=
      ((inputTokens - read - written - writtenLong) * PRICE.inputUsdPerMillion +
        read * PRICE.cacheReadUsdPerMillion +
        written * PRICE.cacheWriteUsdPerMillion +
        writtenLong * PRICE.cacheWrite1hUsdPerMillion +
        outputTokens * PRICE.outputUsdPerMillion) /
      1e6;
  }
  return { spentUsd, calls: provider.calls.length };
}

const share = fc.double({ min: 0, max: 1, noNaN: true });
/** So that the cap is met within 600 calls. */
const output = fc.double({ min: 0.2, max: 1, noNaN: true });
const load = fc.record({
  capUsd: fc.double({ min: 20 * WORST_USD, max: 40 * WORST_USD, noNaN: true }),
  seed: fc.integer({ min: 1, max: 1e6 }),
  shares: fc.array(fc.record({ read: share, written: share, writtenLong: share, output }), { minLength: 1, maxLength: 8 }),
  faults: fc.record({
    serverErrors: fc.constantFrom(0, 0.2),
    cut: fc.constantFrom(0, 0.2),
    overloadedInStream: fc.constantFrom(0, 0.2),
    noUsage: fc.constantFrom(0, 0.3),
  }),
  leavesMs: fc.array(fc.option(fc.nat(900), { nil: undefined }), { minLength: 1, maxLength: 8 }),
});

describe('a cap on what is spent, of twenty worst cases or more', () => {
  it('is never exceeded by what calls really cost, however they end', { timeout: 600_000 }, async () => {
    await fc.assert(
      fc.asyncProperty(load, async (drawn) => {
        const { spentUsd, calls } = await spendAll(drawn);
        expect(calls).toBeGreaterThan(0);
        expect(spentUsd).toBeLessThanOrEqual(drawn.capUsd);
      }),
      {
        numRuns: draws(40, 300),
        // Each run takes a tenth of a second: to look for a smaller load would take minutes.
        endOnFailure: true,
        // Streams that were left after their first usage, which tells one token of output.
        examples: [
          [
            {
              ...{ capUsd: 0.198, seed: 1, leavesMs: [151, undefined] },
              shares: [{ read: 0, written: 0, writtenLong: 0, output: 0.2 }],
              faults: { serverErrors: 0, cut: 0, overloadedInStream: 0, noUsage: 0 },
            },
          ],
        ],
      },
    );
  });

  it('can be used to nine tenths where answers say what they cost', { timeout: 600_000 }, async () => {
    await fc.assert(
      fc.asyncProperty(load, async (drawn) => {
        const { spentUsd } = await spendAll({ ...drawn, faults: {}, leavesMs: [undefined] });
        expect(spentUsd).toBeLessThanOrEqual(drawn.capUsd);
        expect(spentUsd).toBeGreaterThanOrEqual(0.9 * drawn.capUsd);
      }),
      { numRuns: draws(10, 100), endOnFailure: true },
    );
  });
});
