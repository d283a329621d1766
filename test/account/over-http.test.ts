import Anthropic from '@anthropic-ai/sdk';
import { afterEach, describe, expect, it } from 'vitest';
import { anthropic } from '../../marbles/providers/anthropic.js';
import { limitAnthropic } from '../../src/adapters/anthropic.js';
import { limitFetch } from '../../src/adapters/fetch.js';
import type { CallRecord } from '../../src/index.js';
import { createAccount, providers } from '../../src/index.js';
import { FastClock } from '../support/fast-clock.js';
import type { ProviderServer } from '../support/provider-server.js';
import { startProvider } from '../support/provider-server.js';

/** Both clocks: a minute lasts 3 s. */
const SPEED = 20;
const MOST = 500;

const servers: ProviderServer[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.stop();
});

async function started(perMinute: number, outputTokens: number, scheduler: FastClock): Promise<ProviderServer> {
  const server = await startProvider({
    provider: anthropic({ inputTokensPerMinute: 2_000_000, outputTokensPerMinute: perMinute }),
    answer: () => ({ outputTokens }),
    latencyMs: 400,
    msPerOutputToken: 1,
    scheduler,
  });
  servers.push(server);
  return server;
}

const question = (content: string) => ({ model: 'claude', max_tokens: MOST, messages: [{ role: 'user' as const, content }] });
const clientOf = ({ url }: ProviderServer) => new Anthropic({ apiKey: 'k', baseURL: url, maxRetries: 0 });

describe('an account over HTTP', () => {
  it('with all defaults loses none of forty calls on 8,000 tokens of output a minute', async () => {
    const clock = new FastClock(SPEED);
    const server = await started(8000, MOST, clock);
    const limiter = createAccount({ concurrency: 8, scheduler: clock });
    const client = limitAnthropic(clientOf(server), { limiter, scheduler: clock });
    const startedAt = clock.now();
    const answers = await Promise.allSettled(
      Array.from({ length: 40 }, (_, i) => client.messages.create(question(`Number ${String(i)}?`))),
    );
    expect(answers.filter(({ status }) => status === 'rejected')).toEqual([]);
    expect(server.provider.refused).toBeLessThanOrEqual(1);
    // 90 s are the least; a busy machine makes each of its timers late by so many ms, twenty times over.
    expect(clock.now() - startedAt).toBeLessThanOrEqual(130_000);
    limiter.close();
  });

  it('lets an urgent call go at once behind a background that uses all of the rate', async () => {
    const clock = new FastClock(SPEED);
    const server = await started(60_000, MOST, clock);
    const records: CallRecord[] = [];
    const limiter = createAccount({
      ...{ concurrency: 100, outputTokensPerMinute: 60_000, headroom: 0.9, scheduler: clock },
      provider: providers.anthropic,
      onRecord: (record) => records.push(record),
    });
    const limited = limitFetch({ limiter, scheduler: clock, job: ({ headers }) => ({ lane: headers.get('x-lane') ?? 'background' }) });
    const ask = async (lane: string): Promise<void> => {
      const body = JSON.stringify(question('How many?'));
      await (
        await limited(`${server.url}/v1/messages`, {
          method: 'POST',
          body,
          headers: { 'content-type': 'application/json', 'x-lane': lane },
        })
      ).text();
    };
    const until = clock.now() + 60_000;
    const background = Array.from({ length: 60 }, async () => {
      while (clock.now() < until) await ask('background');
    });
    const urgent: Promise<void>[] = [];
    // Three of 500 in a minute: half of the reserve of 0.05.
    for (const atMs of [20_000, 35_000, 50_000]) {
      urgent.push(
        new Promise<void>((resolve, reject) => {
          clock.schedule(() => {
            ask('user').then(resolve, reject);
          }, atMs);
        }),
      );
    }
    await Promise.all([...background, ...urgent]);
    const waits = (lane: string): number[] => records.filter((record) => record.lane === lane).map(({ queuedMs }) => queuedMs / SPEED);
    expect(waits('user')).toHaveLength(3);
    // In ms of the host: what a timer or a turn of the event loop may take.
    expect(Math.max(...waits('user'))).toBeLessThanOrEqual(50);
    expect(Math.max(...waits('background'))).toBeGreaterThan(500);
    expect(records.filter(({ status }) => status !== 'success')).toEqual([]);
    limiter.close();
  });
});
