import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { HeadersLike, RateReport } from '../../operators/kernel/index.js';
import { parseRateReports, parseRetryAfterMs } from '../../operators/kernel/index.js';
import { draws } from '../support/deep.js';

const NOON = Date.parse('2026-10-21T12:00:00Z');

const report = (unit: RateReport['unit'], fields: Partial<RateReport>): RateReport => ({
  unit,
  limit: undefined,
  remaining: undefined,
  resetMs: undefined,
  windowMs: undefined,
  ...fields,
});
const requests = (fields: Partial<RateReport>): RateReport => report('requests', fields);
const tokens = (fields: Partial<RateReport>): RateReport => report('tokens', fields);
const resets = (reset: string): HeadersLike => ({ 'x-ratelimit-remaining-tokens': '5', 'x-ratelimit-reset-tokens': reset });
const leftAt = (resetMs: number | undefined): RateReport[] => [tokens({ remaining: 5, resetMs })];

describe('the headers that tell of rates', () => {
  it.each<[source: string, what: string, headers: HeadersLike, reports: readonly RateReport[]]>([
    [
      'OpenAI, chat',
      'all six of requests and tokens',
      {
        'x-ratelimit-limit-requests': '60',
        'x-ratelimit-limit-tokens': '150000',
        'x-ratelimit-remaining-requests': '59',
        'x-ratelimit-remaining-tokens': '149984',
        'x-ratelimit-reset-requests': '1s',
        'x-ratelimit-reset-tokens': '6m0s',
      },
      [requests({ limit: 60, remaining: 59, resetMs: 1000 }), tokens({ limit: 150_000, remaining: 149_984, resetMs: 360_000 })],
    ],
    ['OpenAI', 'minutes and seconds', resets('6m0s'), leftAt(360_000)],
    ['OpenAI', 'milliseconds', resets('12ms'), leftAt(12)],
    ['OpenAI', 'fractions of seconds', resets('1.5s'), leftAt(1500)],
    ['OpenAI', 'hours and minutes', resets('1h2m'), leftAt(3_720_000)],
    ['OpenAI, requests per day', 'minutes and fractions', resets('8m38.4s'), leftAt(518_400)],
    ['OpenAI', 'seconds alone', resets('59s'), leftAt(59_000)],
    ['Go durations', 'all units', resets('1h2m3s4ms'), leftAt(3_723_004)],
    ['Go durations', 'microseconds', resets('500µs'), leftAt(0.5)],
    ['Go durations', 'microseconds in ASCII', resets('500us'), leftAt(0.5)],
    ['Go durations', 'days of some gateways', resets('1d'), leftAt(86_400_000)],
    [
      'OpenAI, projects',
      'the tokens of the project',
      {
        'x-ratelimit-limit-project-tokens': '1000',
        'x-ratelimit-remaining-project-tokens': '900',
        'x-ratelimit-reset-project-tokens': '6s',
      },
      [tokens({ limit: 1000, remaining: 900, resetMs: 6000 })],
    ],
    [
      'Azure OpenAI, since late 2025',
      '-1 for unknown, with a reset of 0',
      { 'x-ratelimit-limit-tokens': '-1', 'x-ratelimit-remaining-tokens': '-1', 'x-ratelimit-reset-tokens': '0' },
      [],
    ],
    [
      'Azure OpenAI',
      'a limit of -1 does not spoil what remains',
      { 'x-ratelimit-limit-requests': '-1', 'x-ratelimit-remaining-requests': '79' },
      [requests({ remaining: 79 })],
    ],
    [
      'Azure OpenAI, chat',
      'what remains, and nothing else',
      { 'x-ratelimit-remaining-requests': '79', 'x-ratelimit-remaining-tokens': '61353' },
      [requests({ remaining: 79 }), tokens({ remaining: 61_353 })],
    ],
    [
      'GitHub Models',
      'the length of the window, and a reset in whole seconds',
      {
        'x-ratelimit-limit-requests': '20000',
        'x-ratelimit-remaining-requests': '19999',
        'x-ratelimit-renewalperiod-requests': '60',
        'x-ratelimit-reset-requests': '3',
      },
      [requests({ limit: 20_000, remaining: 19_999, resetMs: 3000, windowMs: 60_000 })],
    ],
    ['GitHub Models', 'a reset that was rounded to nothing', resets('0'), leftAt(0)],
    [
      'Groq',
      'requests per day and tokens per minute in the same spelling',
      {
        'x-ratelimit-limit-requests': '14400',
        'x-ratelimit-limit-tokens': '18000',
        'x-ratelimit-remaining-requests': '14370',
        'x-ratelimit-remaining-tokens': '17997',
        'x-ratelimit-reset-requests': '2m59.56s',
        'x-ratelimit-reset-tokens': '7.66s',
      },
      [requests({ limit: 14_400, remaining: 14_370, resetMs: 179_560 }), tokens({ limit: 18_000, remaining: 17_997, resetMs: 7660 })],
    ],
    [
      'Cerebras',
      'the window in the name, resets in seconds',
      {
        'x-ratelimit-limit-requests-day': '1440000',
        'x-ratelimit-limit-tokens-minute': '7500',
        'x-ratelimit-remaining-requests-day': '1439999',
        'x-ratelimit-remaining-tokens-minute': '7000',
        'x-ratelimit-reset-requests-day': '33011.382867',
        'x-ratelimit-reset-tokens-minute': '11.38',
      },
      [
        tokens({ limit: 7500, remaining: 7000, resetMs: 11_380, windowMs: 60_000 }),
        requests({ limit: 1_440_000, remaining: 1_439_999, resetMs: 33_011_382.867, windowMs: 86_400_000 }),
      ],
    ],
    ['Cerebras', 'an hour', { 'x-ratelimit-limit-tokens-hour': '1000' }, [tokens({ limit: 1000, windowMs: 3_600_000 })]],
    ['gateways', 'bare seconds', resets('30'), leftAt(30_000)],
    ['gateways', 'bare fractions of seconds', resets('0.25'), leftAt(250)],
    ['gateways', 'seconds since 1970', resets(String(NOON / 1000 + 20)), leftAt(20_000)],
    ['gateways', 'milliseconds since 1970', resets(String(NOON + 250)), leftAt(250)],
    ['gateways', 'not seconds since 1970 that are years away', resets('1000000000'), leftAt(undefined)],
    [
      'Anthropic',
      'requests and tokens with dates',
      {
        'anthropic-ratelimit-requests-limit': '50',
        'anthropic-ratelimit-requests-remaining': '49',
        'anthropic-ratelimit-requests-reset': '2026-10-21T12:00:01Z',
        'anthropic-ratelimit-tokens-limit': '40000',
        'anthropic-ratelimit-tokens-remaining': '39000',
        'anthropic-ratelimit-tokens-reset': '2026-10-21T12:00:02Z',
      },
      [requests({ limit: 50, remaining: 49, resetMs: 1000 }), tokens({ limit: 40_000, remaining: 39_000, resetMs: 2000 })],
    ],
    [
      'Anthropic',
      'input and output apart',
      {
        'anthropic-ratelimit-input-tokens-limit': '50000',
        'anthropic-ratelimit-input-tokens-remaining': '48000',
        'anthropic-ratelimit-input-tokens-reset': '2026-10-21T12:00:03Z',
        'anthropic-ratelimit-output-tokens-limit': '10000',
        'anthropic-ratelimit-output-tokens-remaining': '0',
        'anthropic-ratelimit-output-tokens-reset': '2026-10-21T12:00:06Z',
      },
      [
        tokens({ unit: 'inputTokens', limit: 50_000, remaining: 48_000, resetMs: 3000 }),
        tokens({ unit: 'outputTokens', limit: 10_000, remaining: 0, resetMs: 6000 }),
      ],
    ],
    [
      'Anthropic',
      'the input alone',
      { 'anthropic-ratelimit-input-tokens-limit': '50000' },
      [tokens({ unit: 'inputTokens', limit: 50_000 })],
    ],
    ['RFC 3339', 'another zone', resets('2026-10-21T14:00:04+02:00'), leftAt(4000)],
    ['RFC 3339', 'fractions, small letters', resets('2026-10-21t12:00:00.5z'), leftAt(500)],
    ['RFC 3339', 'fractions of two digits', resets('2026-10-21T12:00:00.25Z'), leftAt(250)],
    ['RFC 3339', 'the latest that is plausible', resets(new Date(NOON + 2_147_483_647).toISOString()), leftAt(2_147_483_647)],
    ['RFC 3339', 'not a year of six digits', resets('+002026-10-21T12:00:04Z'), leftAt(undefined)],
    ['RFC 3339', 'not a time with something behind it', resets('2026-10-21 12:00:04Z (UTC)'), leftAt(undefined)],
    ['RFC 3339', 'a time that has just passed', resets('2026-10-21T11:59:59Z'), leftAt(0)],
    ['RFC 3339', 'not a time that is months away', resets('2027-10-21T12:00:00Z'), leftAt(undefined)],
    ['RFC 3339', 'not a time without its zone', resets('2026-10-21T12:00:04'), leftAt(undefined)],
    ['fetch', 'a Headers object', new Headers({ 'X-RateLimit-Limit-Requests': '60' }), [requests({ limit: 60 })]],
    ['Node', 'a record with capitals', { 'X-RateLimit-Limit-Requests': '60' }, [requests({ limit: 60 })]],
    ['Node', 'the first of several values', { 'x-ratelimit-limit-requests': ['60', '70'] }, [requests({ limit: 60 })]],
    ['axios', 'numbers', { 'x-ratelimit-limit-requests': 60 } as never, [requests({ limit: 60 })]],
    ['any source', 'a limit of one', { 'x-ratelimit-limit-requests': '1' }, [requests({ limit: 1 })]],
    ['any source', 'spaces around', { 'x-ratelimit-limit-requests': ' 60 ' }, [requests({ limit: 60 })]],
    ['no source', 'not a limit of 0, which means unlimited', { 'x-ratelimit-limit-requests': '0' }, []],
    ['no source', 'not a word', { 'x-ratelimit-limit-requests': 'unlimited' }, []],
    ['no source', 'not a number beyond the range of doubles', { 'x-ratelimit-limit-requests': '9'.repeat(400) }, []],
    ['no source', 'not a list in one value', { 'x-ratelimit-limit-requests': '60, 60;w=60' }, []],
    ['no source', 'not an exponent', { 'x-ratelimit-limit-requests': '1e3' }, []],
    ['no source', 'not a reset alone', { 'x-ratelimit-reset-requests': '1s' }, []],
    ['no source', 'not a negative reset', resets('-5'), leftAt(undefined)],
    ['no source', 'not units in the wrong order', resets('5s1m'), leftAt(undefined)],
    ['no source', 'not units without a number', resets('ms'), leftAt(undefined)],
    ['any source', 'the longest reset that is plausible', resets('2147483647ms'), leftAt(2_147_483_647)],
    ['no source', 'not an empty reset', resets(''), leftAt(undefined)],
    ['no source', 'not a reset of months', resets('2000h'), leftAt(undefined)],
    ['any REST interface', 'not a limit that does not say of what', { 'x-ratelimit-limit': '60', 'ratelimit-remaining': '5' }, []],
  ])('%s: %s', (_source, _what, headers, reports) => {
    expect(parseRateReports(headers, NOON)).toEqual(reports);
  });

  it('ignores dates on a clock that does not count from 1970, and durations on none', () => {
    const virtualMs = 5000;
    expect(parseRateReports(resets('2026-10-21T12:00:04Z'), virtualMs)).toEqual(leftAt(undefined));
    expect(parseRateReports(resets(String(NOON / 1000)), virtualMs)).toEqual(leftAt(undefined));
    expect(parseRateReports(resets('1970-01-01T00:00:09Z'), virtualMs)).toEqual(leftAt(4000));
    expect(parseRateReports(resets('2026-10-21T12:00:04Z'))).toEqual(leftAt(undefined));
    expect(parseRateReports(resets('12ms'), virtualMs)).toEqual(leftAt(12));
  });

  it('takes numbers for dates from the year 2001 on', () => {
    const in2001 = 1e12;
    expect(parseRateReports(resets('1000000000'), in2001)).toEqual(leftAt(0));
    expect(parseRateReports(resets('1000000000000'), in2001)).toEqual(leftAt(0));
    expect(parseRateReports(resets('1000000'), in2001)).toEqual(leftAt(1e9));
  });

  it('takes the limit of all tokens for one of its own unless it repeats that of input or output, or their sum', () => {
    const limit = fc.option(fc.integer({ min: 1, max: 4 }), { nil: undefined });
    fc.assert(
      fc.property(limit, limit, fc.integer({ min: 1, max: 9 }), fc.constantFrom('limit', 'remaining'), (input, output, all, field) => {
        const headers: Record<string, string> = { [`anthropic-ratelimit-tokens-${field}`]: String(all) };
        if (input !== undefined) headers[`anthropic-ratelimit-input-tokens-${field}`] = String(input);
        if (output !== undefined) headers[`anthropic-ratelimit-output-tokens-${field}`] = String(output);
        const isOwn = all !== input && all !== output && (input === undefined || output === undefined || all !== input + output);
        const reported = parseRateReports(headers, NOON).map((report) => [report.unit, report[field]]);
        expect(reported).toEqual([
          ...(isOwn ? [['tokens', all]] : []),
          ...(input === undefined ? [] : [['inputTokens', input]]),
          ...(output === undefined ? [] : [['outputTokens', output]]),
        ]);
      }),
      { numRuns: draws(150, 500) },
    );
  });

  it.each<[string, unknown]>([
    ['nothing', undefined],
    ['null', null],
    ['a text', 'x-ratelimit-limit-requests: 60'],
    ['a number', 5],
    ['a list', [['x-ratelimit-limit-requests', '60']]],
    ['a Map with other names', new Map([['content-type', 'text']])],
    ['objects as values', { 'x-ratelimit-limit-requests': { value: 60 } }],
    ['a name from the prototype', { constructor: '5' }],
  ])('makes nothing of %s', (_what, headers) => {
    expect(parseRateReports(headers as HeadersLike, NOON)).toEqual([]);
  });

  const NAMES = ['requests', 'tokens', 'requests-day', 'project-tokens'].flatMap((unit) =>
    ['limit', 'remaining', 'reset', 'renewalperiod'].map((field) => `x-ratelimit-${field}-${unit}`),
  );
  const text = fc.oneof(
    fc.string(),
    fc.stringMatching(/^[-0-9.hmsdµTZ: +]{0,24}$/),
    fc.integer().map(String),
    fc.double().map(String),
    fc.date({ noInvalidDate: true }).map((date) => date.toISOString()),
  );

  it('never throws and returns only finite numbers in range', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.constantFrom(...NAMES), fc.oneof(text, fc.array(text))), fc.option(fc.double()), (headers, epochMs) => {
        for (const { limit, remaining, resetMs, windowMs } of parseRateReports(headers, epochMs ?? undefined)) {
          for (const [value, least] of [
            [limit, Number.MIN_VALUE],
            [remaining, 0],
            [resetMs, 0],
            [windowMs, Number.MIN_VALUE],
          ] as const)
            expect(value === undefined || (value >= least && value < Infinity)).toBe(true);
        }
        parseRetryAfterMs(headers, epochMs ?? undefined);
      }),
      { numRuns: draws(500, 2000) },
    );
  });

  it('reads a duration back that was written from its parts', () => {
    const part = (max: number) => fc.option(fc.tuple(fc.nat({ max }), fc.option(fc.integer({ min: 10, max: 99 }))));
    const parts = fc.tuple(part(20), part(60), part(99), part(99), part(999), part(999));
    const units = ['d', 'h', 'm', 's', 'ms', 'µs'] as const;
    const unitsMs = [86_400_000, 3_600_000, 60_000, 1000, 1, 0.001] as const;
    fc.assert(
      fc.property(parts, (given) => {
        let text = '';
        let totalMs = 0;
        given.forEach((one, i) => {
          if (!one) return;
          const [whole, hundredths] = one;
          text += `${String(whole)}${hundredths === null ? '' : `.${String(hundredths)}`}${units[i]!}`;
          totalMs += (whole + (hundredths ?? 0) / 100) * unitsMs[i]!;
        });
        const [read] = parseRateReports(resets(text));
        if (text === '') expect(read?.resetMs).toBeUndefined();
        else expect(read?.resetMs).toBeCloseTo(totalMs, 3);
      }),
      { numRuns: draws(100, 300) },
    );
  });
});
