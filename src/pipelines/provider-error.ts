import { classifyError } from '../../operators/classify-error.js';
import { headerReader } from '../../operators/toolkit.js';
import type { ResponseLike } from '../../operators/types.js';

/** An answer of the provider that is not a success, with what a classifier looks at. The message is the provider's own, its first 2,000 characters. */
export class ProviderError extends Error {
  override readonly name = 'ProviderError';

  constructor(
    /** Undefined when the error came after a status of success. */
    readonly status: number | undefined,
    readonly headers: Headers,
    message: string,
    readonly code: string | undefined,
    readonly type: string | undefined,
    /** Which part of the request is at fault, for example `input[3]`. */
    readonly param: string | undefined,
    /** What some providers say beside it: how long to wait, which quota is used up. */
    readonly details?: unknown,
  ) {
    super(message);
  }
}

/** What the provider says in the `error` of a body. */
export interface ErrorBody {
  readonly message?: unknown;
  readonly code?: unknown;
  readonly type?: unknown;
  readonly param?: unknown;
  readonly details?: unknown;
  readonly retry_after?: unknown;
  readonly retry_after_ms?: unknown;
}

/** The error that a response stands for, whose body has been read. */
export function refusalOf(response: Response, text: string): ProviderError {
  let error: ErrorBody = {};
  try {
    error = (JSON.parse(text) as { error?: ErrorBody } | null)?.error ?? {};
  } catch {
    // Not JSON: a proxy in between, most likely. The start of its answer is the best message there is.
  }
  const message = word(error.message, MAX_MESSAGE) ?? (shortened(text, 200) || response.statusText || 'no message');
  return providerError(response.status, response.headers, `${String(response.status)} ${message}`, error);
}

/** The error that comes instead of an answer, or of its next part, when the status has said that all is well. */
export function lateError(error: ErrorBody | string): ProviderError {
  const body = typeof error === 'string' ? { message: error } : error;
  return providerError(statusIn(body.code), new Headers(), word(body.message, MAX_MESSAGE) ?? 'the answer is an error', body);
}

/**
 * What a limiter may learn from a refusal, once its body was read: nothing where money or a quota is used up, or a service tier has no room; the wait that
 * only the body asks for as a header.
 */
export function lessonOf(response: ResponseLike, error: unknown): ResponseLike | undefined {
  const { status, headers } = response;
  if (status !== 429) return response;
  const { class: found, retryAfterMs, isTierOnly } = classifyError(error, { size: 1, attempt: 1, aborted: false });
  if (found !== 'throttled' || isTierOnly) return undefined;
  if (retryAfterMs === undefined) return response;
  const read = headerReader(headers);
  const asked = read('retry-after-ms') ?? read('retry-after') ?? String(retryAfterMs);
  const name = read('retry-after-ms') === undefined && read('retry-after') === undefined ? 'retry-after-ms' : '';
  return { status, headers: { get: (wanted) => (wanted === name ? asked : (read(wanted) ?? null)) } };
}

/** Some providers have the status for a code there. */
function statusIn(code: unknown): number | undefined {
  return typeof code === 'number' && code >= 400 && code < 600 ? code : undefined;
}

function providerError(
  status: number | undefined,
  headers: Headers,
  message: string,
  { code, type, param, ...rest }: ErrorBody,
): ProviderError {
  const { details, retry_after, retry_after_ms } = rest;
  const said = retry_after === undefined && retry_after_ms === undefined ? details : [{ retry_after, retry_after_ms }, ...[details].flat()];
  return new ProviderError(status, headers, message, word(code), word(type), word(param), said);
}

/** Some servers say the whole request once more. */
const MAX_MESSAGE = 2000;
/** Longer than any code, type or name of a part. */
const MAX_WORD = 200;

function word(value: unknown, most = MAX_WORD): string | undefined {
  return typeof value === 'string' ? shortened(value, most) : undefined;
}

function shortened(text: string, most: number): string {
  return text.length > most ? `${text.slice(0, most)}…` : text;
}
