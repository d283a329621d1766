import { fieldOf, tryRead } from '../repair/field-of.js';

/** The headers of a response: a `Headers` object, or a record as Node and SDKs have it. */
export type HeadersLike = { get(name: string): string | null } | Readonly<Record<string, string | readonly string[] | undefined>>;

/**
 * What a limiter learns from: the status and headers of a response, as `fetch` and every SDK error carry them.
 * @stable
 */
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
/** The third form, of C's `asctime`, in GMT without saying so. */
const ASCTIME = /^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}$/;

/** From here on a number of seconds is a moment since 1970 (the year 2001). */
const FIRST_EPOCH_S = 1e9;

/** A longer wait (about 25 days) is a mistake of the sender. */
const LONGEST_MS = 2_147_483_647;

/**
 * Reads one header by its lower-case name: the first of several values, trimmed; undefined when there is none.
 * @beta
 */
export type HeaderReader = (name: string) => string | undefined;

/**
 * Makes a reader of response headers that ignores the case of their names: of a `Headers` object, or of a record as Node and SDKs have it.
 *
 * - **Reads** all names in one pass, once, when it is made; an object that can only be asked by name is asked at each read.
 * - **Never throws:** headers that cannot be read have no values.
 *
 * @beta
 * @param part - lower-case part of a name: the reader is undefined when no header name contains it, and reads only headers that do. @defaultValue ''
 * @example
 * ```ts
 * import { headerReader } from 'sluice/operators/build';
 *
 * const read = headerReader({ 'X-RateLimit-Remaining': '12' });
 * [read('x-ratelimit-remaining'), read('retry-after')]; // => ['12', undefined]
 * headerReader(new Headers({ date: 'today' }), 'ratelimit'); // => undefined
 * ```
 */
export function headerReader(given: HeadersLike): HeaderReader;
export function headerReader(given: HeadersLike, part: string): HeaderReader | undefined;
export function headerReader(given: HeadersLike, part = ''): HeaderReader | undefined {
  const headers = Object(given) as HeadersLike;
  const get = fieldOf(headers, 'get');
  const isAsked = typeof get === 'function';
  const values = tryRead(() => valuesOf(headers, isAsked, part));
  if (values) return part === '' || Object.keys(values).length > 0 ? (name) => tryRead(() => textOf(values[name])) : undefined;
  return (name) => (isAsked ? tryRead(() => textOf(get.call(headers, name))) : undefined);
}

/** The values by lower-case name; undefined for an object that can only be asked by name. */
function valuesOf(headers: object, isAsked: boolean, part: string): Record<string, unknown> | undefined {
  if (isAsked && !(Symbol.iterator in headers)) return undefined;
  const values = Object.create(null) as Record<string, unknown>;
  const all = isAsked
    ? (headers as Iterable<[string, unknown]>)
    : Object.keys(headers).map((name) => [name, fieldOf(headers, name)] as const);
  for (const [name, value] of all) {
    const key = name.toLowerCase();
    if (key.includes(part)) values[key] ??= value;
  }
  return values;
}

/**
 * How long the other side asks to wait, in ms: `retry-after-ms`, else `retry-after` as seconds (fractions allowed) or as an
 * HTTP date in any of its three forms. A number that can only be a moment since 1970 is one. A moment needs `epochMs`, the time now in ms since 1970,
 * and is ignored without it; one in the past means 0. Anything else (negative, not a number, longer than 24.8 days) is ignored.
 */
export function parseRetryAfterMs(headers: HeadersLike, epochMs?: number): number | undefined {
  const read = headerReader(headers);
  const text = String(read('retry-after'));
  const waits = [scaled(String(read('retry-after-ms')), 1, epochMs), scaled(text, 1000, epochMs), untilDate(text, epochMs)];
  return waits.find((waitMs) => waitMs !== undefined && waitMs <= LONGEST_MS);
}

function textOf(value: unknown): string | undefined {
  const first: unknown = Array.isArray(value) ? value[0] : value;
  return typeof first === 'string' || typeof first === 'number' ? String(first).trim() : undefined;
}

function scaled(text: string, unitMs: number, epochMs = 0): number | undefined {
  if (!DECIMAL.test(text)) return undefined;
  const value = Number(text);
  if (value < FIRST_EPOCH_S) return value * unitMs;
  // Milliseconds, as clocks have them, or seconds.
  const at = value < FIRST_EPOCH_MS ? value * 1000 : value;
  return epochMs >= FIRST_EPOCH_MS ? Math.max(0, at - epochMs) : undefined;
}

function untilDate(text: string, epochMs = 0): number | undefined {
  const isDate = HTTP_DATE.test(text) || ASCTIME.test(text);
  const at = epochMs >= FIRST_EPOCH_MS && isDate ? Date.parse(HTTP_DATE.test(text) ? text : `${text} GMT`) : NaN;
  return Number.isNaN(at) ? undefined : Math.max(0, at - epochMs);
}

/** The longest pause of an account that an answer can ask for, in ms: a day. */
export const LONGEST_HINT_MS = 86_400_000;

/** The wait that an answer asks for, at most a day; a longer one emits `hintClamped`. */
export function boundedHintMs(askedMs: number, tell?: (note: { type: 'hintClamped'; askedMs: number; pauseMs: number }) => void): number {
  if (askedMs <= LONGEST_HINT_MS) return askedMs;
  tell?.({ type: 'hintClamped', askedMs, pauseMs: LONGEST_HINT_MS });
  return LONGEST_HINT_MS;
}
