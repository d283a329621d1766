import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Verdict } from '../../operators/index.js';
import { classifyError } from '../../operators/index.js';

const epochMs = Date.UTC(2026, 10, 21, 8, 0, 0);
const judge = (error: unknown): Verdict => classifyError(error, { size: 1, attempt: 1, aborted: false, epochMs });
const refusal = (body: object, headers: Readonly<Record<string, string>> = {}) => ({ status: 429, headers, error: body });
const retryInfo = (retryDelay: unknown) => ({ '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay });
const quota = (quotaId: string) => ({ '@type': 'type.googleapis.com/google.rpc.QuotaFailure', violations: [{ quotaId }] });

describe('how long a refusal asks to wait', () => {
  it.each<[string, object, number | undefined]>([
    ['seconds', refusal({}, { 'retry-after': '2' }), 2000],
    ['ms', refusal({}, { 'retry-after-ms': '250' }), 250],
    ['a moment in seconds', refusal({}, { 'retry-after': String(epochMs / 1000 + 3) }), 3000],
    ['25 days', refusal({}, { 'retry-after': String(25 * 86_400) }), undefined],
    ['OpenRouter: a moment in ms', refusal({}, { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': String(epochMs + 1500) }), 1500],
    ['Together: seconds', refusal({}, { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '4' }), 4000],
    [
      'GitHub: a moment in seconds',
      refusal({}, { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': String(epochMs / 1000 + 60) }),
      60_000,
    ],
    ['a duration', refusal({}, { 'x-ratelimit-reset': '6m0s' }), 360_000],
    ['there is something left', refusal({}, { 'x-ratelimit-remaining': '7', 'x-ratelimit-reset': '4' }), undefined],
    ['IETF, three fields', refusal({}, { 'ratelimit-remaining': '0', 'ratelimit-reset': '9' }), 9000],
    ['IETF, one field', refusal({}, { ratelimit: 'limit=100, remaining=0, reset=30' }), 30_000],
    ['IETF, structured', refusal({}, { ratelimit: '"default";r=0;t=30' }), 30_000],
    ['Gemini', refusal({ status: 'RESOURCE_EXHAUSTED', details: [quota('RequestsPerMinutePerProject'), retryInfo('1.57s')] }), 1570],
    ['Gemini as an object', refusal({ details: [retryInfo({ seconds: 2, nanos: 5e8 })] }), 2500],
    ['words', refusal({ message: 'Rate limit reached. Please try again in 1.5s. Visit …' }), 1500],
    ['words, ms', refusal({ message: 'Please try again in 20ms.' }), 20],
    ['words, composed', refusal({ message: 'Please try again in 6m0s.' }), 360_000],
    ['words, long', refusal({ message: 'please retry after 20 seconds' }), 20_000],
    ['words, minutes', refusal({ message: 'Try again in 2 minutes' }), 120_000],
    ['a field in seconds', refusal({ retry_after: 3 }), 3000],
    ['a field in ms', refusal({ retry_after_ms: '40' }), 40],
    ['the header before the body', refusal({ retry_after: 3 }, { 'retry-after': '1' }), 1000],
    [
      'a body as the AI SDK keeps it',
      { statusCode: 429, data: {}, responseBody: JSON.stringify({ error: { details: [retryInfo('2s')] } }) },
      2000,
    ],
    ['nothing', refusal({ message: 'slow down' }), undefined],
  ])('%s', (_name, error, expected) => {
    const verdict = judge(error);
    expect(verdict.class).toBe('throttled');
    if (expected === undefined) expect(verdict.retryAfterMs).toBeUndefined();
    else expect(verdict.retryAfterMs).toBeCloseTo(expected, 3);
  });

  it('is a number that can be, or none, whatever was sent', () => {
    const text = fc.oneof(
      fc.string(),
      fc.constantFrom('1e99', '-1', '9'.repeat(300), 'NaN', '99999999999d', `${'1'.repeat(9)}d`.repeat(50)),
    );
    fc.assert(
      fc.property(text, text, text, fc.anything(), (header, message, delay, details) => {
        const verdict = judge(
          refusal(
            { message: `try again in ${message}`, retry_after: delay, details: [retryInfo(delay), details] },
            { 'x-ratelimit-reset': header, ratelimit: header },
          ),
        );
        const { retryAfterMs = 0 } = verdict;
        expect(retryAfterMs).toBeGreaterThanOrEqual(0);
        expect(retryAfterMs).toBeLessThanOrEqual(2_147_483_647);
      }),
    );
  });
});

describe('what is used up, or is not the account', () => {
  it.each<[string, object, Verdict['class'], boolean]>([
    ['insufficient_quota', refusal({ code: 'insufficient_quota', message: 'You exceeded your current quota' }), 'fatal', false],
    [
      'the words alone',
      refusal({ message: 'You exceeded your current quota, please check your plan and billing details.' }),
      'fatal',
      false,
    ],
    ['a hard limit', refusal({ message: 'Billing hard limit has been reached' }), 'fatal', false],
    [
      'a spend limit of Anthropic',
      refusal({ type: 'rate_limit_error', details: { error_code: 'enforced_spend_limit_reached' } }),
      'fatal',
      false,
    ],
    ['its words', refusal({ type: 'rate_limit_error', message: 'You have reached your API usage limits: …' }), 'fatal', false],
    ['Gemini, a day without a hint', refusal({ details: [quota('GenerateRequestsPerDayPerProject')] }), 'fatal', false],
    [
      'Gemini, a day with a hint',
      refusal({ message: 'You exceeded your current quota', details: [quota('GenerateRequestsPerDay'), retryInfo('3600s')] }),
      'throttled',
      false,
    ],
    [
      'Gemini, a minute',
      refusal({ message: 'You exceeded your current quota', details: [quota('GenerateRequestsPerMinute')] }),
      'throttled',
      false,
    ],
    ['flex', refusal({ message: 'Flex tier is out of capacity' }), 'throttled', true],
    ['OpenAI flex', refusal({ code: 'resource_unavailable' }), 'throttled', true],
    ['Groq', { status: 498, error: { code: 'capacity_exceeded' } }, 'throttled', true],
    ['529', { status: 529, error: { type: 'overloaded_error' } }, 'transient', false],
    ['an ordinary 429', refusal({ type: 'rate_limit_error' }), 'throttled', false],
  ])('%s', (_name, error, found, ofTier) => {
    const verdict = judge(error);
    expect(verdict.class).toBe(found);
    expect(verdict.isTierOnly ?? false).toBe(ofTier);
  });
});
