import fc from 'fast-check';
import { firstValueFrom } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { FakeProviderError, fakeProvider } from '../../marbles/fake-provider.js';
import type { AnthropicOptions } from '../../marbles/providers/anthropic.js';
import { anthropic } from '../../marbles/providers/anthropic.js';
import type { ProviderFaults, ProviderOptions, ProviderReply } from '../../marbles/providers/types.js';
import { virtualTime } from '../../marbles/virtual.js';
import type { ResponseLike } from '../../operators/index.js';
import { classifyError, FlowConfigError } from '../../operators/index.js';
import type { Asking } from './provider-kit.js';
import { asking, errorIn, eventsIn, words } from './provider-kit.js';

const MAIN = { path: '/v1/messages', body: { model: 'claude', max_tokens: 1000, messages: [{ role: 'user', content: words(100) }] } };
const LIMITS = { requestsPerMinute: 60, inputTokensPerMinute: 6000, outputTokensPerMinute: 3000 };

const withAnthropic = <R>(options: AnthropicOptions, test: (asking: Asking) => R, rest: Partial<ProviderOptions> = {}): R =>
  asking({ provider: anthropic(options), answer: () => ({ outputTokens: 40 }), ...rest }, MAIN, test);

describe('anthropic', () => {
  it('charges input on arrival and output as it is generated, and reports both', () => {
    withAnthropic(LIMITS, ({ provider, ask }) => {
      const { status, body } = ask();
      expect(status).toBe(200);
      expect(body).toMatchObject({
        type: 'message',
        stop_reason: 'end_turn',
        usage: { input_tokens: 100, output_tokens: 40, cache_read_input_tokens: 0 },
      });
      expect(provider.books.chargedTo('req_1')).toEqual({ requests: 1, inputTokens: 100, outputTokens: 40 });
      expect(provider.books.history('req_1').map(({ unit, amount, why }) => `${unit} ${String(amount)} ${why}`)).toEqual([
        'requests 1 arrival',
        'inputTokens 100 arrival',
        ...Array.from({ length: 4 }, () => 'outputTokens 10 generated'),
      ]);
    });
  });

  it.each([
    [true, 160],
    [false, 1000],
  ])('with free cached input %s charges %i of 1000', (cachedInputFree, charged) => {
    const answer = { outputTokens: 1, cacheReadTokens: 840, cacheWriteTokens: 100, cacheWrite1hTokens: 20 };
    withAnthropic(
      { ...LIMITS, cachedInputFree },
      ({ provider, ask }) => {
        const { body } = ask({ body: { ...MAIN.body, messages: [{ role: 'user', content: words(1000) }] } });
        expect(body).toMatchObject({
          usage: {
            input_tokens: 40,
            cache_creation_input_tokens: 120,
            cache_read_input_tokens: 840,
            cache_creation: { ephemeral_5m_input_tokens: 100, ephemeral_1h_input_tokens: 20 },
          },
        });
        expect(provider.books.charged('inputTokens')).toBe(charged);
      },
      { answer: () => answer },
    );
  });

  it('fills its buckets continuously, tells the wait in whole seconds, and admits a client that waited so long', () => {
    withAnthropic({ requestsPerMinute: 2 }, ({ provider, clock, ask }) => {
      expect([ask().status, ask().status]).toEqual([200, 200]);
      clock.advance(500);
      const refused = ask();
      expect(refused).toMatchObject({ status: 429, headers: { 'retry-after': '30', 'x-should-retry': 'true' } });
      expect(errorIn(refused)).toMatchObject({ type: 'rate_limit_error' });
      expect(errorIn(refused)['message']).toMatch(/^This request would exceed your organization's rate limit of 2 requests per minute/);
      expect(provider.books).toMatchObject({ arrivals: 3, refused: 1, refusedByLimit: 1 });
      expect(provider.books.charged('requests')).toBe(2);
      clock.advance(29_499);
      expect(ask().status).toBe(429);
      clock.advance(1);
      expect(ask().status).toBe(200);
      expect(provider.books.level('requests')).toBeCloseTo(0);
    });
  });

  it('tells limits, what is left to the nearest thousand, and dates at which they are full', () => {
    withAnthropic({ requestsPerMinute: 60, inputTokensPerMinute: 20_000, outputTokensPerMinute: 8000 }, ({ clock, ask }) => {
      clock.advance(10_000);
      expect(ask({ body: { ...MAIN.body, messages: [{ role: 'user', content: words(5600) }] } }).headers).toMatchObject({
        'anthropic-ratelimit-requests-limit': '60',
        'anthropic-ratelimit-requests-remaining': '59',
        'anthropic-ratelimit-requests-reset': '1970-01-01T00:00:11Z',
        'anthropic-ratelimit-input-tokens-limit': '20000',
        'anthropic-ratelimit-input-tokens-remaining': '14000',
        'anthropic-ratelimit-input-tokens-reset': '1970-01-01T00:00:27Z',
        'anthropic-ratelimit-output-tokens-remaining': '8000',
        'anthropic-ratelimit-tokens-limit': '28000',
        'anthropic-ratelimit-tokens-remaining': '22000',
      });
    });
  });

  it('on arrival charges `max_tokens` and gives the rest back at the end', () => {
    withAnthropic(
      { ...LIMITS, outputCharged: 'onArrival' },
      ({ provider, clock }) => {
        const { books } = provider;
        provider.send(MAIN).subscribe();
        expect(books.level('outputTokens')).toBe(2000);
        clock.advance(399);
        expect(books.charged('outputTokens')).toBe(1000);
        clock.advance(1);
        expect(books.charged('outputTokens')).toBe(40);
        expect(books.history('req_1').at(-1)).toEqual({ at: 400, id: 'req_1', unit: 'outputTokens', amount: -960, why: 'settled' });
        expect(books.fullest('outputTokens')).toEqual({ unit: 'outputTokens', at: 0, used: 1000, limit: 3000, share: 1 / 3 });
        expect(books.fullest('outputTokens', 60_000)).toMatchObject({ used: 40, limit: 3000 });
      },
      { msPerOutputToken: 10 },
    );
  });

  it('refuses while `max_tokens` is in use on arrival, and not as generated', () => {
    const statuses = (outputCharged: 'onArrival' | 'asGenerated'): number[] =>
      withAnthropic(
        { ...LIMITS, outputCharged },
        ({ provider, clock }) => {
          const seen: number[] = [];
          for (let call = 0; call < 5; call++) provider.send(MAIN).subscribe(({ status }) => seen.push(status));
          clock.flush();
          return seen;
        },
        { latencyMs: 10 },
      );
    expect(statuses('onArrival')).toEqual([429, 429, 200, 200, 200]);
    expect(statuses('asGenerated')).toEqual([200, 200, 200, 200, 200]);
  });

  it('lets output that is generated exceed the limit, and refuses until it is there again', () => {
    withAnthropic(
      { outputTokensPerMinute: 60 },
      ({ provider, clock, ask }) => {
        ask();
        expect(provider.books.level('outputTokens')).toBe(-40);
        expect(ask()).toMatchObject({ status: 429, headers: { 'retry-after': '41' } });
        clock.advance(41_000);
        expect(ask().status).toBe(200);
        expect(provider.books.fullest('outputTokens').share).toBeGreaterThan(1);
      },
      { answer: () => ({ outputTokens: 100 }) },
    );
  });

  it('streams in pieces, charges each, and charges a client that left for what was made', () => {
    withAnthropic(
      LIMITS,
      ({ provider, clock }) => {
        const { books } = provider;
        const stream = { ...MAIN, body: { ...MAIN.body, stream: true } };
        const leaving = provider.request(stream).subscribe();
        clock.advance(250);
        leaving.unsubscribe();
        clock.flush();
        expect(books.chargedTo('req_1')).toEqual({ requests: 1, inputTokens: 100, outputTokens: 20 });
        expect(provider.calls[0]).toMatchObject({ fate: 'left', outcome: 'cancelled', status: 200, outputTokens: 20, endedAt: 250 });
        const replies: ProviderReply[] = [];
        provider.send(stream).subscribe((reply) => replies.push(reply));
        clock.flush();
        const events = replies.flatMap((reply) => eventsIn(reply));
        expect(events.map(({ type }) => type)).toEqual([
          ...['message_start', 'content_block_start', 'ping'],
          ...Array.from({ length: 4 }, () => 'content_block_delta'),
          ...['content_block_stop', 'message_delta', 'message_stop'],
        ]);
        expect(events[8]).toMatchObject({ delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 40 } });
        expect(books.history('req_2').map(({ at, why }) => `${String(at)} ${why}`)).toEqual([
          ...['250 arrival', '250 arrival'],
          ...['350 generated', '450 generated', '550 generated', '650 generated'],
        ]);
      },
      { msPerOutputToken: 10 },
    );
  });

  it('gives the rest of `max_tokens` back when the client leaves or the connection breaks', () => {
    const options = { ...LIMITS, outputCharged: 'onArrival' } as const;
    withAnthropic(
      options,
      ({ provider, clock }) => {
        const leaving = provider.request(MAIN).subscribe();
        clock.advance(150);
        leaving.unsubscribe();
        expect(provider.books.charged('outputTokens')).toBe(10);
      },
      { msPerOutputToken: 10 },
    );
    withAnthropic(
      options,
      ({ provider, clock }) => {
        const errors: unknown[] = [];
        provider.request(MAIN).subscribe({ error: (error: unknown) => errors.push(error) });
        clock.flush();
        expect(errors).toMatchObject([{ code: 'ECONNRESET', status: undefined }]);
        expect(provider.calls[0]).toMatchObject({ fate: 'cut', outcome: 'failed' });
        expect(provider.books.charged('outputTokens')).toBe(20);
      },
      { faults: { cut: 1 } },
    );
  });

  it('cuts the answer at `max_tokens`', () => {
    withAnthropic(
      LIMITS,
      ({ ask }) => {
        expect(ask({ body: { ...MAIN.body, max_tokens: 10 } }).body).toMatchObject({
          content: [{ type: 'text', text: words(10) }],
          stop_reason: 'max_tokens',
          usage: { output_tokens: 10 },
        });
      },
      { answer: () => words(50) },
    );
  });

  it.each<[ProviderFaults, number, string, string]>([
    [{ serverErrors: 1 }, 500, 'api_error', 'failed'],
    [{ overloaded: 1 }, 529, 'overloaded_error', 'failed'],
    [{ quota: true }, 429, 'rate_limit_error', 'refused'],
    [{ refuseForMs: 2500 }, 429, 'rate_limit_error', 'refused'],
    [{ refuseForMs: 2500, hints: false }, 429, 'rate_limit_error', 'refused'],
  ])('with the fault %j answers %i', (faults, expected, type, fate) => {
    withAnthropic(
      LIMITS,
      ({ provider, clock, ask }) => {
        const { status, headers, body } = ask();
        expect([status, errorIn({ status, headers, body })['type'], provider.calls[0]?.fate]).toEqual([expected, type, fate]);
        expect(headers['retry-after']).toBe(faults.refuseForMs !== undefined && !('hints' in faults) ? '3' : undefined);
        expect(provider.books.chargedTo('req_1')).toEqual(fate === 'failed' ? { requests: 1, inputTokens: 0 } : {});
        if ('quota' in faults) expect(body).toMatchObject({ error: { details: { error_code: 'enforced_spend_limit_reached' } } });
        clock.advance(2500);
        if (faults.refuseForMs !== undefined) expect(ask().status).toBe(200);
        provider.setFaults({});
        expect(ask().status).toBe(200);
      },
      { faults },
    );
  });

  it('tells of overload inside a stream, leaves out usage, and keeps the tokens of failures when told to', () => {
    withAnthropic(
      { ...LIMITS, failedTokensKept: true },
      ({ provider, ask }) => {
        expect(eventsIn(ask({ body: { ...MAIN.body, stream: true } }))).toEqual([
          { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } },
        ]);
        provider.setFaults({ noUsage: 1 });
        expect(ask().body).not.toHaveProperty('usage');
        provider.setFaults({ serverErrors: 1 });
        ask();
        expect(provider.books.chargedTo('req_3')).toEqual({ requests: 1, inputTokens: 100 });
      },
      { faults: { overloadedInStream: 1 } },
    );
  });

  it('rejects what it cannot read, and what the model refuses', () => {
    withAnthropic(
      LIMITS,
      ({ provider, ask }) => {
        expect(ask({ body: { model: 'claude' } })).toMatchObject({
          status: 400,
          body: { error: { message: 'max_tokens: Field required' } },
        });
        expect(ask({ path: '/v1/nothing' }).status).toBe(404);
        expect(ask()).toMatchObject({ status: 413, body: { error: { type: 'request_too_large', message: 'too much' } } });
        expect(provider.calls.map(({ fate }) => fate)).toEqual(['rejected', 'rejected', 'rejected']);
        expect(provider.books.chargedTo('req_3')).toEqual({ requests: 1, inputTokens: 0 });
      },
      { answer: () => ({ status: 413, message: 'too much' }) },
    );
  });

  it('compares input and output together with the one count of a client', () => {
    withAnthropic(LIMITS, ({ provider, ask }) => {
      ask();
      expect(provider.books.difference({ tokens: 1100, outputTokens: 40, requestsPerDay: 1 })).toEqual({
        tokens: { ours: 1100, theirs: 140, difference: 960 },
        outputTokens: { ours: 40, theirs: 40, difference: 0 },
      });
    });
  });

  it('is full again when the clock is set back, as on entering virtual time', async () => {
    const provider = fakeProvider({ provider: anthropic({ requestsPerMinute: 1 }) });
    expect((await firstValueFrom(provider.send(MAIN))).status).toBe(200);
    virtualTime(({ advance }) => {
      const seen: number[] = [];
      const send = (): void => {
        provider.send(MAIN).subscribe(({ status }) => seen.push(status));
        advance(0);
      };
      advance(10);
      send();
      send();
      advance(60_000);
      send();
      expect(seen).toEqual([200, 429, 200]);
    });
  });

  it('ends a request when its signal aborts, with the reason of the signal', () => {
    withAnthropic(
      LIMITS,
      ({ provider, clock }) => {
        const controller = new AbortController();
        const errors: unknown[] = [];
        provider.workOne(MAIN, { signal: controller.signal }).subscribe({ error: (error: unknown) => errors.push(error) });
        clock.advance(150);
        controller.abort(new Error('enough'));
        expect(errors).toEqual([new Error('enough')]);
        provider.request(MAIN, controller.signal).subscribe({ error: (error: unknown) => errors.push(error) });
        expect(provider.calls.map(({ outcome, aborts, outputTokens }) => [outcome, aborts, outputTokens])).toEqual([
          ['cancelled', 1, 10],
          ['cancelled', 1, 0],
        ]);
        expect(provider.books.chargedTo('req_1')).toMatchObject({ outputTokens: 10 });
        expect(provider).toMatchObject({ inFlight: 0, maxInFlight: 1 });
      },
      { msPerOutputToken: 10 },
    );
  });

  it('hands the work of an operator the body, or an error as clients have it, and shows it every response', () => {
    withAnthropic({ requestsPerMinute: 1 }, ({ provider, clock }) => {
      const seen: unknown[] = [];
      const responses: number[] = [];
      const { signal } = new AbortController();
      const context = { signal, observe: ({ status }: ResponseLike) => responses.push(status) };
      for (let call = 0; call < 2; call++) {
        provider.workOne(MAIN.body, context).subscribe({ next: (body) => seen.push(body), error: (error: unknown) => seen.push(error) });
        clock.advance(0);
      }
      expect(responses).toEqual([200, 429]);
      expect(seen[0]).toMatchObject({ type: 'message' });
      expect(seen[1]).toBeInstanceOf(FakeProviderError);
      expect(seen[1]).toMatchObject({
        status: 429,
        code: 'rate_limit_error',
        headers: { 'retry-after': '60' },
        error: { type: 'error' },
      });
      expect(classifyError(seen[1], { size: 1, attempt: 1, aborted: false })).toMatchObject({ retryAfterMs: 60_000 });
    });
  });

  it('counts neither batches nor counted tokens', () => {
    withAnthropic({ requestsPerMinute: 1 }, ({ provider, ask }) => {
      expect(ask({ path: '/v1/messages/batches', body: { requests: [{}, {}] } }).body).toMatchObject({ request_counts: { processing: 2 } });
      expect(ask({ path: '/v1/messages/batches/msgbatch_1/cancel' }).body).toMatchObject({
        id: 'msgbatch_1',
        processing_status: 'canceling',
      });
      expect(ask({ path: '/v1/messages/count_tokens' }).body).toEqual({ input_tokens: 100 });
      expect(provider.books).toMatchObject({ arrivals: 0, entries: [] });
      expect(ask().status).toBe(200);
    });
  });

  it('limits each model in `models` by itself', () => {
    withAnthropic({ requestsPerMinute: 1, models: { haiku: { requestsPerMinute: 2 } } }, ({ provider, ask }) => {
      const haiku = { body: { ...MAIN.body, model: 'haiku' } };
      expect([ask(), ask(), ask(haiku), ask(haiku), ask(haiku)].map(({ status }) => status)).toEqual([200, 429, 200, 200, 429]);
      expect([provider.books.charged('requests'), provider.booksOf('haiku').charged('requests')]).toEqual([1, 2]);
      expect(provider.booksOf('another')).toBe(provider.books);
    });
  });

  it('at twenty times the speed fills in a twentieth of the time, and tells waits in the time of the client', () => {
    withAnthropic(
      { requestsPerMinute: 1 },
      ({ clock, ask }) => {
        ask();
        expect(ask().headers).toMatchObject({
          'retry-after': '3',
          'anthropic-ratelimit-requests-limit': '1',
          'anthropic-ratelimit-requests-reset': '1970-01-01T00:00:03Z',
        });
        clock.advance(3000);
        expect(ask().status).toBe(200);
      },
      { speed: 20 },
    );
  });

  it('never lets more through than its buckets hold, whatever comes when (generated)', () => {
    const arrivals = fc.array(fc.record({ pauseMs: fc.nat(4000), tokens: fc.integer({ min: 1, max: 300 }) }), { maxLength: 60 });
    fc.assert(
      fc.property(arrivals, fc.integer({ min: 1, max: 60 }), (calls, burstSeconds) => {
        withAnthropic({ requestsPerMinute: 40, inputTokensPerMinute: 2000, burstSeconds }, ({ provider, clock, ask }) => {
          for (const { pauseMs, tokens } of calls) {
            clock.advance(pauseMs);
            ask({ body: { ...MAIN.body, messages: [{ role: 'user', content: words(tokens) }] } });
          }
          const { books } = provider;
          for (const unit of ['requests', 'inputTokens'] as const) {
            expect(books.fullest(unit).share).toBeLessThanOrEqual(1 + 1e-6);
            // In any minute at most a full bucket and what fills it in that minute.
            const most = Math.max(1, (books.limit(unit) * burstSeconds) / 60) + books.limit(unit);
            expect(books.fullest(unit, 60_000).used).toBeLessThanOrEqual(most + 1e-6);
          }
          expect(books.arrivals).toBe(calls.length);
          expect(books.charged('requests') + books.refused).toBe(calls.length);
        });
      }),
      { numRuns: 50 },
    );
  });

  it.each([
    [{ requestsPerMinute: 0 }, 'a number > 0'],
    [{ tokensPerMinute: 1 }, 'unknown option `tokensPerMinute`. '],
    [{ outputCharged: 'later' }, "one of 'onArrival', 'asGenerated'"],
    [{ burstSeconds: -1 }, 'a number > 0'],
    [{ models: { haiku: { rpm: 1 } } }, 'models.haiku.rpm'],
  ])('rejects %j', (options, expected) => {
    expect(() => anthropic(options as AnthropicOptions)).toThrow(FlowConfigError);
    expect(() => anthropic(options as AnthropicOptions)).toThrow(expected);
  });
});
