import { headerReader, parseRetryAfterMs } from './kernel/limits/headers.js';
import { parseRefusalMs } from './kernel/limits/rate-headers.js';
import { classOfStatus, verdictByCode } from './kernel/repair/classify-by-status.js';
import { fieldOf } from './kernel/repair/field-of.js';
import { mayPass } from './kernel/repair/verdict.js';
import { isFlowError } from './options/errors.js';
import type { ClassifyContext, ErrorClass, Verdict } from './options/types.js';
import type { Evidence } from './shell/calls/error-evidence.js';
import { evidenceIn, isBug, linksOf } from './shell/calls/error-evidence.js';

/** For an error outside of an operator: that of a call for one item. */
const ALONE: ClassifyContext = { size: 1, attempt: 1, aborted: false };

/** Words that know better than the status beside them: an exhausted quota is a 429, an unknown option a 400. */
const ABOVE_STATUS: ReadonlyMap<string, ErrorClass> = /* @__PURE__ */ classes({
  fatal:
    'insufficient_quota billing_hard_limit_reached billing_error enforced_spend_limit_reached spend_limit_reached credits_exhausted invalid_api_key model_not_found unknown_parameter unsupported_parameter ' +
    'RateLimitQuotaExhaustedError',
  tooLarge: 'context_length_exceeded max_tokens_per_request request_too_large array_above_max_length',
});

/** Words for errors that carry no status: sockets, aborts, JSON-RPC (MCP), and errors sent inside a stream that began well. */
const WITHOUT_STATUS: ReadonlyMap<string, ErrorClass> = /* @__PURE__ */ classes({
  cancelled: 'AbortError ABORT_ERR APIUserAbortError UND_ERR_ABORTED CanceledError ERR_CANCELED',
  timeout: 'TimeoutError APIConnectionTimeoutError UND_ERR_HEADERS_TIMEOUT UND_ERR_BODY_TIMEOUT REQUEST_TIMEOUT -32001',
  throttled: 'rate_limit_error rate_limit_exceeded',
  transient:
    'overloaded_error api_error server_error timeout_error ECONNRESET ECONNREFUSED ECONNABORTED ENOTFOUND EAI_AGAIN EPIPE ETIMEDOUT ENETDOWN ' +
    'ENETUNREACH EHOSTDOWN EHOSTUNREACH ERR_STREAM_PREMATURE_CLOSE UND_ERR_SOCKET UND_ERR_CONNECT_TIMEOUT UND_ERR_CLOSED UND_ERR_DESTROYED ' +
    'UND_ERR_RES_CONTENT_LENGTH_MISMATCH AI_EmptyResponseBodyError CONNECTION_CLOSED SEND_FAILED -32000 -32603 ' +
    // Of this package, behind a status of success: no JSON object, or an error.
    'ERR_UNREADABLE_ANSWER ProviderError',
  tooLarge: 'AI_TooManyEmbeddingValuesForCallError',
  itemFault: 'invalid_request_error content_filter ERR_ANSWER_TOO_LONG AI_NoObjectGeneratedError AI_InvalidPromptError -32602 -32002',
  contract: 'AI_JSONParseError AI_TypeValidationError AI_InvalidResponseDataError INVALID_RESULT',
  // `McpError` and the two behind it are those of MCP with a code that is not above.
  fatal:
    'authentication_error permission_error not_found_error AI_NoSuchModelError AI_NoSuchProviderError AI_UnsupportedModelVersionError ' +
    'AI_LoadAPIKeyError AI_LoadSettingError AI_InvalidArgumentError AI_UnsupportedFunctionalityError McpError ProtocolError SdkError ' +
    'UND_ERR_INVALID_ARG ERR_INVALID_URL CERT_HAS_EXPIRED ERR_TLS_CERT_ALTNAME_INVALID DEPTH_ZERO_SELF_SIGNED_CERT ' +
    'SELF_SIGNED_CERT_IN_CHAIN UNABLE_TO_VERIFY_LEAF_SIGNATURE',
});

/** The client of MCP reports an abort as a timeout, with the reason as its message. */
const ABORTED = /^(?:MCP error -32001: )?AbortError:/;

/** What says "the connection failed" without saying how; believed when nothing else in the chain says more. */
const LAST_RESORT: readonly (readonly [RegExp, ErrorClass])[] = [
  [/^Request was aborted\.$/, 'cancelled'],
  [/^Request timed out\.$/, 'timeout'],
  // Of Node, behind its `fetch failed`: the next one would end there as well.
  [/^(?:redirect count exceeded|bad port)$/, 'fatal'],
  // Node, Chrome and Safari (which may add the host), Firefox, the SDKs, a body that breaks off.
  [/^(?:fetch failed|failed to fetch|load failed)(?: \(.+\))?$/i, 'transient'],
  [/^NetworkError when attempting to fetch resource\.?$/, 'transient'],
  [/^(?:connection error\.|terminated|network error)$/i, 'transient'],
  // React Native, Safari, workers, Deno.
  [/^(?:network request failed|network connection lost\.?|the network connection was lost\.)$/i, 'transient'],
  [/^(?:the internet connection appears to be offline\.$|error sending request for url )/i, 'transient'],
];

/** An error made from a response by hand: `429 Too Many Requests`, `HTTP 503`, `Request failed with status code 429`. */
const STATUS_IN_TEXT = /^(?:HTTP |(?:request failed with )?status(?: code)?:? )?([45]\d\d)\b(?! (?:items?|tokens?|characters?|bytes)\b)/i;

/** Money or a quota is used up: waiting does not help. */
const OUT_OF_CREDIT =
  /credit balance is too low|billing hard limit|reached your (?:specified )?API usage limits|(?:monthly|account) (?:spend(?:ing)?|usage) limit|insufficient credits/i;
/** A quota, of a minute or of a month: only where the body says nothing of a wait, waiting does not help. */
const OUT_OF_QUOTA = /exceeded your current quota/i;
const QUOTA_OF_A_DAY = /PerDay/;
const QUOTA_OF_A_MINUTE = /PerMinute/;

/** A service tier without room, of an account that has some. */
const NO_CAPACITY: ReadonlySet<string> = new Set(['resource_unavailable', 'capacity_exceeded']);
const TIER_IN_WORDS = /\bflex\b|service[ _]tier|no capacity/i;

/** Where the items of a batch stand in a request, as `input[3]`, `$.input[3]` or `messages.3`. */
const ITEM_PATH = /\b(?:inputs?|messages|prompts?|texts|items|documents|contents|requests)(?:\[(\d{1,9})\]|\.(\d{1,9})\b)/g;

/** How providers write down a size and its limit. */
const SIZES: readonly RegExp[] = [
  /requested (?<actual>\d[\d,]{0,15}) tokens, max (?<limit>\d[\d,]{0,15})/i,
  /maximum context length is (?<limit>\d[\d,]{0,15}) tokens.{0,40}?(?:requested|resulted in) (?:about )?(?<actual>\d[\d,]{0,15})/i,
  // From the first digit only.
  /(?<!\d)(?<actual>\d[\d,]{0,15}) tokens > (?<limit>\d[\d,]{0,15}) maximum/i,
  /limit (?<limit>\d[\d,]{0,15}), requested (?<actual>\d[\d,]{0,15})/i,
];

/** Statuses whose message may be about size; 429 is one because a request above a whole minute's tokens can never pass. */
const MAY_BE_ABOUT_SIZE: ReadonlySet<number | undefined> = new Set([undefined, 400, 413, 422, 429]);

/** Words and statuses about a request as a whole; any other size limit may be that of the one item an error names. */
const WHOLE_REQUEST: ReadonlySet<string> = new Set(['max_tokens_per_request', 'request_too_large', 'array_above_max_length']);

/**
 * Sorts an error of a model, an SDK, `fetch` or your own work into what can be done about it. The default of
 * `classify` in pipelines and adapters; operators default to `classifyByStatus`, which is smaller and reads the status alone. Call it from your own
 * classifier for the errors you have no opinion on.
 *
 * | evidence | class |
 * | --- | --- |
 * | 429; `rate_limit_error`; 498, and a 429 of a service tier without capacity (`isTierOnly`) | `throttled` |
 * | 408, 409, 425, 5xx; a connection that was refused, reset or not found; `fetch failed`; a page or an error in place of an answer of status 200 | `transient` |
 * | `AttemptTimeoutError`, `TimeoutError`, an SDK's own timeout | `timeout` |
 * | 413; `context_length_exceeded`, `max_tokens_per_request`; a message that gives a size and its limit | `tooLarge` |
 * | 400, 422; an error without any evidence | `itemFault` |
 * | 401, 403, 404, 405 and other 4xx; `insufficient_quota`, spend limits, `model_not_found`; `DeadlineError`, `ClosedError`, … | `fatal` |
 * | a bug: a `TypeError` that is no failed `fetch`, a `ReferenceError`, a `RangeError` | `fatal` |
 * | `BatchShapeError`; an answer the client cannot read | `contract` |
 * | the header `x-should-retry`: `true` | `transient`, when it is not one of the first three |
 * | the header `x-should-retry`: `false` | `fatal`, when it is one of those |
 * | a loop of redirects; a port that `fetch` never goes to | `fatal` |
 * | whatever a call ends with that we aborted; an `AbortError` that we did not cause | `cancelled` |
 *
 * - **Reads** `status`, `statusCode`, `status_code`, `response.status`, `$metadata.httpStatusCode`, also when they are text; `headers`,
 *   `responseHeaders`, `response.headers`; `code`, `type`, `param` and `message`, also of the bodies under `error`, `data`, `body`,
 *   `response` and `responseBody`. When nothing else says anything, a status at the start of a message (`HTTP 503`).
 * - **Looks behind** `cause`, `lastError` and `errors` (the latest first), 16 errors at most; the nearest that says something decides.
 * - **No evidence means `itemFault`:** a plain throw of your work is most often about one of its items, and splitting finds out
 *   which, in at most twice as many calls as items. The verdict says `unrecognised`. Classify it as `fatal` yourself where that is
 *   too dear.
 * - **A bug is `fatal`:** another try meets it again, and parts of a batch meet it one by one. It counts also as the `cause` of another error,
 *   and only when nothing else in the chain says anything.
 * - **An `AbortError` that we did not cause** is `cancelled` as well: the call was ended on purpose, so it is not retried.
 * - **`retryAfterMs`** comes from `retry-after-ms`, else `retry-after` (seconds, a moment, a date); of a 429 also from `x-ratelimit-reset`, `ratelimit-reset`
 *   and `ratelimit`, else from its body: `retry_after_ms`, `retry_after`, `google.rpc.RetryInfo`, "try again in 1.5s". A moment only when
 *   `context.epochMs` tells the time; above 24.8 days none.
 * - **A quota of a day** (Gemini), or one without a name, is `throttled` when the answer says how long to wait, else `fatal`.
 * - **`blame`** are the indices the error names (`input[3]`), when all of them are below `context.size`. A
 *   `context_length_exceeded` that names items is their fault, not the batch's: `itemFault`.
 *
 * Never throws on strange errors: `undefined`, strings, cycles and foreign objects are sorted like any other.
 *
 * @stable
 * @example
 * ```ts
 * import { classifyError } from 'sluice/operators';
 *
 * const error = { status: 429, headers: { 'retry-after': '1.5' } };
 * classifyError(error, { size: 8, attempt: 1, aborted: false }); // => { class: 'throttled', retryAfterMs: 1500 }
 * ```
 * @example The error names the item.
 * ```ts
 * import { classifyError } from 'sluice/operators';
 *
 * const error = { status: 400, message: "'$.input[3]' is invalid" };
 * classifyError(error, { size: 8, attempt: 1, aborted: false }); // => { class: 'itemFault', blame: [3] }
 * classifyError({ status: 429 }).class; // => 'throttled'
 * ```
 */
export function classifyError(error: unknown, context: ClassifyContext = ALONE): Verdict {
  // Our own errors come first: an attempt that timed out was aborted by us as well.
  if (context.aborted && !isFlowError(error)) return { class: 'cancelled' };
  const links = linksOf(error);
  for (const link of links) {
    const verdict = isFlowError(link) ? verdictByCode(link.code, fieldOf(link, 'retryAfterMs')) : plainVerdict(evidenceIn(link), context);
    if (verdict !== undefined) return verdict;
  }
  const messages = links.flatMap((link) => evidenceIn(link).messages);
  const guess = LAST_RESORT.find(([pattern]) => messages.some((message) => pattern.test(message)));
  if (guess) return { class: guess[1] };
  const status = messages.map((message) => STATUS_IN_TEXT.exec(message)?.[1]).find((found) => found !== undefined);
  if (status !== undefined && classOfStatus(Number(status)) !== 'itemFault') return { class: classOfStatus(Number(status)) };
  // Last, because a failed `fetch` is a TypeError too.
  if (isBug(error)) return { class: 'fatal' };
  const verdict = itemFault(evidenceIn(error), context);
  return verdict.blame ? verdict : { ...verdict, unrecognised: true };
}

/** Undefined when this error says nothing, and those behind it should be asked. */
function plainVerdict(evidence: Evidence, context: ClassifyContext): Verdict | undefined {
  const verdict = verdictOf(evidence, context);
  // The server knows better than its status, as the clients of OpenAI and Anthropic believe, too.
  const asked = evidence.headers && headerReader(evidence.headers)('x-should-retry');
  if (asked === 'false' && verdict && mayPass(verdict)) return { class: 'fatal' };
  return asked === 'true' && !(verdict && mayPass(verdict)) ? passing('transient', evidence, context) : verdict;
}

function verdictOf(evidence: Evidence, context: ClassifyContext): Verdict | undefined {
  const { status, messages, details } = evidence;
  const words = [...evidence.words, ...details.codes];
  const exact = firstOf(words, ABOVE_STATUS);
  if (exact === 'fatal' || messages.some((message) => OUT_OF_CREDIT.test(message))) return { class: 'fatal' };
  if (status === 429 && isUsedUp(evidence, context)) return { class: 'fatal' };
  const size = MAY_BE_ABOUT_SIZE.has(status) ? sizeIn(messages) : undefined;
  const found = exact ?? (size && 'tooLarge') ?? (status === undefined ? withoutStatus(evidence) : classOfStatus(status));
  if (found === 'tooLarge') return tooLarge(evidence, size, context);
  if (found === 'itemFault') return itemFault(evidence, context);
  if (status === 498 || (found === 'throttled' && isOfTier(evidence)))
    return { ...passing('throttled', evidence, context), isTierOnly: true };
  if (found !== 'throttled' && found !== 'transient') return found && { class: found };
  return passing(found, evidence, context);
}

function passing(found: ErrorClass, evidence: Evidence, context: ClassifyContext): Verdict {
  const retryAfterMs = waitOf(found, evidence, context);
  return { class: found, ...(retryAfterMs !== undefined && { retryAfterMs }) };
}

/** Headers come first: they are made for it. */
function waitOf(found: ErrorClass, { headers, details }: Evidence, { epochMs }: ClassifyContext): number | undefined {
  const read = found === 'throttled' ? parseRefusalMs : parseRetryAfterMs;
  return (headers && read(headers, epochMs)) ?? (found === 'throttled' ? details.hintMs : undefined);
}

/** Whether a quota is used up that does not come back while a call waits. */
function isUsedUp(evidence: Evidence, context: ClassifyContext): boolean {
  const { messages, details } = evidence;
  const isOfMinute = details.codes.some((code) => QUOTA_OF_A_MINUTE.test(code));
  const isOfDay = details.codes.some((code) => QUOTA_OF_A_DAY.test(code));
  if (!isOfDay && (isOfMinute || !messages.some((message) => OUT_OF_QUOTA.test(message)))) return false;
  return waitOf('throttled', evidence, context) === undefined;
}

function isOfTier({ words, messages }: Evidence): boolean {
  return words.some((word) => NO_CAPACITY.has(word)) || messages.some((message) => TIER_IN_WORDS.test(message));
}

function withoutStatus({ words, messages }: Evidence): ErrorClass | undefined {
  return messages.some((message) => ABORTED.test(message)) ? 'cancelled' : firstOf(words, WITHOUT_STATUS);
}

function tooLarge(evidence: Evidence, size: Verdict['tooLarge'], context: ClassifyContext): Verdict {
  const wholeRequest = evidence.status === 413 || evidence.words.some((word) => WHOLE_REQUEST.has(word));
  const blamed = itemFault(evidence, context);
  if (blamed.blame !== undefined && !wholeRequest) return blamed;
  return { class: 'tooLarge', ...(size && { tooLarge: size }) };
}

function itemFault(evidence: Evidence, context: ClassifyContext): Verdict {
  const inParams = indicesIn(evidence.params);
  const indices = inParams.length > 0 ? inParams : indicesIn(evidence.messages);
  // One index out of range shows that they do not count our items.
  const trusted = indices.length > 0 && indices.every((index) => index < context.size);
  return { class: 'itemFault', ...(trusted && { blame: indices }) };
}

function indicesIn(texts: readonly string[]): number[] {
  const indices = texts.flatMap((text) => [...text.matchAll(ITEM_PATH)].map(([, inBrackets, afterDot]) => Number(inBrackets ?? afterDot)));
  return [...new Set(indices)];
}

function sizeIn(messages: readonly string[]): Verdict['tooLarge'] {
  for (const message of messages) {
    for (const pattern of SIZES) {
      const groups = pattern.exec(message)?.groups;
      const actual = amount(groups?.['actual']);
      const limit = amount(groups?.['limit']);
      if (limit > 0 && actual > limit) return { actual, limit };
    }
  }
  return undefined;
}

function amount(text: string | undefined): number {
  return Number(text?.replaceAll(',', ''));
}

function firstOf(words: readonly string[], table: ReadonlyMap<string, ErrorClass>): ErrorClass | undefined {
  return words.map((word) => table.get(word)).find((found) => found !== undefined);
}

/** Which class each word says, from the words of each class. */
function classes(words: Partial<Record<ErrorClass, string>>): ReadonlyMap<string, ErrorClass> {
  return new Map(Object.entries(words).flatMap(([name, list]) => list.split(' ').map((word) => [word, name as ErrorClass] as const)));
}
