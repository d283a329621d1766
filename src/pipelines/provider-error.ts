import { evidenceOf, headerReader } from '../../operators/build.js';
import type { ResponseLike } from '../../operators/index.js';
import { classifyError } from '../../operators/index.js';

/**
 * An answer of the provider that is not a success, with what a classifier looks at. The message is the provider's own, its first 2,000 characters in one
 * line. Of a page in HTML or XML it has the status and the type alone.
 * @beta
 */
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

/**
 * An answer or a part of one, which may be an error that came too late for a status, or the page of a gateway, of which nothing is quoted.
 *
 * @throws ProviderError, UnreadableAnswer
 */
export function answerIn<T>(json: T, response?: ResponseLike): T & object {
  const { error } = Object(json) as { readonly error?: ErrorBody | string | null };
  if (error) throw lateError(error);
  if (typeof json !== 'object' || json === null) throw new UnreadableAnswer(`the answer is no JSON object${about(response)}`);
  return json;
}

/** A body behind a status of success that is no answer: the page of a gateway, or an answer that was cut off. Another attempt may get a whole one. */
class UnreadableAnswer extends SyntaxError {
  readonly code = 'ERR_UNREADABLE_ANSWER';
}

function about(response: ResponseLike | undefined): string {
  return response === undefined ? '' : ` (${kindOf(response)})`;
}

/**
 * The error of a stream that ended without its finish.
 *
 * @param response - undefined when something of it was read
 */
export function streamFault(finish: string, headers: Headers, response: ResponseLike | undefined): Error {
  if (response !== undefined && !/^(?:text\/event-stream|no content type)$/.test(typeOf(response)))
    return new UnreadableAnswer(`the answer is no stream of events${about(response)}`);
  const message = `the stream was cut off: it ended without ${finish}`;
  return new ProviderError(undefined, headers, message, 'ERR_STREAM_PREMATURE_CLOSE', undefined, undefined);
}

/** The error of a client, which quotes the page that it got in place of an answer: the same object, without the page, and in one line. */
export function withoutPage(error: unknown, response: ResponseLike): void {
  if (!(error instanceof Error)) return;
  const { message } = error;
  const status = String(response.status);
  const rest = message.startsWith(`${status} `) ? message.slice(status.length + 1) : message;
  const isEmpty = rest === 'status code (no body)';
  const now = isEmpty
    ? `the body is empty (${typeOf(response)})`
    : isPage(rest)
      ? `the body is a page (${typeOf(response)})`
      : oneLine(rest);
  if (now === rest) return;
  error.message = rest === message ? now : `${status} ${now}`;
  // Begins with the message.
  error.stack = error.stack?.replace(message, () => error.message) as string;
}

/** The error that a response stands for, whose body has been read. */
export function refusalOf(response: Response, text: string): ProviderError {
  let error: unknown;
  try {
    ({ error } = Object(JSON.parse(text)) as { readonly error?: unknown });
  } catch {
    // Not JSON: a proxy in between, most likely.
  }
  const body: ErrorBody = typeof error === 'string' ? { message: error } : (Object(error) as ErrorBody);
  const message = messageOf(body.message) ?? messageIn(response, text);
  return providerError(response.status, response.headers, `${String(response.status)} ${message}`, body);
}

/** The start of a body that is no error of a provider, which is the best message there is; nothing of a page. */
function messageIn(response: Response, text: string): string {
  const status = oneLine(response.statusText);
  const named = (what: string): string => (status === '' ? what : `${status}: ${what}`);
  if (text.trim() === '') return named(`the body is empty (${typeOf(response)})`);
  if (isPage(text, response)) return named(`the body is a page (${typeOf(response)})`);
  return shortened(oneLine(text), 200);
}

/** The status and the type of a response, for messages. */
export function kindOf(response: ResponseLike): string {
  return `status ${String(response.status)}, ${typeOf(response)}`;
}

/** The media type of a response, without its parameters; what no type can be is not quoted. */
function typeOf(response: ResponseLike): string {
  const { headers } = response;
  const given: unknown =
    'get' in headers && typeof headers.get === 'function' ? headers.get('content-type') : Reflect.get(headers, 'content-type');
  const [type = ''] = (typeof given === 'string' ? given : '').split(';');
  return /^[\w.+-]{1,60}\/[\w.+-]{1,60}$/.test(type.trim()) ? type.trim().toLowerCase() : 'no content type';
}

/** Markup: HTML, or the XML of a gateway. */
export function isPage(text: string, response?: ResponseLike): boolean {
  return /^\s*</.test(text) || PAGE.test(text) || (response !== undefined && /\b(?:html|xml)$/.test(typeOf(response)));
}

const PAGE = /<(?:!doctype|html|head|body|title|h1|\?xml)\b/i;

/** The error that comes instead of an answer, or of its next part, when the status has said that all is well. */
export function lateError(error: ErrorBody | string): ProviderError {
  const body = typeof error === 'string' ? { message: error } : error;
  return providerError(statusIn(body.code), new Headers(), messageOf(body.message) ?? 'the answer is an error', body);
}

/**
 * What a limiter may learn from a refusal, once its body was read: nothing where money or a quota is used up, or a service tier has no room; what only the
 * body says as a header, the wait and the quota of a minute that is used up.
 */
export function lessonOf(response: ResponseLike, error: unknown): ResponseLike | undefined {
  const { status, headers } = response;
  if (status !== 429) return response;
  const { class: found, retryAfterMs, isTierOnly } = classifyError(error, { size: 1, attempt: 1, aborted: false });
  if (found !== 'throttled' || isTierOnly) return undefined;
  if (retryAfterMs === undefined) return response;
  const read = headerReader(headers);
  const isTold = read('retry-after-ms') !== undefined || read('retry-after') !== undefined;
  const fromBody = new Map(isTold ? [] : [['retry-after-ms', String(retryAfterMs)]]);
  if (isQuotaOfMinute(error)) fromBody.set('ratelimit-policy', '"minute";w=60');
  return { status, headers: { get: (wanted) => read(wanted) ?? fromBody.get(wanted) ?? null } };
}

/** Whether its body says that the quota of a minute is used up, as Gemini's does. */
export function isQuotaOfMinute(error: unknown): boolean {
  return evidenceOf(error).some(({ details }) => details.codes.some((code) => /PerMinute/.test(code)));
}

/** More came than is ever read of an answer, or of one event. */
export function tooLongError(message: string): ProviderError {
  return lateError({ message, code: 'ERR_ANSWER_TOO_LONG' });
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

/** The words of the provider in one line. A gateway puts the page of another server there. */
function messageOf(message: unknown): string | undefined {
  if (typeof message !== 'string' || message.trim() === '') return undefined;
  return isPage(message) ? 'the message is a page' : shortened(oneLine(message), MAX_MESSAGE);
}

function oneLine(text: string): string {
  return text.replaceAll(/[\s\p{Cc}\u2028\u2029]+/gu, ' ').trim();
}

function word(value: unknown): string | undefined {
  return typeof value === 'string' ? shortened(value, MAX_WORD) : undefined;
}

function shortened(text: string, most: number): string {
  return text.length > most ? `${text.slice(0, most)}…` : text;
}
