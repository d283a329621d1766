// Rules of OpenAI's API, from https://developers.openai.com/api/docs/guides/rate-limits as published in October 2026, and from refusals and headers that
// users reported where the page is silent. Written without a look at how Sluice charges, which is tested against it.
import { flag, oneOf, onlyKnown, orDefault, positive } from '../../operators/options/options.js';
import { openProvider } from './engine.js';
import type { Meter } from './meters.js';
import { BucketMeter } from './meters.js';
import { flexBusy, insufficientQuota, openAIError, openAIRoute, openAIWording, retryAfter } from './openai-wire.js';
import { checkedLimits, checkedModels } from './options.js';
import type { Accident, Failure, ModelQuestion, Refusal, Rules, Told } from './rules.js';
import { durationText } from './rules.js';
import type { ProviderPreset } from './types.js';

export interface OpenAILimits {
  /** RPM. > 0. @defaultValue Infinity */
  readonly requestsPerMinute?: number;
  /** TPM: input and output in one. > 0. @defaultValue Infinity */
  readonly tokensPerMinute?: number;
}

/** @beta */
export interface OpenAIOptions extends OpenAILimits {
  /**
   * What a request takes from the tokens when it comes in. `max`: the larger one of `max_tokens` and an estimate of a quarter of the request's characters,
   * as the page says. `sum`: its input and `max_tokens`, as headers showed. @defaultValue 'max'
   */
  readonly charge?: 'max' | 'sum';
  /** What counts as `max_tokens` of a request that sets none. >= 0 tokens. @defaultValue 0 */
  readonly unsetMaxTokens?: number;
  /** Whether the charge is corrected to the real input and output when a request ends. The page names no correction. @defaultValue false */
  readonly settles?: boolean;
  /** Whether a request that was refused takes one of the requests: "unsuccessful requests contribute to your per-minute limit". @defaultValue true */
  readonly refusedCount?: boolean;
  /** Whether the tokens of requests that are rejected (400) or fail (5xx) stay charged. Not documented. @defaultValue false */
  readonly failedTokensKept?: boolean;
  /** How many seconds of each limit can be used at once: limits may be quantized, 60,000 requests a minute as 1,000 a second. > 0. @defaultValue 60 */
  readonly burstSeconds?: number;
  /** Models with limits of their own; all others share the limits above. @defaultValue none */
  readonly models?: Readonly<Record<string, OpenAILimits>>;
}

const NAME = 'openai';
const LIMITS = ['requestsPerMinute', 'tokensPerMinute'] as const;
const OTHERS = ['charge', 'unsetMaxTokens', 'settles', 'refusedCount', 'failedTokensKept', 'burstSeconds', 'models'] as const;

/**
 * OpenAI's rules for `fakeProvider({ provider })`: requests and tokens of input and output in one count, charged when a request comes in, cached input
 * included; `x-ratelimit-*` headers with durations. Answers `/v1/chat/completions`, `/v1/responses` and `/v1/embeddings`; `/v1/batches`, `/v1/files` and
 * `/v1/models` are counted by no limit.
 *
 * @beta
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) when an option is unknown or out of range.
 * @example
 * ```ts
 * import { fakeProvider, openai, virtualTime } from 'sluice/marbles';
 *
 * const provider = fakeProvider({ provider: openai({ tokensPerMinute: 30_000 }), answer: () => ({ outputTokens: 50 }) });
 * virtualTime(({ flush }) => {
 *   provider.workOne({ model: 'gpt', max_tokens: 4096, messages: [{ role: 'user', content: 'Hello' }] }).subscribe();
 *   flush();
 * });
 * provider.books.chargedTo('req_1'); // => { requests: 1, tokens: 4096 }
 * ```
 */
export function openai(options: OpenAIOptions = {}): ProviderPreset {
  onlyKnown(NAME, options, [...LIMITS, ...OTHERS]);
  checkedLimits(NAME, options, LIMITS);
  const models = checkedModels(NAME, options.models, LIMITS);
  const burstSeconds = positive(NAME, 'burstSeconds', orDefault(options.burstSeconds, 60));
  const isSum = oneOf('max', 'sum')(NAME, 'charge', orDefault(options.charge, 'max')) === 'sum';
  const unset = orDefault(options.unsetMaxTokens, 0);
  if (unset !== 0) positive(NAME, 'unsetMaxTokens', unset);
  const settles = flag(NAME, 'settles', orDefault(options.settles, false));
  const refusedCount = flag(NAME, 'refusedCount', orDefault(options.refusedCount, true));

  const rules: Rules = {
    name: NAME,
    mainPath: (body) => (body['input'] === undefined ? '/v1/chat/completions' : pathOfInput(body)),
    models: Object.keys(models),
    // Buckets that fill continuously: refusals of 2023 to 2026 tell waits of (used + requested - limit) / (limit / 60 s), and headers of a limit of
    // 10,000 with 9,973 left a reset of 162 ms.
    meters(model, now) {
      const limits = model === undefined ? options : (models[model] ?? options);
      const units = { requests: limits.requestsPerMinute, tokens: limits.tokensPerMinute };
      return Object.entries(units).flatMap(([unit, limit = Infinity]) =>
        limit === Infinity ? [] : [new BucketMeter(unit as Meter['unit'], limit, burstSeconds, now)],
      );
    },
    route: (request) => openAIRoute(request.path.replace(/^\/v1\//, ''), request),
    // "Your rate limit is calculated as the maximum of `max_tokens` and the estimated number of tokens based on the character count of your request."
    // Cached input counts: "prompt caching does not affect rate limits" (…/guides/prompt-caching).
    onArrival(question) {
      const output = question.generates ? (question.maxOutputTokens ?? unset) : 0;
      return { requests: 1, tokens: isSum ? question.inputTokens + output : Math.max(output, question.estimate) };
    },
    asGenerated: undefined,
    settles: settles ? ({ inputTokens }, outputTokens) => ({ tokens: inputTokens + outputTokens }) : undefined,
    // "Unsuccessful requests contribute to your per-minute limit, so continuously resending a request won't work."
    onRefusal: refusedCount ? { requests: 1 } : {},
    keepsFailed: flag(NAME, 'failedTokensKept', orDefault(options.failedTokensKept, false)),
    headers: openAIHeaders,
    refusal,
    pause: (question, hintMs) => ({
      ...openAIError(429, `Rate limit reached for ${question.model}.${again(hintMs)}`, 'rate_limit_exceeded', 'requests'),
      headers: retryAfter(hintMs),
    }),
    accident,
    rejection: (status, message) => openAIError(status, message, null),
    word: openAIWording,
    errorEvent: undefined,
  };
  return { name: NAME, open: (given) => openProvider(rules, given) };
}

/** A body with `input` alone is a response, with a list of texts embeddings. */
function pathOfInput({ input, encoding_format: encoding }: Readonly<Record<string, unknown>>): string {
  const isTexts = Array.isArray(input) && input.every((each) => typeof each === 'string');
  return isTexts || encoding !== undefined ? '/v1/embeddings' : '/v1/responses';
}

/** `x-ratelimit-reset-*` is "the time until the rate limit resets to its initial state": `1s`, `6m0s`. */
function openAIHeaders({ id, meters, now, clientMs }: Told): Readonly<Record<string, string>> {
  const told: Record<string, string> = { 'x-request-id': id, 'openai-processing-ms': '1', 'openai-version': '2020-10-01' };
  for (const meter of meters) {
    told[`x-ratelimit-limit-${meter.unit}`] = String(meter.limit);
    told[`x-ratelimit-remaining-${meter.unit}`] = String(Math.max(0, Math.floor(meter.level(now))));
    told[`x-ratelimit-reset-${meter.unit}`] = durationText(clientMs(meter.resetMs(now)));
  }
  return told;
}

function again(hintMs: number | undefined): string {
  return hintMs === undefined ? '' : ` Please try again in ${durationText(hintMs)}.`;
}

/** The words are from refusals that users reported from 2023 to 2026. */
function refusal({ meter, amount, waitMs, hintMs, question, left }: Refusal): Failure {
  const isTokens = meter.unit === 'tokens';
  const limit = `on ${isTokens ? 'tokens per min (TPM)' : 'requests per min (RPM)'}: Limit ${String(meter.limit)}`;
  const organization = 'in organization org-fake';
  const visit = ' Visit https://platform.openai.com/account/rate-limits to learn more.';
  if (waitMs === Infinity) {
    const advice = 'The input or output tokens must be reduced in order to run successfully.';
    const message = `Request too large for ${question.model} ${organization} ${limit}, Requested ${String(amount)}. ${advice}${visit}`;
    return openAIError(429, message, 'rate_limit_exceeded', meter.unit);
  }
  const used = Math.max(0, Math.ceil(meter.capacity - left));
  const message = `Rate limit reached for ${question.model} ${organization} ${limit}, Used ${String(used)}, Requested ${String(amount)}.${again(hintMs)}${visit}`;
  return { ...openAIError(429, message, 'rate_limit_exceeded', meter.unit), headers: retryAfter(hintMs) };
}

function accident(kind: Accident, question: ModelQuestion): Failure {
  if (kind === 'quota') return insufficientQuota();
  if (kind === 'flexBusy') return flexBusy();
  if (kind === 'overloaded') {
    return openAIError(503, `The engine is currently overloaded, please try again later (${question.id}).`, null, 'server_error');
  }
  return openAIError(500, 'The server had an error while processing your request. Sorry about that!', null, 'server_error');
}
