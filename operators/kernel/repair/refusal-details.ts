import { durationMs } from '../limits/rate-headers.js';
import { fieldOf, tryRead } from './field-of.js';

/** What the body of a refusal says. */
export interface RefusalDetails {
  /** How long to wait, in ms. */
  readonly hintMs: number | undefined;
  /** Codes in its details, as `enforced_spend_limit_reached`, and the names of quotas that were used up. */
  readonly codes: readonly string[];
}

/** Details looked at, and characters of a message. */
const MOST_DETAILS = 32;
const MOST_TEXT = 4096;

/** A longer wait (about 25 days) is a mistake of the sender. */
const LONGEST_MS = 2_147_483_647;

/** `Please try again in 6m0s`, `retry after 20 seconds`: at most four amounts, each with its unit. */
const IN_WORDS =
  /\b(?:try(?:ing)? again|retry(?:ing)?|available|wait) (?:in|after|for)? ?((?:\d{1,9}(?:\.\d{1,9})? ?(?:ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hours?|d|days?)\b ?){1,4}|(?:\d{1,9}(?:\.\d{1,9})?(?:ms|s|m|h|d)){1,4}\b)/i;
/** Also without a unit: a number that has none is passed by at once, and not tried again from each of its digits. */
const AMOUNT = /(\d{1,9}(?:\.\d{1,9})?) ?(ms|milli|s|m|h|d)?/gi;
const UNIT_MS: Readonly<Record<string, number>> = { ms: 1, milli: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/**
 * What the bodies of an error say about a refusal, outermost first: `retry_after_ms`, `retry_after` in seconds, `google.rpc.RetryInfo`, and a wait in the
 * words of a message. Nothing is read beyond bounds, and nothing throws.
 */
export function refusalDetails(bodies: readonly unknown[], messages: readonly string[]): RefusalDetails {
  const details = bodies.flatMap((body) => detailsOf(fieldOf(body, 'details')));
  const all = [...bodies, ...details];
  const hints = [
    ...all.map((body) => amountOf(fieldOf(body, 'retry_after_ms'), 1)),
    ...all.map((body) => amountOf(fieldOf(body, 'retry_after'), 1000)),
    ...details.map((detail) => delayOf(fieldOf(detail, 'retryDelay'))),
    ...messages.map(inWords),
  ];
  const violations = details.flatMap((detail) => detailsOf(fieldOf(detail, 'violations')));
  const codes = [...details.map((detail) => fieldOf(detail, 'error_code')), ...violations.map((each) => fieldOf(each, 'quotaId'))];
  return {
    hintMs: hints.find((hint) => hint !== undefined && hint <= LONGEST_MS),
    codes: codes.filter((code): code is string => typeof code === 'string'),
  };
}

/** A list of details, or the one there is. */
function detailsOf(value: unknown): unknown[] {
  if (typeof value !== 'object' || value === null) return [];
  return tryRead(() => (Array.isArray(value) ? (value as unknown[]).slice(0, MOST_DETAILS) : [value])) ?? [];
}

function amountOf(value: unknown, unitMs: number): number | undefined {
  const amount = typeof value === 'string' && /^\d{1,15}(?:\.\d{1,15})?$/.test(value) ? Number(value) : value;
  return typeof amount === 'number' && amount >= 0 && amount < Infinity ? amount * unitMs : undefined;
}

/** `1.57s`, or `{ seconds, nanos }`. */
function delayOf(value: unknown): number | undefined {
  if (typeof value === 'string') return value.length > 40 ? undefined : durationMs(value);
  const seconds = amountOf(fieldOf(value, 'seconds'), 1000);
  const nanos = amountOf(fieldOf(value, 'nanos'), 1e-6);
  return seconds === undefined && nanos === undefined ? undefined : (seconds ?? 0) + (nanos ?? 0);
}

function inWords(message: string): number | undefined {
  const said = IN_WORDS.exec(message.slice(0, MOST_TEXT))?.[1];
  if (said === undefined) return undefined;
  let waitMs = 0;
  for (const [, amount, unit = ''] of said.matchAll(AMOUNT)) waitMs += Number(amount) * (UNIT_MS[unit.toLowerCase()] ?? 0);
  return waitMs;
}
