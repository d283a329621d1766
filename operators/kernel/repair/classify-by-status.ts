import type { HeadersLike } from '../limits/headers.js';
import { parseRetryAfterMs } from '../limits/headers.js';
import { parseRefusalMs } from '../limits/rate-headers.js';
import { fieldOf } from './field-of.js';
import type { Classify, ErrorClass, Verdict } from './verdict.js';

/** Statuses that do not follow the rule of their hundred: another 4xx refuses the call as such, another 5xx may pass. */
const BY_STATUS: Readonly<Record<number, ErrorClass>> = {
  400: 'itemFault',
  408: 'transient',
  409: 'transient',
  413: 'tooLarge',
  422: 'itemFault',
  425: 'transient',
  429: 'throttled',
  501: 'fatal',
};

/** This package's own errors, out of a pipeline inside the work; the others are final. */
const BY_CODE: Readonly<Record<string, ErrorClass>> = {
  FLOW_ITEM_TOO_HEAVY: 'itemFault',
  FLOW_BATCH_SHAPE: 'contract',
  FLOW_RATE_LIMITED: 'throttled',
  FLOW_BREAKER_OPEN: 'transient',
  FLOW_RETRY_SHARE: 'transient',
  FLOW_ATTEMPT_TIMEOUT: 'timeout',
  FLOW_CLEARED: 'cancelled',
  FLOW_SEQUENCE_GAP: 'contract',
  // Another answer may be whole.
  FLOW_TOOL_CALL_UNFINISHED: 'transient',
  FLOW_CALLBACK: 'itemFault',
};

const BY_NAME: Readonly<Record<string, ErrorClass>> = {
  AbortError: 'cancelled',
  TimeoutError: 'timeout',
  TypeError: 'fatal',
  ReferenceError: 'fatal',
  RangeError: 'fatal',
};

const CONNECTION = /^(?:E(?:CONN|NET|HOST|PIPE|TIMEDOUT|NOTFOUND|AI_AGAIN)|UND_ERR_(?:SOCKET|CONNECT|CLOSED|DESTROYED))/;

/** A `fetch` that failed, which is a `TypeError` and no bug. */
const FAILED_FETCH = /^(?:fetch failed|failed to fetch|load failed|networkerror |terminated$|network (?:error|request failed))/i;

/** What an HTTP status of 400 or more says. */
export function classOfStatus(status: number): ErrorClass {
  return BY_STATUS[status] ?? (status < 500 ? 'fatal' : 'transient');
}

/** What an error of this package says; another copy may know codes that this one does not. */
export function verdictByCode(code: string, retryAfterMs: unknown): Verdict {
  return { class: BY_CODE[code] ?? 'fatal', ...(typeof retryAfterMs === 'number' && retryAfterMs < Infinity && { retryAfterMs }) };
}

/**
 * Sorts an error by its HTTP status, else by the code of its connection, else by its name; an error without any of them is guessed to be about
 * one of the items. A fraction of `classifyError`, which also reads the bodies and words of SDKs' errors and looks behind causes. Never throws: a
 * field that cannot be read says nothing.
 * @beta
 */
export const classifyByStatus: Classify = (error, { aborted, epochMs }) => {
  const of = (name: string): unknown => fieldOf(error, name);
  const code = of('code');
  if (typeof code === 'string' && code.startsWith('FLOW_')) return verdictByCode(code, of('retryAfterMs'));
  if (aborted) return { class: 'cancelled' };
  const response = of('response');
  const status = of('status') ?? of('statusCode') ?? fieldOf(response, 'status');
  if (typeof status === 'number' && status >= 400) {
    const verdict: Verdict = { class: classOfStatus(status) };
    const headers = of('headers') ?? of('responseHeaders') ?? fieldOf(response, 'headers');
    const waitMs = (status === 429 ? parseRefusalMs : parseRetryAfterMs)(headers as HeadersLike, epochMs);
    return waitMs === undefined ? verdict : { ...verdict, retryAfterMs: waitMs };
  }
  const causeCode = fieldOf(of('cause'), 'code');
  if (CONNECTION.test(textIn(code ?? causeCode)) || FAILED_FETCH.test(textIn(of('message')))) return { class: 'transient' };
  const named = BY_NAME[textIn(of('name'))];
  // An error may have the name of what every object has.
  return typeof named === 'string' ? { class: named } : { class: 'itemFault', unrecognised: true };
};

function textIn(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
