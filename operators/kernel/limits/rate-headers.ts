import type { HeaderReader, HeadersLike } from './headers.js';
import { DECIMAL, headerReader, parseRetryAfterMs } from './headers.js';
import type { RateReport, RateUnit } from './rate-lesson.js';

const SECOND_MS = 1000;
const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;

/** A later reset (about 25 days) is a mistake of the sender, or a date compared with a virtual clock. */
const LONGEST_MS = 2_147_483_647;

/** `6m0s`, `1.5s`, `12ms`, `1h2m3.5s`, `1d`: each unit once at most, the largest first. */
const DURATION =
  /^(?:(\d+(?:\.\d+)?)d)?(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?(?:(\d+(?:\.\d+)?)[uµμ]s)?$/;
const UNITS_MS: readonly number[] = [DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, 1, 0.001];

/** RFC 3339, with its zone. */
const TIMESTAMP = /^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)$/;

/** From here on a number of seconds is a date since 1970 (the year 2001), from there on one of milliseconds. */
const FIRST_DATE_S = 1e9;
const FIRST_DATE_MS = 1e12;

const UNITS = ['requests', 'tokens'] as const;

/** What comes after `x-ratelimit-limit-requests`, and the window that it names. */
const WINDOWS: readonly (readonly [suffix: string, windowMs: number | undefined])[] = [
  ['', undefined],
  ['-minute', MINUTE_MS],
  ['-hour', HOUR_MS],
  ['-day', DAY_MS],
];

/**
 * What a response says about the account's rates, one report for each limit that it names with a number: `x-ratelimit-*` of requests and
 * tokens (also per `-minute`, `-hour`, `-day`, and of `project-tokens`) and `anthropic-ratelimit-*`, of input and output apart. Nonsense, and numbers below 0, are
 * unknown. Dates need `epochMs`, the time now in ms since 1970, and are unknown when they are more than 25 days from it. Never throws.
 */
export function parseRateReports(headers: HeadersLike, epochMs?: number): RateReport[] {
  const read = headerReader(headers, 'ratelimit-');
  if (read === undefined) return [];
  const x = (unit: RateUnit, of: string, windowMs?: number): RateReport | undefined =>
    reportOf((field) => read(`x-ratelimit-${field}-${of}`), unit, epochMs, windowMs);
  const anthropic = (unit: RateUnit, of: string = unit): RateReport | undefined =>
    reportOf((field) => read(`anthropic-ratelimit-${of}-${field}`), unit, epochMs);
  const [input, output] = [anthropic('inputTokens', 'input-tokens'), anthropic('outputTokens', 'output-tokens')];
  const tokens = anthropic('tokens');
  const reports = WINDOWS.flatMap(([suffix, windowMs]) => UNITS.map((unit) => x(unit, unit + suffix, windowMs)));
  reports.push(x('tokens', 'project-tokens'), anthropic('requests'), isMirror(tokens, input, output) ? undefined : tokens, input, output);
  return reports.filter((report) => report !== undefined);
}

/**
 * Where input and output are limited apart, the header of all tokens repeats the tighter of the two, or their sum. Taken as a limit of its own it would
 * count input against the limit of output. Any other number is a limit of its own, such as that of a workspace.
 */
function isMirror(tokens: RateReport | undefined, input: RateReport | undefined, output: RateReport | undefined): boolean {
  const of = (report: RateReport | undefined): number | undefined => report?.[tokens?.limit === undefined ? 'remaining' : 'limit'];
  const [all, one, other] = [of(tokens), of(input), of(output)];
  return all !== undefined && (all === one || all === other || all === (one ?? NaN) + (other ?? NaN));
}

function reportOf(read: HeaderReader, unit: RateUnit, epochMs: number | undefined, namedMs?: number): RateReport | undefined {
  // Servers send 0 or less for "unlimited".
  const limit = amount(read('limit'), 1);
  const remaining = amount(read('remaining'));
  if (limit === undefined && remaining === undefined) return undefined;
  const periodS = amount(read('renewalperiod'));
  return {
    unit,
    limit,
    remaining,
    resetMs: resetMs(read('reset'), epochMs),
    windowMs: namedMs ?? (periodS ? periodS * SECOND_MS : undefined),
  };
}

/** A number; `-1` stands for "unknown" at some providers. */
function amount(text: string | undefined, least = 0): number | undefined {
  const value = DECIMAL.test(String(text)) ? Number(text) : NaN;
  return value >= least && value < Infinity ? value : undefined;
}

function resetMs(text: string | undefined, epochMs = NaN): number | undefined {
  if (!text) return undefined;
  const value = amount(text);
  if (value !== undefined) {
    if (value < FIRST_DATE_S) return plausible(value * SECOND_MS);
    return plausible((value < FIRST_DATE_MS ? value * SECOND_MS : value) - epochMs);
  }
  if (TIMESTAMP.test(text)) return plausible(Date.parse(text) - epochMs);
  const lastsMs = durationMs(text);
  return lastsMs === undefined ? undefined : plausible(lastsMs);
}

/** `6m0s`, `1.57s`, `12ms`; undefined for anything else. */
export function durationMs(text: string): number | undefined {
  const parts: (string | undefined)[] | undefined = text === '' ? undefined : DURATION.exec(text)?.slice(1);
  return parts?.reduce<number>((total, part, i) => total + Number(part ?? 0) * (UNITS_MS[i] as number), 0);
}

/**
 * How long a refusal (429) asks to wait, in ms: {@link parseRetryAfterMs}, else the time until an exhausted limit begins anew: `x-ratelimit-reset` (seconds, a
 * duration, a moment since 1970 in seconds or ms), `ratelimit-reset`, or `ratelimit`. Those of single units say when all of it is back, which is too long.
 */
export function parseRefusalMs(headers: HeadersLike, epochMs?: number): number | undefined {
  const asked = parseRetryAfterMs(headers, epochMs);
  if (asked !== undefined) return asked;
  const read = headerReader(headers);
  for (const name of ['x-ratelimit', 'ratelimit']) {
    const remaining = amount(read(`${name}-remaining`));
    const waitMs = remaining ? undefined : resetMs(read(`${name}-reset`), epochMs);
    if (waitMs !== undefined) return waitMs;
  }
  // `limit=100, remaining=0, reset=30`, and `"default";r=0;t=30`.
  const text = read('ratelimit')?.slice(0, 500) ?? '';
  const [remaining] = /\b(?:remaining|r)=(\d{1,12})\b/.exec(text)?.slice(1) ?? [];
  const [reset] = /\b(?:reset|t)=(\d{1,12})\b/.exec(text)?.slice(1) ?? [];
  return Number(remaining ?? 0) > 0 ? undefined : resetMs(reset, epochMs);
}

/** The shortest window that a policy names, in ms: `ratelimit-policy: "default";q=100;w=60`, of the IETF's draft. Undefined without. */
export function parseWindowMs(headers: HeadersLike): number | undefined {
  const text = headerReader(headers)('ratelimit-policy')?.slice(0, 500) ?? '';
  const windows = Array.from(text.matchAll(/;\s?w=(\d{1,9})\b/g), ([, seconds]) => Number(seconds) * SECOND_MS).filter((ms) => ms > 0);
  return windows.length === 0 ? undefined : Math.min(...windows);
}

/** On a clock that does not count from 1970 every date is far away. */
function plausible(waitMs: number): number | undefined {
  return Math.abs(waitMs) <= LONGEST_MS ? Math.max(0, waitMs) : undefined;
}
