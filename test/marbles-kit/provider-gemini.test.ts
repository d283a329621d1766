import { describe, expect, it } from 'vitest';
import type { GeminiOptions } from '../../marbles/providers/gemini.js';
import { gemini } from '../../marbles/providers/gemini.js';
import { daysOf } from '../../marbles/providers/meters.js';
import type { ProviderOptions, ProviderReply } from '../../marbles/providers/types.js';
import type { Asking } from './provider-kit.js';
import { asking, errorIn, eventsIn, words } from './provider-kit.js';

const HOUR_MS = 3_600_000;
const body = (tokens: number, rest: object = {}) => ({ contents: [{ role: 'user', parts: [{ text: words(tokens) }] }], ...rest });
const MAIN = { path: '/v1beta/models/gemini-3-flash:generateContent', body: body(100) };

const withGemini = <R>(options: GeminiOptions, test: (asking: Asking) => R, rest: Partial<ProviderOptions> = {}): R =>
  asking(
    { provider: gemini(options), answer: () => ({ outputTokens: 40, reasoningTokens: 30, cacheReadTokens: 60 }), ...rest },
    MAIN,
    test,
  );

function detail(reply: ProviderReply, name: string): unknown {
  const details = errorIn(reply)['details'] as { '@type': string }[];
  return details.find((each) => each['@type'] === `type.googleapis.com/google.rpc.${name}`);
}

describe('gemini', () => {
  it('charges input alone, cached input with it, and answers with its own usage and no limits in headers', () => {
    withGemini({ requestsPerMinute: 10, inputTokensPerMinute: 1000, requestsPerDay: 5 }, ({ provider, ask }) => {
      const { body: answer, headers } = ask();
      expect(answer).toMatchObject({
        candidates: [{ content: { role: 'model' }, finishReason: 'STOP' }],
        usageMetadata: {
          promptTokenCount: 100,
          candidatesTokenCount: 10,
          thoughtsTokenCount: 30,
          cachedContentTokenCount: 60,
          totalTokenCount: 140,
        },
      });
      expect(Object.keys(headers).filter((name) => /limit|retry/.test(name))).toEqual([]);
      expect(provider.books.chargedTo('req_1')).toEqual({ requests: 1, requestsPerDay: 1, inputTokens: 100 });
    });
  });

  it('tells the wait in the body alone, and counts the last minute at every moment', () => {
    withGemini({ inputTokensPerMinute: 1000 }, ({ clock, ask }) => {
      clock.advance(1000);
      ask({ body: body(400) });
      clock.advance(1570);
      ask({ body: body(600) });
      const refused = ask();
      expect(refused.status).toBe(429);
      expect(Object.keys(refused.headers)).not.toContain('retry-after');
      expect(errorIn(refused)).toMatchObject({ code: 429, status: 'RESOURCE_EXHAUSTED' });
      expect(detail(refused, 'RetryInfo')).toMatchObject({ retryDelay: '58.430s' });
      expect(detail(refused, 'QuotaFailure')).toMatchObject({
        violations: [{ quotaId: 'GenerateContentInputTokensPerModelPerMinute-FreeTier', quotaValue: '1000' }],
      });
      clock.advance(58_429);
      expect(ask().status).toBe(429);
      clock.advance(1);
      expect(ask({ body: body(400) }).status).toBe(200);
      expect(ask().status).toBe(429);
    });
  });

  it('counts full minutes instead, and rounds the wait down, when told to', () => {
    withGemini({ requestsPerMinute: 1, minute: 'fixed', retryDelay: 'seconds' }, ({ clock, ask }) => {
      clock.advance(50_500);
      ask();
      expect(detail(ask(), 'RetryInfo')).toMatchObject({ retryDelay: '9s' });
      clock.advance(9500);
      expect(ask().status).toBe(200);
    });
  });

  it('starts a day at midnight Pacific, and tells of it a wait that is too short', () => {
    withGemini(
      { requestsPerDay: 2 },
      ({ provider, clock, ask }) => {
        expect([ask().status, ask().status]).toEqual([200, 200]);
        const refused = ask();
        expect(detail(refused, 'QuotaFailure')).toMatchObject({
          violations: [{ quotaId: 'GenerateRequestsPerDayPerProjectPerModel-FreeTier' }],
        });
        expect(detail(refused, 'RetryInfo')).toMatchObject({ retryDelay: '30.000s' });
        clock.advance(30_000);
        expect(ask().status).toBe(429);
        clock.advance(2 * HOUR_MS - 1);
        expect(ask().status).toBe(429);
        clock.advance(1);
        expect(ask().status).toBe(200);
        expect(provider.books.level('requestsPerDay')).toBe(1);
      },
      // 21:59:30 in Los Angeles, in winter.
      { startsAt: Date.UTC(2026, 0, 10, 5, 59, 30) },
    );
  });

  it.each([
    ['the day on which summer begins', Date.UTC(2026, 2, 8, 8), 23],
    ['the day on which summer ends', Date.UTC(2026, 10, 1, 7), 25],
    ['any other day', Date.UTC(2026, 6, 1, 7), 24],
  ])('on %s resets after midnight Pacific (%#)', (_when, midnight, hours) => {
    withGemini(
      { requestsPerDay: 1 },
      ({ clock, ask }) => {
        ask();
        clock.advance(hours * HOUR_MS - 1);
        expect(ask().status).toBe(429);
        clock.advance(1);
        expect(ask().status).toBe(200);
      },
      { startsAt: midnight },
    );
  });

  it.each([
    ['UTC', 0, '2026-03-08T09:30:00Z', '2026-03-08T00:00:00Z', '2026-03-09T00:00:00Z'],
    ['America/Los_Angeles', 0, '2026-03-08T07:59:59Z', '2026-03-07T08:00:00Z', '2026-03-08T08:00:00Z'],
    ['America/Los_Angeles', 0, '2026-03-08T08:00:00Z', '2026-03-08T08:00:00Z', '2026-03-09T07:00:00Z'],
    ['America/Los_Angeles', 4, '2026-03-08T08:00:00Z', '2026-03-07T12:00:00Z', '2026-03-08T11:00:00Z'],
    ['Asia/Kolkata', 6, '2026-05-01T00:29:59Z', '2026-04-30T00:30:00Z', '2026-05-01T00:30:00Z'],
    ['Pacific/Auckland', 0, '2026-04-04T11:00:00Z', '2026-04-04T11:00:00Z', '2026-04-05T12:00:00Z'],
  ])('knows the day of %s that starts at %i and has %s in it', (timeZone, hour, now, start, end) => {
    const day = daysOf({ timeZone, hour })(Date.parse(now));
    expect([day.start, day.end].map((moment) => new Date(moment).toISOString())).toEqual(
      [start, end].map((each) => each.replace('Z', '.000Z')),
    );
  });

  it('every moment is in the day that it names, and days follow each other', () => {
    for (const timeZone of ['America/Los_Angeles', 'Europe/Berlin', 'Australia/Lord_Howe', 'UTC']) {
      const dayOf = daysOf({ timeZone, hour: 0 });
      let { end: next } = dayOf(Date.UTC(2026, 0, 1));
      for (let day = 0; day < 365; day++) {
        const { start, end } = dayOf(next);
        expect(start).toBe(next);
        expect(dayOf(end - 1)).toEqual({ start, end });
        next = end;
      }
    }
  });

  it('streams with the usage so far in every chunk', () => {
    withGemini({}, ({ ask }) => {
      const chunks = eventsIn(ask({ path: '/v1beta/models/gemini-3-flash:streamGenerateContent?alt=sse' }));
      const totals = chunks.map((chunk) => (chunk['usageMetadata'] as { totalTokenCount: number }).totalTokenCount);
      expect(totals).toEqual([110, 120, 130, 140, 140]);
      expect(chunks.at(-1)).toMatchObject({ candidates: [{ finishReason: 'STOP' }] });
    });
  });

  it.each([
    [{ overloaded: 1 }, 503, 'UNAVAILABLE'],
    [{ serverErrors: 1 }, 500, 'INTERNAL'],
    [{ quota: true }, 429, 'RESOURCE_EXHAUSTED'],
  ])('with the fault %j answers %i, and counts the request', (faults, status, name) => {
    withGemini(
      { requestsPerDay: 5 },
      ({ provider, ask }) => {
        const reply = ask();
        expect([reply.status, errorIn(reply)['status']]).toEqual([status, name]);
        expect(provider.books.charged('inputTokens')).toBe(0);
        expect(provider.books.charged('requestsPerDay')).toBe(status === 429 ? 0 : 1);
        expect(errorIn(reply)).not.toHaveProperty('details');
      },
      { faults },
    );
  });

  it('refuses for a while with or without a hint', () => {
    const refused = (hints: boolean) => withGemini({}, ({ ask }) => detail(ask(), 'RetryInfo'), { faults: { refuseForMs: 1500, hints } });
    expect(refused(true)).toMatchObject({ retryDelay: '1.500s' });
    expect(refused(false)).toBeUndefined();
  });

  it('counts batched embeddings as one request, and neither counted tokens nor batches', () => {
    withGemini({ requestsPerMinute: 1 }, ({ provider, ask }) => {
      const requests = [{ content: { parts: [{ text: words(3) }] } }, { content: { parts: [{ text: words(4) }] } }];
      expect(ask({ path: '/v1beta/models/e:batchEmbedContents', body: { requests } }).body).toEqual({
        embeddings: [{ values: [0.5, 0.25] }, { values: [0.5, 0.25] }],
      });
      expect(provider.books.chargedTo('req_1')).toEqual({ requests: 1, requestsPerDay: 1, inputTokens: 7 });
      expect(ask({ path: '/v1beta/models/gemini:countTokens' }).body).toEqual({ totalTokens: 100 });
      expect(ask({ path: '/v1beta/models/gemini:batchGenerateContent' }).body).toMatchObject({
        metadata: { state: 'BATCH_STATE_PENDING' },
      });
      expect(provider.books.arrivals).toBe(1);
    });
  });

  it.each([
    [{ dayStartsAt: { timeZone: 'Mars' } }, 'the name of a time zone'],
    [{ dayStartsAt: { hour: 24 } }, 'a whole number from 0 to 23'],
    [{ minute: 'short' }, "one of 'rolling', 'fixed'"],
    [{ tokensPerMinute: 1 }, 'unknown option `tokensPerMinute`. '],
  ])('rejects %j', (options, expected) => {
    expect(() => gemini(options as GeminiOptions)).toThrow(expected);
  });
});
