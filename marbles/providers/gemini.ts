// Rules of the Gemini API, from https://ai.google.dev/gemini-api/docs/rate-limits and …/docs/billing as published in September and October 2026, and from
// refusals that users reported where the pages are silent. Written without a look at how Sluice charges, which is tested against it.
import { flag, oneOf, onlyKnown, orDefault } from '../../operators/options/options.js';
import { openProvider } from './engine.js';
import type { Meter } from './meters.js';
import { CounterMeter, daysOf, RollingMeter, windowsOf } from './meters.js';
import { checkedDay, checkedLimits, checkedModels } from './options.js';
import type { Accident, Failure, Generated, IncomingRequest, ModelQuestion, Refusal, Route, Rules, Wording } from './rules.js';
import { estimateOf, fieldsOf, numberIn, serverEvent, textsIn } from './rules.js';
import type { ProviderPreset } from './types.js';
import type { ProviderUnit } from './units.js';

export interface GeminiLimits {
  /** RPM of the project. > 0. @defaultValue Infinity */
  readonly requestsPerMinute?: number;
  /** TPM of the project: input alone. > 0. @defaultValue Infinity */
  readonly inputTokensPerMinute?: number;
  /** RPD of the project. > 0. @defaultValue Infinity */
  readonly requestsPerDay?: number;
}

/** An hour of a time zone. */
export interface GeminiDay {
  /** IANA name. @defaultValue 'America/Los_Angeles' */
  readonly timeZone?: string;
  /** From 0 to 23. @defaultValue 0 */
  readonly hour?: number;
}

/** @beta */
export interface GeminiOptions extends GeminiLimits {
  /** When the count of a day starts again. @defaultValue midnight Pacific */
  readonly dayStartsAt?: GeminiDay;
  /** What a minute is: the last 60 s at every moment, or a counter that starts again each full minute. Not documented. @defaultValue 'rolling' */
  readonly minute?: 'rolling' | 'fixed';
  /** How `retryDelay` is written: `1.570s`, or whole seconds rounded down, which is too early; both were reported. @defaultValue 'exact' */
  readonly retryDelay?: 'exact' | 'seconds';
  /** Whether the tokens of requests that are rejected (400) or fail (5xx) stay charged. Not documented. @defaultValue false */
  readonly failedTokensKept?: boolean;
  /** Models with limits of their own; all others share the limits above. @defaultValue none */
  readonly models?: Readonly<Record<string, GeminiLimits>>;
}

const NAME = 'gemini';
const LIMITS = ['requestsPerMinute', 'inputTokensPerMinute', 'requestsPerDay'] as const;
const MINUTE_MS = 60_000;

/**
 * Gemini's rules for `fakeProvider({ provider })`: requests and input tokens per minute, requests per day that start again at midnight Pacific; no headers,
 * and the wait only in the body (`google.rpc.RetryInfo`). Answers `…:generateContent`, `…:streamGenerateContent`, `…:embedContent` and
 * `…:batchEmbedContents`; `…:countTokens` and batches are counted by no limit.
 *
 * @beta
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) when an option is unknown or out of range.
 * @example
 * ```ts
 * import { fakeProvider, gemini, virtualTime } from 'sluice/marbles';
 *
 * const provider = fakeProvider({ provider: gemini({ requestsPerDay: 1 }), startsAt: Date.UTC(2026, 0, 10, 7, 59) });
 * const statuses = virtualTime(({ advance }) => {
 *   const seen: number[] = [];
 *   const ask = () => {
 *     provider.send({ path: '/v1beta/models/gemini:generateContent', body: {} }).subscribe(({ status }) => seen.push(status));
 *     advance(0);
 *   };
 *   ask();
 *   ask();
 *   advance(60_000);
 *   ask();
 *   return seen;
 * });
 * statuses; // => [200, 429, 200]
 * ```
 */
export function gemini(options: GeminiOptions = {}): ProviderPreset {
  onlyKnown(NAME, options, [...LIMITS, 'dayStartsAt', 'minute', 'retryDelay', 'failedTokensKept', 'models']);
  checkedLimits(NAME, options, LIMITS);
  const models = checkedModels(NAME, options.models, LIMITS);
  const isRolling = oneOf('rolling', 'fixed')(NAME, 'minute', orDefault(options.minute, 'rolling')) === 'rolling';
  const isExact = oneOf('exact', 'seconds')(NAME, 'retryDelay', orDefault(options.retryDelay, 'exact')) === 'exact';
  // "Requests per day (RPD) quotas reset at midnight Pacific time."
  const dayOf = daysOf(checkedDay(NAME, options.dayStartsAt, 'America/Los_Angeles'));
  const delayOf = (ms: number): string => `${isExact ? (Math.ceil(ms) / 1000).toFixed(3) : String(Math.floor(ms / 1000))}s`;

  const rules: Rules = {
    name: NAME,
    mainPath: ({ model }) => `/v1beta/models/${typeof model === 'string' ? model : 'gemini'}:generateContent`,
    models: Object.keys(models),
    meters(model, now) {
      const limits = model === undefined ? options : (models[model] ?? options);
      const minute = (unit: ProviderUnit, limit = Infinity): Meter[] =>
        limit === Infinity
          ? []
          : [isRolling ? new RollingMeter(unit, limit, MINUTE_MS) : new CounterMeter(unit, limit, limit, windowsOf(MINUTE_MS), now)];
      const { requestsPerDay = Infinity } = limits;
      return [
        ...minute('requests', limits.requestsPerMinute),
        ...minute('inputTokens', limits.inputTokensPerMinute),
        ...(requestsPerDay === Infinity ? [] : [new CounterMeter('requestsPerDay', requestsPerDay, requestsPerDay, dayOf, now)]),
      ];
    },
    route,
    // "Tokens per minute (input)". Nothing is said of cached input: it counts.
    onArrival: ({ inputTokens }) => ({ requests: 1, requestsPerDay: 1, inputTokens }),
    asGenerated: undefined,
    settles: undefined,
    onRefusal: {},
    // "If your request fails with a 400 or 500 error, you won't be charged for the tokens used. However, the request will still count against your quota."
    keepsFailed: flag(NAME, 'failedTokensKept', orDefault(options.failedTokensKept, false)),
    headers: () => ({ server: 'scaffolding on HTTPServer2' }),
    refusal: (refused) => refusal(refused, delayOf),
    pause: (question, hintMs) => exhausted(question, [], hintMs, delayOf),
    accident,
    rejection: (status, message) => googleError(status, 'INVALID_ARGUMENT', message),
    word,
    errorEvent: undefined,
  };
  return { name: NAME, open: (given) => openProvider(rules, given) };
}

function route({ id, number, path, body, tokensOf }: IncomingRequest): Route {
  const [, model = '', action = ''] = /\/models\/([^:/]+):(\w+)$/.exec(path) ?? [];
  const fields = fieldsOf(body);
  const texts = textsIn(body);
  const inputTokens = texts.reduce((sum, text) => sum + tokensOf(text), 0);
  // …/docs/billing: "Requests to the GetTokens API […] don't count against inference quota." Batches have quotas of their own (…/docs/rate-limits).
  if (action === 'countTokens') return { kind: 'free', body: { totalTokens: inputTokens } };
  if (action === 'batchGenerateContent' || path.includes('/batches')) {
    return { kind: 'free', body: { name: `batches/${String(number)}`, metadata: { state: 'BATCH_STATE_PENDING' } } };
  }
  if (path.endsWith('/models')) return { kind: 'free', body: { models: [] } };
  if (!['generateContent', 'streamGenerateContent', 'embedContent', 'batchEmbedContents'].includes(action)) {
    return { kind: 'bad', failure: googleError(404, 'NOT_FOUND', 'Requested entity was not found.') };
  }
  const config = fieldsOf(fields['generationConfig'] ?? fields['generation_config']);
  const question = {
    ...{
      id,
      number,
      body,
      model,
      inputTokens,
      text: texts.at(-1) ?? '',
      endpoint: action,
      flex: false,
      choices: 1,
      estimate: estimateOf(texts),
    },
    maxOutputTokens: numberIn(config, 'maxOutputTokens', 'max_output_tokens'),
    streamed: action === 'streamGenerateContent',
    generates: action.endsWith('generateContent') || action === 'streamGenerateContent',
  };
  return { kind: 'model', question };
}

/** The body, its names and numbers are from refusals that users reported in 2025 and 2026. */
function refusal({ meter, question, waitMs, hintMs }: Refusal, delayOf: (ms: number) => string): Failure {
  const [metric, quotaId] =
    {
      requests: ['generate_content_free_tier_requests', 'GenerateRequestsPerMinutePerProjectPerModel-FreeTier'],
      inputTokens: ['generate_content_free_tier_input_token_count', 'GenerateContentInputTokensPerModelPerMinute-FreeTier'],
      requestsPerDay: ['generate_content_free_tier_requests', 'GenerateRequestsPerDayPerProjectPerModel-FreeTier'],
    }[meter.unit as string] ?? [];
  const violation = {
    quotaMetric: `generativelanguage.googleapis.com/${String(metric)}`,
    quotaId,
    quotaDimensions: { location: 'global', model: question.model },
    quotaValue: String(meter.limit),
  };
  // Told of a day, too, is only the rest of a minute ("retryDelay": "22s"): the day is named by the quota's id alone.
  let told = hintMs;
  if (hintMs !== undefined && waitMs === Infinity) told = MINUTE_MS;
  else if (hintMs !== undefined && meter.unit === 'requestsPerDay') told = ((waitMs % MINUTE_MS || MINUTE_MS) * hintMs) / waitMs;
  return exhausted(question, [violation], told, delayOf);
}

function exhausted(
  question: ModelQuestion,
  violations: readonly object[],
  hintMs: number | undefined,
  delayOf: (ms: number) => string,
): Failure {
  const wait = hintMs === undefined ? '' : `\nPlease retry in ${String(hintMs / 1000)}s.`;
  const message =
    'You exceeded your current quota, please check your plan and billing details. For more information on this error, head to: ' +
    `https://ai.google.dev/gemini-api/docs/rate-limits. To monitor your current usage, head to: https://ai.dev/rate-limit. (${question.model})${wait}`;
  const type = (name: string): string => `type.googleapis.com/google.rpc.${name}`;
  const links = [{ description: 'Learn more about Gemini API quotas', url: 'https://ai.google.dev/gemini-api/docs/rate-limits' }];
  return googleError(429, 'RESOURCE_EXHAUSTED', message, [
    ...(violations.length > 0 ? [{ '@type': type('QuotaFailure'), violations }] : []),
    { '@type': type('Help'), links },
    ...(hintMs === undefined ? [] : [{ '@type': type('RetryInfo'), retryDelay: delayOf(hintMs) }]),
  ]);
}

function accident(kind: Accident): Failure {
  if (kind === 'overloaded') return googleError(503, 'UNAVAILABLE', 'The model is overloaded. Please try again later.');
  if (kind !== 'quota') return googleError(500, 'INTERNAL', 'An internal error has occurred. Please retry.');
  const message =
    'Your project has exceeded its monthly spending cap. Please go to AI Studio at https://ai.studio/spend to manage your project spend cap.';
  return googleError(429, 'RESOURCE_EXHAUSTED', message);
}

function googleError(code: number, status: string, message: string, details?: readonly unknown[]): Failure {
  return { status: code, body: { error: { code, message, status, ...(details && { details }) } } };
}

function word(question: ModelQuestion, generated: Generated): Wording {
  const { model, number, inputTokens, endpoint, body } = question;
  const { text, outputTokens, reasoningTokens, cacheReadTokens, finish, pieces } = generated;
  if (!question.generates) return vectors(endpoint, body);
  // Thoughts are no candidates: together they are the output. Cached content is part of the prompt.
  const usageOf = (made: number, thoughts: number): object => ({
    usageMetadata: {
      promptTokenCount: inputTokens,
      ...(made > thoughts && { candidatesTokenCount: made - thoughts }),
      totalTokenCount: inputTokens + made,
      ...(cacheReadTokens > 0 && { cachedContentTokenCount: cacheReadTokens }),
      promptTokensDetails: [{ modality: 'TEXT', tokenCount: inputTokens }],
      ...(thoughts > 0 && { thoughtsTokenCount: thoughts }),
    },
  });
  const response = (written: string, made: number, finishReason?: string): object => ({
    candidates: [{ content: { parts: [{ text: written }], role: 'model' }, index: 0, ...(finishReason !== undefined && { finishReason }) }],
    ...(generated.usage && usageOf(made, Math.min(reasoningTokens, made))),
    modelVersion: model,
    responseId: `gen${String(number)}`,
  });
  const reason = finish === 'length' ? 'MAX_TOKENS' : 'STOP';
  const event = (data: object): string => serverEvent(data).replaceAll('\n', '\r\n');
  let sent = 0;
  let made = 0;
  return {
    whole: () => response(text, outputTokens, reason),
    opening: () => '',
    // Every chunk tells the usage so far.
    piece: (part) => {
      made += pieces[sent++]?.tokens ?? 0;
      return event(response(part, made));
    },
    closing: () => event(response('', outputTokens, reason)),
  };
}

function vectors(endpoint: string, body: unknown): Wording {
  const { requests } = fieldsOf(body);
  const values = [0.5, 0.25];
  const count = Array.isArray(requests) ? requests.length : 1;
  return {
    whole: () =>
      endpoint === 'embedContent' ? { embedding: { values } } : { embeddings: Array.from({ length: count }, () => ({ values })) },
    opening: () => '',
    piece: () => '',
    closing: () => '',
  };
}
