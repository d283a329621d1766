import { fieldOf, tryRead } from '../repair/field-of.js';

/** The headers of a response: a `Headers` object, or a record as Node and SDKs have it. */
export type HeadersLike = { get(name: string): string | null } | Readonly<Record<string, string | readonly string[] | undefined>>;

/** What a limiter learns from: the status and headers of a response, as `fetch` and every SDK error carry them. */
export interface ResponseLike {
  readonly status: number;
  readonly headers: HeadersLike;
}

/** The year 2001. A clock that is not there yet does not count from 1970, and no date can be compared with it. */
const FIRST_EPOCH_MS = 1e12;

/** A number without a sign. */
export const DECIMAL = /^\d+(?:\.\d+)?$/;

/** An HTTP date in either form that names its zone; `Date.parse` alone would take `-5` for a year. */
const HTTP_DATE = /^[A-Z][a-z]+, .+ GMT$/;

/**
 * Reads headers by their lower-case names, in whatever spelling a record has them; the first of several values. None of what is no record, or cannot be
 * read. A record is gone through once, and not for every name.
 */
export function headerReader(given: HeadersLike): (name: string) => string | undefined {
  const headers = Object(given) as HeadersLike;
  const get = fieldOf(headers, 'get');
  if (typeof get === 'function') return (name) => tryRead(() => textOf(get.call(headers, name)));
  const lowered = Object.create(null) as Record<string, unknown>;
  for (const name of tryRead(() => Object.keys(headers)) ?? []) lowered[name.toLowerCase()] ??= fieldOf(headers, name);
  return (name) => tryRead(() => textOf(lowered[name]));
}

/**
 * How long the other side asks to wait, in ms: `retry-after-ms`, else `retry-after` as seconds (fractions allowed) or as an
 * HTTP date. A date needs `epochMs`, the time now in ms since 1970, and is ignored without it; one in the past means 0.
 * Anything else (negative, not a number) is ignored. However long it is, it is what they ask for.
 */
export function parseRetryAfterMs(headers: HeadersLike, epochMs?: number): number | undefined {
  const read = headerReader(headers);
  const text = String(read('retry-after'));
  return scaled(String(read('retry-after-ms')), 1) ?? scaled(text, 1000) ?? untilDate(text, epochMs);
}

function textOf(value: unknown): string | undefined {
  const first: unknown = Array.isArray(value) ? value[0] : value;
  return typeof first === 'string' || typeof first === 'number' ? String(first).trim() : undefined;
}

function scaled(text: string, unitMs: number): number | undefined {
  return DECIMAL.test(text) ? Math.min(Number(text) * unitMs, Number.MAX_SAFE_INTEGER) : undefined;
}

function untilDate(text: string, epochMs = 0): number | undefined {
  const at = epochMs >= FIRST_EPOCH_MS && HTTP_DATE.test(text) ? Date.parse(text) : NaN;
  return Number.isNaN(at) ? undefined : Math.max(0, at - epochMs);
}
