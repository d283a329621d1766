import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fakeProvider } from '../../marbles/fake-provider.js';
import type { AzureOptions } from '../../marbles/providers/azure.js';
import { azure } from '../../marbles/providers/azure.js';
import type { OpenAIOptions } from '../../marbles/providers/openai.js';
import { openai } from '../../marbles/providers/openai.js';
import type { ProviderOptions } from '../../marbles/providers/types.js';
import { FlowConfigError } from '../../operators/index.js';
import type { Asking } from './provider-kit.js';
import { asking, errorIn, eventsIn, words } from './provider-kit.js';

const chat = (tokens: number, rest: object = {}) => ({ model: 'gpt', messages: [{ role: 'user', content: words(tokens) }], ...rest });
const MAIN = { path: '/v1/chat/completions', body: chat(100) };
const AZURE = { path: '/openai/deployments/my-gpt/chat/completions?api-version=2024-10-21', body: chat(100) };

const withOpenAI = <R>(options: OpenAIOptions, test: (asking: Asking) => R, rest: Partial<ProviderOptions> = {}): R =>
  asking({ provider: openai(options), answer: () => ({ outputTokens: 40 }), ...rest }, MAIN, test);

const withAzure = <R>(options: AzureOptions, test: (asking: Asking) => R, rest: Partial<ProviderOptions> = {}): R =>
  asking({ provider: azure(options), answer: () => ({ outputTokens: 40 }), ...rest }, AZURE, test);

describe('openai', () => {
  it.each([
    ['max', {}, 100],
    ['max', { max_tokens: 500 }, 500],
    ['max', { max_completion_tokens: 20 }, 100],
    ['sum', {}, 100],
    ['sum', { max_tokens: 500 }, 600],
  ] as const)('charges %s of 100 tokens and %j', (charge, rest, charged) => {
    withOpenAI({ charge }, ({ provider, ask }) => {
      ask({ body: chat(100, rest) });
      expect(provider.books.chargedTo('req_1')).toEqual({ requests: 1, tokens: charged });
    });
  });

  it('counts cached input, and what a request without a bound is said to count', () => {
    withOpenAI(
      { charge: 'sum', unsetMaxTokens: 16 },
      ({ provider, ask }) => {
        expect(ask().body).toMatchObject({
          choices: [{ finish_reason: 'stop', message: { role: 'assistant', refusal: null } }],
          usage: {
            prompt_tokens: 100,
            completion_tokens: 40,
            total_tokens: 140,
            prompt_tokens_details: { cached_tokens: 90 },
            completion_tokens_details: { reasoning_tokens: 30 },
          },
        });
        expect(provider.books.charged('tokens')).toBe(116);
      },
      { answer: () => ({ outputTokens: 40, cacheReadTokens: 90, reasoningTokens: 30 }) },
    );
  });

  it('estimates by characters, whatever the tokens are', () => {
    withOpenAI(
      {},
      ({ provider, ask }) => {
        expect(ask().body).toMatchObject({ usage: { prompt_tokens: 400 } });
        expect(provider.books.charged('tokens')).toBe(100);
      },
      { tokensOf: ({ length }) => length },
    );
  });

  it.each([
    [false, 500],
    [true, 140],
  ])('with settles %s leaves %i of 500 charged', (settles, charged) => {
    withOpenAI({ settles }, ({ provider, ask }) => {
      ask({ body: chat(100, { max_tokens: 500 }) });
      expect(provider.books.charged('tokens')).toBe(charged);
    });
  });

  it('tells what is left and when it is full again, as durations', () => {
    withOpenAI({ requestsPerMinute: 200, tokensPerMinute: 10_000 }, ({ ask }) => {
      expect(ask({ body: chat(27) }).headers).toMatchObject({
        'x-ratelimit-limit-requests': '200',
        'x-ratelimit-remaining-requests': '199',
        'x-ratelimit-reset-requests': '300ms',
        'x-ratelimit-limit-tokens': '10000',
        'x-ratelimit-remaining-tokens': '9973',
        'x-ratelimit-reset-tokens': '162ms',
      });
    });
  });

  // The numbers of refusals that users reported.
  it.each([
    [30_000, 29_937, 385, '644ms', '644', '1'],
    [10_000, 8554, 3082, '9.816s', '9816', '10'],
  ])('with a limit of %i and %i used refuses %i for %s', (tokensPerMinute, used, requested, wait, ms, seconds) => {
    withOpenAI({ tokensPerMinute }, ({ ask }) => {
      ask({ body: chat(used) });
      const refused = ask({ body: chat(requested) });
      expect(refused).toMatchObject({ status: 429, headers: { 'retry-after': seconds, 'retry-after-ms': ms } });
      expect(errorIn(refused)).toMatchObject({ type: 'tokens', param: null, code: 'rate_limit_exceeded' });
      expect(errorIn(refused)['message']).toContain(
        `on tokens per min (TPM): Limit ${String(tokensPerMinute)}, Used ${String(used)}, Requested ${String(requested)}. Please try again in ${wait}.`,
      );
    });
  });

  it('refuses a request above the limit without a hint', () => {
    withOpenAI({ tokensPerMinute: 30_000 }, ({ ask }) => {
      const refused = ask({ body: chat(31_538) });
      expect(errorIn(refused)['message']).toContain(
        'Request too large for gpt in organization org-fake on tokens per min (TPM): Limit 30000, Requested 31538.',
      );
      expect(refused.headers).not.toHaveProperty('retry-after');
    });
  });

  it.each([
    [true, 429],
    [false, 200],
  ])('with refusedCount %s a client that resends all the time gets %i', (refusedCount, last) => {
    withOpenAI({ requestsPerMinute: 60, burstSeconds: 1, refusedCount }, ({ provider, clock, ask }) => {
      expect(ask().status).toBe(200);
      for (let again = 0; again < 9; again++) {
        clock.advance(100);
        expect(ask().status).toBe(429);
      }
      clock.advance(100);
      expect(ask().status).toBe(last);
      expect(provider.books.entries.some(({ why }) => why === 'refused')).toBe(refusedCount);
    });
  });

  it('streams chat with usage when it is asked for, and responses with theirs', () => {
    withOpenAI({}, ({ ask }) => {
      const plain = eventsIn(ask({ body: chat(1, { stream: true }) }));
      expect(plain).toHaveLength(6);
      expect(plain.some((chunk) => 'usage' in chunk)).toBe(false);
      const counted = eventsIn(ask({ body: chat(1, { stream: true, stream_options: { include_usage: true } }) }));
      expect(counted).toHaveLength(7);
      expect(counted.at(-1)).toMatchObject({ choices: [], usage: { completion_tokens: 40 } });
      expect(counted.at(0)).toMatchObject({ usage: null });
      const response = ask({ path: '/v1/responses', body: { model: 'gpt', input: 'Hello', stream: true, max_output_tokens: 8 } });
      const events = eventsIn(response);
      expect(events.map(({ sequence_number }) => sequence_number)).toEqual(events.map((_, index) => index));
      expect(events.at(-1)).toMatchObject({
        type: 'response.incomplete',
        response: { incomplete_details: { reason: 'max_output_tokens' }, usage: { input_tokens: 2, output_tokens: 8 } },
      });
    });
  });

  it('answers embeddings, which have input alone', () => {
    withOpenAI({ charge: 'sum', unsetMaxTokens: 16 }, ({ provider, ask }) => {
      expect(ask({ path: '/v1/embeddings', body: { model: 'e', input: [words(3), words(4)] } }).body).toEqual({
        object: 'list',
        data: [0, 1].map((index) => ({ object: 'embedding', index, embedding: [0.5, 0.25] })),
        model: 'e',
        usage: { prompt_tokens: 7, total_tokens: 7 },
      });
      expect(provider.books.charged('tokens')).toBe(7);
    });
  });

  it('counts neither batches, files nor the usage of a cancelled response', () => {
    withOpenAI({ requestsPerMinute: 1 }, ({ provider, ask }) => {
      expect(ask({ path: '/v1/batches', body: { input_file_id: 'file-1' } }).body).toMatchObject({ object: 'batch', status: 'validating' });
      expect(ask({ path: '/v1/batches/batch_1/cancel' }).body).toMatchObject({ id: 'batch_1', status: 'cancelling' });
      expect(ask({ path: '/v1/responses/resp_1/cancel' }).body).toMatchObject({ usage: { output_tokens: 90_000 } });
      expect(ask({ path: '/v1/models', method: 'GET' }).body).toMatchObject({ object: 'list' });
      expect(provider.books.arrivals).toBe(0);
    });
  });

  it('refuses flex alone when only flex is busy, and everything when the quota is used up', () => {
    withOpenAI(
      {},
      ({ provider, ask }) => {
        const flex = { body: chat(1, { service_tier: 'flex' }) };
        expect(ask(flex)).toMatchObject({ status: 429, body: { error: { code: 'resource_unavailable' } } });
        expect(ask().status).toBe(200);
        expect(provider.books).toMatchObject({ refused: 1, refusedByLimit: 0 });
        provider.setFaults({ quota: true });
        expect(ask()).toMatchObject({ status: 429, body: { error: { type: 'insufficient_quota', code: 'insufficient_quota' } } });
      },
      { faults: { flexBusy: 1 } },
    );
  });

  it('shows by how much a client exceeds the limits when it does not enforce them', () => {
    withOpenAI(
      { requestsPerMinute: 4, tokensPerMinute: 1000 },
      ({ provider, ask }) => {
        for (let call = 0; call < 6; call++) expect(ask().status).toBe(200);
        expect(provider.books.fullest('requests')).toEqual({ unit: 'requests', at: 0, used: 6, limit: 4, share: 1.5 });
        expect(provider.books.fullest('tokens').share).toBe(0.6);
        expect(provider.books.level('requests')).toBe(-2);
      },
      { enforce: false },
    );
  });

  it('compares its books with charges and with the levels of a limiter', () => {
    withOpenAI({ requestsPerMinute: 10, tokensPerMinute: 1000 }, ({ provider, ask }) => {
      ask();
      ask();
      expect(provider.books.difference({ requests: 2, tokens: 180, slots: 1 })).toEqual({
        requests: { ours: 2, theirs: 2, difference: 0 },
        tokens: { ours: 180, theirs: 200, difference: -20 },
      });
      const rates = [
        { unit: 'requests', left: 7 },
        { unit: 'tokens', left: 900 },
        { unit: 'tokens', left: 5000 },
      ];
      expect(provider.books.difference({ rates })).toEqual({
        requests: { ours: 7, theirs: 8, difference: 1 },
        tokens: { ours: 900, theirs: 800, difference: -100 },
      });
    });
  });

  it.each([
    [{ charge: 'mean' }, "one of 'max', 'sum'"],
    [{ unsetMaxTokens: -1 }, 'a number > 0'],
    [{ settles: 1 }, 'true or false'],
  ])('rejects %j', (options, expected) => {
    expect(() => openai(options as OpenAIOptions)).toThrow(FlowConfigError);
    expect(() => openai(options as OpenAIOptions)).toThrow(expected);
  });
});

describe('options of fakeProvider with a provider', () => {
  it.each([
    [{ provider: 'openai' }, 'the value of `anthropic`, `openai`, `azure` or `gemini`'],
    [{ answer: 'yes' }, 'a function'],
    [{ tokensOf: 1 }, 'a function'],
    [{ latencyMs: -1 }, 'a number of milliseconds >= 0'],
    [{ msPerOutputToken: NaN }, 'a number of milliseconds >= 0'],
    [{ pieces: 0 }, 'a whole number >= 1'],
    [{ enforce: 1 }, 'true or false'],
    [{ faults: { cut: 2 } }, 'a number from 0 to 1'],
    [{ faults: { cut: 0.6, overloaded: 0.6 } }, 'the shares in `faults` add up to 1.2'],
    [{ faults: { burnt: 1 } }, 'faults.burnt'],
    [{ seed: 0.5 }, 'a whole number'],
    [{ speed: 0 }, 'a number > 0'],
    [{ startsAt: Infinity }, 'milliseconds since 1970'],
    [{ maxCalls: 0 }, 'a whole number >= 1'],
    [{ requestsPerMinute: 1 }, 'unknown option `requestsPerMinute`. Set limits on the provider'],
  ])('rejects %j', (options, expected) => {
    const create = (): unknown => fakeProvider({ provider: openai(), ...options } as ProviderOptions);
    expect(create).toThrow(FlowConfigError);
    expect(create).toThrow(expected);
  });

  it('draws the same faults from the same seed, in the shares that it was told', () => {
    const fates = (seed: number): string[] =>
      withOpenAI({}, ({ provider, ask }) => Array.from({ length: 200 }, () => (ask(), String(provider.calls.at(-1)?.status))), {
        faults: { serverErrors: 0.25, overloaded: 0.25 },
        seed,
      });
    expect(fates(3)).toEqual(fates(3));
    expect(fates(3)).not.toEqual(fates(4));
    for (const status of ['500', '503']) expect(Math.abs(fates(3).filter((each) => each === status).length - 50)).toBeLessThan(25);
  });
});

describe('azure', () => {
  it('charges the estimate and `max_tokens` times `best_of`, and leaves it charged', () => {
    withAzure({}, ({ provider, ask }) => {
      ask({ body: chat(100, { max_tokens: 50, best_of: 3 }) });
      expect(provider.books.chargedTo('req_1')).toEqual({ requests: 1, tokens: 250 });
    });
  });

  it('starts its count of tokens again each minute', () => {
    withAzure({ tokensPerMinute: 1000, requestsPerMinute: 6000 }, ({ clock, ask }) => {
      clock.advance(50_000);
      expect(ask({ body: chat(900) }).status).toBe(200);
      const refused = ask({ body: chat(200) });
      expect(refused).toMatchObject({
        status: 429,
        headers: {
          'retry-after': '10',
          'retry-after-ms': '10000',
          'x-ratelimit-limit-tokens': '1000',
          'x-ratelimit-remaining-tokens': '100',
        },
        body: { error: { code: '429' } },
      });
      expect(errorIn(refused)['message']).toMatch(
        /^Requests to the ChatCompletions_Create Operation under Azure OpenAI API version 2024-10-21 have exceeded token rate limit .* Please retry after 10 seconds\./,
      );
      clock.advance(9999);
      expect(ask({ body: chat(200) }).status).toBe(429);
      clock.advance(1);
      expect(ask({ body: chat(1000) }).status).toBe(200);
    });
  });

  it('tells a day to a request that the limit can never grant', () => {
    withAzure({ tokensPerMinute: 1000, requestsPerMinute: 6000 }, ({ ask }) => {
      expect(errorIn(ask({ body: chat(1001) }))['message']).toContain('Please retry after 86400 seconds.');
    });
  });

  it.each([
    [1000, 10],
    [10_000, 100],
  ])('counts requests in slices of %i ms', (sliceMs, most) => {
    withAzure({ requestsPerMinute: 600, sliceMs }, ({ provider, clock, ask }) => {
      const statuses = Array.from({ length: most + 1 }, () => ask({ body: chat(1) }).status);
      expect(statuses.filter((status) => status === 200)).toHaveLength(most);
      expect(provider.books.fullest('requests')).toMatchObject({ used: most, limit: most, share: 1 });
      clock.advance(sliceMs);
      expect(ask({ body: chat(1) }).status).toBe(200);
    });
  });

  it('derives requests from tokens, and limits each deployment in `models` by itself', () => {
    withAzure({ tokensPerMinute: 10_000, models: { small: { tokensPerMinute: 1000 } } }, ({ provider, clock, ask }) => {
      expect([provider.books.limit('requests'), provider.booksOf('small').limit('requests')]).toEqual([60, 6]);
      ask({ path: '/openai/deployments/small/embeddings', body: { input: words(7) } });
      // One request in ten seconds is what 6 a minute are in slices.
      clock.advance(10_000);
      ask({ path: '/openai/v1/chat/completions', body: { ...chat(9), model: 'small' } });
      expect(provider.booksOf('small').charged('tokens')).toBe(16);
      expect(provider.books.arrivals).toBe(0);
    });
  });

  it('charges no more than the limit in any of its minutes, and up to twice in a rolling one (generated)', () => {
    const arrivals = fc.array(fc.record({ pauseMs: fc.nat(9000), tokens: fc.integer({ min: 1, max: 400 }) }), { maxLength: 60 });
    fc.assert(
      fc.property(arrivals, (calls) => {
        withAzure({ tokensPerMinute: 1000, requestsPerMinute: 6000 }, ({ provider, clock, ask }) => {
          for (const { pauseMs, tokens } of calls) {
            clock.advance(pauseMs);
            ask({ body: chat(tokens) });
          }
          const minutes = new Map<number, number>();
          for (const { at, unit, amount } of provider.books.entries) {
            if (unit === 'tokens') minutes.set(Math.floor(at / 60_000), (minutes.get(Math.floor(at / 60_000)) ?? 0) + amount);
          }
          for (const sum of minutes.values()) expect(sum).toBeLessThanOrEqual(1000);
          expect(provider.books.fullest('tokens').share).toBeLessThanOrEqual(1);
          expect(provider.books.fullest('tokens').used).toBe(Math.max(0, ...minutes.values()));
          expect(provider.books.fullest('tokens', 60_000).share).toBeLessThanOrEqual(2);
        });
      }),
      { numRuns: 50 },
    );
  });

  it.each([
    [{ sliceMs: 0 }, 'a number > 0'],
    [{ inputTokensPerMinute: 1 }, 'unknown option `inputTokensPerMinute`. '],
  ])('rejects %j', (options, expected) => {
    expect(() => azure(options as AzureOptions)).toThrow(expected);
  });
});
