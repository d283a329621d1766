import { describe, expect, it } from 'vitest';
import { fakeProvider } from '../../marbles/fake-provider.js';
import { createAccount } from '../../src/index.js';
import { isDeep, sized } from '../support/deep.js';
import { PatientClock } from '../support/patient-clock.js';
import type { AloneName } from '../support/provider-callers.js';
import { ADAPTERS, aloneOf, clientOf, MORE_CALLERS, presetOf, TOOLS } from '../support/provider-callers.js';
import { fetchOf } from '../support/provider-fetch.js';
import { withTimersOf } from '../support/timers-of.js';

const CALLERS = { ...ADAPTERS, ...MORE_CALLERS };
const LATENCY_MS = 100;
/** Until when the server refuses everything. */
const REFUSALS_MS = [1000, 5000, 30_000];
/** How long a call waits after refusals when it has no deadline. */
const MOST_THROTTLED_MS = 600_000;

interface Fault {
  readonly refuseForMs: number;
  readonly hints: boolean;
}

const providerOf = (caller: string, clock: PatientClock, faults: Fault) =>
  fakeProvider({
    provider: presetOf(caller),
    answer: () => ({ text: 'yes', outputTokens: 7 }),
    latencyMs: LATENCY_MS,
    faults,
    scheduler: clock,
  });

type Provider = ReturnType<typeof providerOf>;

const textsOf = (calls: number): string[] => Array.from({ length: calls }, (_, index) => `question ${String(index)}`);

/** When the last answer was whole, and how many requests there were. */
function booksOf({ calls }: Provider) {
  const answered = calls.filter(({ fate }) => fate === 'answered').map(({ endedAt }) => endedAt);
  return { answered: answered.length, lastMs: Math.max(...answered), requests: calls.length };
}

const reasonsOf = (ends: readonly PromiseSettledResult<unknown>[]): unknown[] =>
  ends.flatMap((each) => (each.status === 'rejected' ? [each.reason as unknown] : []));

/** All calls at once, and an urgent one while the server refuses. */
async function burst(caller: string, calls: number, faults: Fault) {
  const clock = new PatientClock();
  const provider = providerOf(caller, clock, faults);
  const limiter = createAccount({ concurrency: calls, scheduler: clock });
  const askOf = (lane: string) =>
    (CALLERS[caller] as (typeof CALLERS)[string])({ limiter, clock, fetch: fetchOf(provider), job: { lane } });
  const [later, urgent] = [askOf('background'), askOf('user')];
  const ends = Promise.allSettled([
    ...textsOf(calls).map((text) => later(text)),
    clock.pass(faults.refuseForMs / 2).then(() => (caller === TOOLS ? undefined : urgent('urgent'))),
  ]);
  await clock.pass(faults.refuseForMs / 2);
  const lost = reasonsOf(await clock.until(ends, MOST_THROTTLED_MS));
  const meanwhile = provider.calls.filter(({ startedAt }) => startedAt > 0 && startedAt < faults.refuseForMs).length;
  const next = JSON.stringify(provider.calls.find(({ startedAt }) => startedAt >= faults.refuseForMs)?.input.body);
  limiter.close();
  await clock.drain();
  return { ...booksOf(provider), lost, meanwhile, next };
}

const measured = new Map<string, ReturnType<typeof measure>>();

/** What the client does by itself, with as many retries as it makes by default. It sleeps with the timers of the host: these are those of the clock. */
function alone(client: AloneName, calls: number, refuseForMs: number, hints = true): ReturnType<typeof measure> {
  const name = [client, calls, refuseForMs, hints].join();
  const books = measured.get(name) ?? measure(client, calls, { refuseForMs, hints });
  measured.set(name, books);
  return books;
}

function measure(client: AloneName, calls: number, faults: Fault) {
  const clock = new PatientClock();
  const provider = providerOf(client, clock, faults);
  return withTimersOf(clock, async () => {
    const ask = aloneOf(client, fetchOf(provider), {});
    const lost = reasonsOf(await clock.until(Promise.allSettled(textsOf(calls).map((text) => ask(text)))));
    return { ...booksOf(provider), lost };
  });
}

/** Calls at a time, and for how long the server refuses. */
const WHOLE = [16, 64, 256].flatMap((calls) => REFUSALS_MS.map((refuseForMs) => ({ calls, refuseForMs })));
const SHORT = [
  { calls: 16, refuseForMs: 1000 },
  { calls: 64, refuseForMs: 5000 },
];
const LARGEST = { calls: 256, refuseForMs: 30_000 };
const burstsOf = (caller: string) => (isDeep ? WHOLE : caller === 'limitFetch' ? [...SHORT, LARGEST] : SHORT);

describe.each(Object.keys(CALLERS))('an account that refuses at first, and calls by %s', (caller) => {
  it.each(burstsOf(caller))(
    'are all answered as soon as its client answers them: $calls at once, refused for $refuseForMs ms with a hint',
    async ({ calls, refuseForMs }) => {
      const own = await alone(clientOf(caller), calls, refuseForMs);
      expect(own.answered).toBe(calls);
      const ours = await burst(caller, calls, { refuseForMs, hints: true });
      expect(ours.lost).toEqual([]);
      expect(ours.lastMs).toBeLessThanOrEqual(1.25 * own.lastMs);
      expect(ours.requests).toBeLessThanOrEqual(1.2 * own.requests);
      expect(ours.meanwhile).toBe(0);
      if (caller !== TOOLS) expect(ours.next).toContain('urgent');
    },
  );

  it.each(isDeep ? REFUSALS_MS : [5000])('are all answered when no refusal gives a time, for %s ms', async (refuseForMs) => {
    const { lost, lastMs } = await burst(caller, sized(16, 64), { refuseForMs, hints: false });
    expect(lost).toEqual([]);
    // The pauses double: the last one is no longer than all before it, and ends after the refusals do.
    expect(lastMs).toBeLessThanOrEqual(2 * refuseForMs + 2000);
  });
});

it.each(['openai, chats', '@anthropic-ai/sdk'] as const)(
  'the client %s alone loses its calls when no refusal gives a time',
  async (client) => {
    const { answered, requests } = await alone(client, 16, 5000, false);
    expect([answered, requests]).toEqual([0, 3 * 16]);
  },
);
