// Rules of Anthropic's Messages API, from https://platform.claude.com/docs/en/api/rate-limits, …/api/errors and …/build-with-claude/streaming, as
// published in October 2026 unless a rule says otherwise. Written without a look at how Sluice charges, which is tested against it.
import { flag, oneOf, onlyKnown, orDefault, positive } from '../../operators/options/options.js';
import { openProvider } from './engine.js';
import type { Meter } from './meters.js';
import { BucketMeter } from './meters.js';
import { openAIError, openAIRoute, openAIWording } from './openai-wire.js';
import { checkedLimits, checkedModels } from './options.js';
import type { Accident, Failure, Generated, IncomingRequest, ModelQuestion, Refusal, Route, Rules, Told, Wording } from './rules.js';
import { estimateOf, fieldsOf, numberIn, serverEvent, textsIn } from './rules.js';
import type { ProviderPreset } from './types.js';

export interface AnthropicLimits {
  /** RPM. > 0. @defaultValue Infinity */
  readonly requestsPerMinute?: number;
  /** ITPM. > 0. @defaultValue Infinity */
  readonly inputTokensPerMinute?: number;
  /** OTPM. > 0. @defaultValue Infinity */
  readonly outputTokensPerMinute?: number;
}

/** @beta */
export interface AnthropicOptions extends AnthropicLimits {
  /**
   * When output is charged. `asGenerated`: token by token, `max_tokens` has no part in it (the page since 2026). `onArrival`: `max_tokens` when the
   * request comes in, corrected at its end (the page until 2025). @defaultValue 'asGenerated'
   */
  readonly outputCharged?: 'onArrival' | 'asGenerated';
  /** Whether input that was read from the prompt cache is free, as for most models (not for Haiku 3.5). @defaultValue true */
  readonly cachedInputFree?: boolean;
  /** Whether the tokens of requests that are rejected (400) or fail (5xx) stay charged. Not documented. @defaultValue false */
  readonly failedTokensKept?: boolean;
  /** How many seconds of each limit can be used at once: 60 requests a minute may be enforced as 1 a second. > 0. @defaultValue 60 */
  readonly burstSeconds?: number;
  /** Models with limits of their own; limits apply to each model separately. All others share the limits above. @defaultValue none */
  readonly models?: Readonly<Record<string, AnthropicLimits>>;
}

const NAME = 'anthropic';
const LIMITS = ['requestsPerMinute', 'inputTokensPerMinute', 'outputTokensPerMinute'] as const;
/**
 * "Rate limits follow Anthropic's standard limits for the `/v1/messages` endpoint": https://platform.claude.com/docs/en/api/openai-sdk, October 2026. The page
 * lists `x-ratelimit-*` and `retry-after`; that the headers of `/v1/messages` come too is assumed.
 */
const CHAT = 'chat/completions';
const ORGANIZATION = '00000000-0000-0000-0000-000000000000';

/**
 * Anthropic's rules for `fakeProvider({ provider })`: three token buckets that fill continuously, `anthropic-ratelimit-*` headers with dates,
 * `retry-after` in seconds. Input is charged without what was read from the prompt cache. Answers `/v1/messages`, and `/v1/chat/completions` for clients of
 * OpenAI, whole and streamed; `/v1/messages/batches`, `/v1/messages/count_tokens` and `/v1/models` are counted by no limit.
 *
 * @beta
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) when an option is unknown or out of range.
 * @example
 * ```ts
 * import { anthropic, fakeProvider, virtualTime } from 'sluice/marbles';
 *
 * const provider = fakeProvider({
 *   provider: anthropic({ requestsPerMinute: 50, inputTokensPerMinute: 30_000, outputTokensPerMinute: 8000 }),
 *   answer: () => ({ outputTokens: 200, cacheReadTokens: 900 }),
 * });
 * virtualTime(({ flush }) => {
 *   provider.workOne({ model: 'claude', max_tokens: 4096, messages: [{ role: 'user', content: 'x'.repeat(4000) }] }).subscribe();
 *   flush();
 * });
 * provider.books.chargedTo('req_1'); // => { requests: 1, inputTokens: 100, outputTokens: 200 }
 * ```
 */
export function anthropic(options: AnthropicOptions = {}): ProviderPreset {
  onlyKnown(NAME, options, [...LIMITS, 'outputCharged', 'cachedInputFree', 'failedTokensKept', 'burstSeconds', 'models']);
  checkedLimits(NAME, options, LIMITS);
  const models = checkedModels(NAME, options.models, LIMITS);
  const burstSeconds = positive(NAME, 'burstSeconds', orDefault(options.burstSeconds, 60));
  const onArrival =
    oneOf('onArrival', 'asGenerated')(NAME, 'outputCharged', orDefault(options.outputCharged, 'asGenerated')) === 'onArrival';
  const cachedInputFree = flag(NAME, 'cachedInputFree', orDefault(options.cachedInputFree, true));
  const keepsFailed = flag(NAME, 'failedTokensKept', orDefault(options.failedTokensKept, false));

  const rules: Rules = {
    name: NAME,
    mainPath: () => '/v1/messages',
    models: Object.keys(models),
    // "The API uses the token bucket algorithm […]: your capacity is continuously replenished up to your maximum limit."
    meters(model, now) {
      const limits = model === undefined ? options : (models[model] ?? options);
      const units = {
        requests: limits.requestsPerMinute,
        inputTokens: limits.inputTokensPerMinute,
        outputTokens: limits.outputTokensPerMinute,
      };
      return Object.entries(units).flatMap(([unit, limit = Infinity]) =>
        limit === Infinity ? [] : [new BucketMeter(unit as Meter['unit'], limit, burstSeconds, now)],
      );
    },
    route,
    // "`input_tokens` and `cache_creation_input_tokens` count toward ITPM, `cache_read_input_tokens` do not for most models."
    onArrival: ({ inputTokens, maxOutputTokens = 0 }, cacheReadTokens) => ({
      requests: 1,
      inputTokens: inputTokens - (cachedInputFree ? cacheReadTokens : 0),
      ...(onArrival && { outputTokens: maxOutputTokens }),
    }),
    // "OTPM rate limits are evaluated in real time as output tokens are produced, counting only the actual tokens generated."
    asGenerated: onArrival ? undefined : 'outputTokens',
    // Until 2025: "OTPM rate limits are estimated based on `max_tokens` at the beginning of each request, and the estimate is adjusted at the end."
    settles: onArrival ? (_question, outputTokens) => ({ outputTokens }) : undefined,
    onRefusal: {},
    keepsFailed,
    headers,
    refusal,
    pause: (question, hintMs) =>
      wordedFor(question, failureOf(429, 'rate_limit_error', 'This request would exceed the rate limit for your organization.', hintMs)),
    accident: (kind, question) => wordedFor(question, accident(kind)),
    rejection: (status, message, question) =>
      wordedFor(question, failureOf(status, status === 413 ? 'request_too_large' : 'invalid_request_error', message)),
    word: (question, generated) => (question.endpoint === CHAT ? openAIWording(question, generated) : word(question, generated)),
    // …/build-with-claude/streaming, "Error events": what would be a 529 otherwise.
    errorEvent: serverEvent({ type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }, 'error'),
  };
  return { name: NAME, open: (given) => openProvider(rules, given) };
}

function route(request: IncomingRequest): Route {
  const { id, number, method, path, body, tokensOf } = request;
  if (path === `/v1/${CHAT}`) return openAIRoute(CHAT, request);
  const fields = fieldsOf(body);
  const texts = textsIn(body);
  const inputTokens = texts.reduce((sum, text) => sum + tokensOf(text), 0);
  // Batches have limits of their own and take nothing from those of the Messages API.
  if (path.startsWith('/v1/messages/batches')) return { kind: 'free', body: batch(method, path, number, fields) };
  if (path === '/v1/messages/count_tokens') return { kind: 'free', body: { input_tokens: inputTokens } };
  if (path.startsWith('/v1/models')) return { kind: 'free', body: { data: [], has_more: false, first_id: null, last_id: null } };
  if (path !== '/v1/messages') return { kind: 'bad', failure: failureOf(404, 'not_found_error', 'Not found') };
  const max = numberIn(fields, 'max_tokens');
  if (typeof fields['model'] !== 'string')
    return { kind: 'bad', failure: failureOf(400, 'invalid_request_error', 'model: Field required') };
  if (max === undefined) return { kind: 'bad', failure: failureOf(400, 'invalid_request_error', 'max_tokens: Field required') };
  const question = {
    ...{ id, number, body, inputTokens, model: fields['model'], text: texts.at(-1) ?? '', maxOutputTokens: max },
    ...{ streamed: fields['stream'] === true, endpoint: 'messages', flex: false, choices: 1, generates: true, estimate: estimateOf(texts) },
  };
  return { kind: 'model', question };
}

function batch(method: string, path: string, number: number, { requests }: Readonly<Record<string, unknown>>): unknown {
  const id = path.split('/')[4] ?? `msgbatch_${String(number)}`;
  if (method === 'GET' && path === '/v1/messages/batches') return { data: [], has_more: false, first_id: null, last_id: null };
  const processing = Array.isArray(requests) ? requests.length : 0;
  return {
    id,
    type: 'message_batch',
    processing_status: path.endsWith('/cancel') ? 'canceling' : 'in_progress',
    request_counts: { processing, succeeded: 0, errored: 0, canceled: 0, expired: 0 },
    ended_at: null,
    created_at: '2026-10-01T00:00:00Z',
    expires_at: '2026-10-02T00:00:00Z',
    archived_at: null,
    cancel_initiated_at: null,
    results_url: null,
  };
}

/** "The number of tokens remaining (rounded to the nearest thousand)"; resets are "when the limit will be fully replenished", in RFC 3339. */
function headers({ id, endpoint, meters, now, clientNow, clientMs }: Told): Readonly<Record<string, string>> {
  const told: Record<string, string> = { 'request-id': id };
  const date = (ms: number): string => new Date(Math.ceil((clientNow + clientMs(ms)) / 1000) * 1000).toISOString().replace('.000Z', 'Z');
  const tell = (name: string, limit: number, remaining: number, resetMs: number): void => {
    const left = Math.max(0, name === 'requests' ? Math.floor(remaining) : Math.round(remaining / 1000) * 1000);
    told[`anthropic-ratelimit-${name}-limit`] = String(limit);
    told[`anthropic-ratelimit-${name}-remaining`] = String(left);
    told[`anthropic-ratelimit-${name}-reset`] = date(resetMs);
    if (endpoint !== CHAT || name.endsWith('put-tokens')) return;
    told[`x-ratelimit-limit-${name}`] = String(limit);
    told[`x-ratelimit-remaining-${name}`] = String(left);
    told[`x-ratelimit-reset-${name}`] = date(resetMs);
  };
  for (const meter of meters) {
    const name = { requests: 'requests', inputTokens: 'input-tokens', outputTokens: 'output-tokens' }[meter.unit as string] as string;
    tell(name, meter.limit, meter.level(now), meter.resetMs(now));
  }
  // Observed in 2026: limits of 2,000,000 and 400,000 are told as 2,400,000 tokens, and what is left of them as the sum.
  const [input, output] = [meters.find(({ unit }) => unit === 'inputTokens'), meters.find(({ unit }) => unit === 'outputTokens')];
  if (input !== undefined && output !== undefined) {
    const resetMs = Math.max(input.resetMs(now), output.resetMs(now));
    tell('tokens', input.limit + output.limit, input.level(now) + output.level(now), resetMs);
  }
  return told;
}

/** "A 429 error describing which rate limit was exceeded, along with a `retry-after` header." The words are from reports of 2026. */
function refusal({ meter, question, waitMs, hintMs }: Refusal): Failure {
  const what = { requests: 'requests', inputTokens: 'input tokens', outputTokens: 'output tokens' }[meter.unit as string];
  const message =
    `This request would exceed your organization's rate limit of ${meter.limit.toLocaleString('en-US')} ${String(what)} per minute ` +
    `(org: ${ORGANIZATION}, model: ${question.model}). For details, refer to: https://docs.claude.com/en/api/rate-limits. ` +
    'You can see the response headers for current usage. Please reduce the prompt length or the maximum tokens requested, or try again later.';
  // A request above the limit can never pass, and is told to wait like any other.
  return wordedFor(question, failureOf(429, 'rate_limit_error', message, waitMs === Infinity && hintMs !== undefined ? 60_000 : hintMs));
}

/** "The compatibility layer maintains consistent error formats with the OpenAI API." */
function wordedFor({ endpoint }: ModelQuestion, failure: Failure): Failure {
  if (endpoint !== CHAT) return failure;
  const { type, message } = fieldsOf(fieldsOf(failure.body)['error']);
  return { ...failure, body: openAIError(failure.status, String(message), null, String(type)).body };
}

function accident(kind: Accident): Failure {
  if (kind === 'overloaded') return failureOf(529, 'overloaded_error', 'Overloaded');
  if (kind !== 'quota') return failureOf(500, 'api_error', 'Internal server error');
  // "Reaching your spend cap": the type of a rate limit, a code in `details`, no `retry-after`.
  const { body, ...rest } = failureOf(429, 'rate_limit_error', '');
  const message =
    "You have reached your API usage limits: your organization has crossed its monthly API usage threshold, set based on your organization's API tier.";
  return {
    ...rest,
    body: { ...fieldsOf(body), error: { type: 'rate_limit_error', message, details: { error_code: 'enforced_spend_limit_reached' } } },
  };
}

function failureOf(status: number, type: string, message: string, hintMs?: number): Failure {
  return {
    status,
    headers: {
      'x-should-retry': String(status === 429 || status >= 500),
      ...(hintMs !== undefined && { 'retry-after': String(Math.ceil(hintMs / 1000)) }),
    },
    body: { type: 'error', error: { type, message }, request_id: null },
  };
}

function word(question: ModelQuestion, generated: Generated): Wording {
  const { text, outputTokens, cacheReadTokens, cacheWriteTokens, cacheWrite1hTokens, finish } = generated;
  const written = cacheWriteTokens + cacheWrite1hTokens;
  // "`input_tokens` represents only the tokens after the last cache breakpoint."
  const usageWith = (output: number): unknown => ({
    input_tokens: question.inputTokens - cacheReadTokens - written,
    cache_creation_input_tokens: written,
    cache_read_input_tokens: cacheReadTokens,
    cache_creation: { ephemeral_5m_input_tokens: cacheWriteTokens, ephemeral_1h_input_tokens: cacheWrite1hTokens },
    output_tokens: output,
    service_tier: 'standard',
  });
  const stop = { stop_reason: finish === 'length' ? 'max_tokens' : 'end_turn', stop_sequence: null };
  const message = (content: unknown, rest: object, output: number): unknown => ({
    ...{ id: `msg_${String(question.number)}`, type: 'message', role: 'assistant', model: question.model, content, ...rest },
    ...(generated.usage && { usage: usageWith(output) }),
  });
  const event = (type: string, rest: object): string => serverEvent({ type, ...rest }, type);
  return {
    whole: () => message([{ type: 'text', text, citations: null }], stop, outputTokens),
    opening: () =>
      event('message_start', { message: message([], { stop_reason: null, stop_sequence: null }, 1) }) +
      event('content_block_start', { index: 0, content_block: { type: 'text', text: '' } }) +
      event('ping', {}),
    piece: (part) => event('content_block_delta', { index: 0, delta: { type: 'text_delta', text: part } }),
    // "The token counts shown in the usage field of the message_delta event are cumulative."
    closing: () =>
      event('content_block_stop', { index: 0 }) +
      event('message_delta', { delta: stop, ...(generated.usage && { usage: { output_tokens: outputTokens } }) }) +
      event('message_stop', {}),
  };
}
