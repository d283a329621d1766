// Rules of Azure OpenAI, from https://learn.microsoft.com/azure/foundry/openai/how-to/quota ("Understanding rate limits") as of May 2026, and from refusals
// that users reported where the page is silent. Written without a look at how Sluice charges, which is tested against it.
import { flag, onlyKnown, orDefault, positive } from '../../operators/options/options.js';
import { openProvider } from './engine.js';
import type { Meter } from './meters.js';
import { CounterMeter, windowsOf } from './meters.js';
import { flexBusy, insufficientQuota, openAIError, openAIRoute, openAIWording, retryAfter } from './openai-wire.js';
import { checkedLimits, checkedModels } from './options.js';
import type { Accident, Failure, IncomingRequest, ModelQuestion, Route, Rules, Told } from './rules.js';
import { fieldsOf } from './rules.js';
import type { ProviderPreset } from './types.js';

export interface AzureLimits {
  /** TPM of the deployment: prompt and `max_tokens` in one. > 0. @defaultValue Infinity */
  readonly tokensPerMinute?: number;
  /** RPM of the deployment. > 0. @defaultValue 6 for every 1,000 tokens per minute */
  readonly requestsPerMinute?: number;
}

/** @beta */
export interface AzureOptions extends AzureLimits {
  /** Length of the periods in which requests are counted: "typically 1 or 10 seconds". > 0. @defaultValue 10_000 */
  readonly sliceMs?: number;
  /** When the counter of tokens starts again: so many ms after each full minute. @defaultValue 0 */
  readonly minuteStartsAtMs?: number;
  /** What counts as `max_tokens` of a request that sets none. The page is silent; support named the model's context. >= 0 tokens. @defaultValue 0 */
  readonly unsetMaxTokens?: number;
  /** Whether the charge is corrected to the real input and output when a request ends. The page names no correction. @defaultValue false */
  readonly settles?: boolean;
  /** Whether the tokens of requests that are rejected (400) or fail (5xx) stay charged. Not documented. @defaultValue false */
  readonly failedTokensKept?: boolean;
  /** Deployments with limits of their own; all others share the limits above. @defaultValue none */
  readonly models?: Readonly<Record<string, AzureLimits>>;
}

const NAME = 'azure';
const LIMITS = ['tokensPerMinute', 'requestsPerMinute'] as const;
const MINUTE_MS = 60_000;
/** "Please retry after 86400 seconds" is told to a request that the limit can never grant: reports of 2024 and 2025. */
const NEVER_MS = 86_400_000;

/**
 * Azure's rules for `fakeProvider({ provider })`: a counter of prompt, `max_tokens` and `best_of` that starts again each minute, and requests that are counted
 * in slices of a few seconds. Answers `/openai/deployments/<name>/…` and `/openai/v1/…`; batches and files are counted by no limit.
 *
 * @beta
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) when an option is unknown or out of range.
 * @example
 * ```ts
 * import { azure, fakeProvider, virtualTime } from 'sluice/marbles';
 *
 * const provider = fakeProvider({ provider: azure({ tokensPerMinute: 10_000, sliceMs: 1000 }) });
 * virtualTime(({ flush }) => {
 *   provider.workOne({ model: 'my-gpt', max_tokens: 500, messages: [{ role: 'user', content: 'x'.repeat(400) }] }).subscribe();
 *   flush();
 * });
 * provider.books.chargedTo('req_1'); // => { requests: 1, tokens: 600 }
 * provider.books.fullest('requests').limit; // => 1
 * ```
 */
export function azure(options: AzureOptions = {}): ProviderPreset {
  onlyKnown(NAME, options, [...LIMITS, 'sliceMs', 'minuteStartsAtMs', 'unsetMaxTokens', 'settles', 'failedTokensKept', 'models']);
  checkedLimits(NAME, options, LIMITS);
  const models = checkedModels(NAME, options.models, LIMITS);
  const sliceMs = positive(NAME, 'sliceMs', orDefault(options.sliceMs, 10_000));
  const startsAt = orDefault(options.minuteStartsAtMs, 0);
  if (startsAt !== 0) positive(NAME, 'minuteStartsAtMs', startsAt);
  const unset = orDefault(options.unsetMaxTokens, 0);
  if (unset !== 0) positive(NAME, 'unsetMaxTokens', unset);
  const settles = flag(NAME, 'settles', orDefault(options.settles, false));

  const rules: Rules = {
    name: NAME,
    mainPath: (body) => `/openai/v1/${body['messages'] === undefined ? 'embeddings' : 'chat/completions'}`,
    models: Object.keys(models),
    meters(model, now) {
      const limits = model === undefined ? options : (models[model] ?? options);
      const { tokensPerMinute = Infinity, requestsPerMinute = (6 * tokensPerMinute) / 1000 } = limits;
      const meters: Meter[] = [];
      // "If the number of requests received during that time exceeds what would be expected at the set RPM limit, then new requests will receive a 429."
      if (requestsPerMinute !== Infinity) {
        const capacity = Math.max(1, Math.floor((requestsPerMinute * sliceMs) / MINUTE_MS));
        meters.push(new CounterMeter('requests', requestsPerMinute, capacity, windowsOf(sliceMs), now));
      }
      // "The estimated max-processed-token count is added to a running token count of all requests that is reset each minute."
      if (tokensPerMinute !== Infinity) {
        meters.push(new CounterMeter('tokens', tokensPerMinute, tokensPerMinute, windowsOf(MINUTE_MS, startsAt), now));
      }
      return meters;
    },
    route,
    // "Prompt text and count, the max_tokens parameter setting, the best_of parameter setting", "based in part on the character count of the request".
    onArrival({ estimate, maxOutputTokens = unset, choices, generates }) {
      return { requests: 1, tokens: estimate + (generates ? maxOutputTokens * choices : 0) };
    },
    asGenerated: undefined,
    settles: settles ? ({ inputTokens }, outputTokens) => ({ tokens: inputTokens + outputTokens }) : undefined,
    onRefusal: {},
    keepsFailed: flag(NAME, 'failedTokensKept', orDefault(options.failedTokensKept, false)),
    headers,
    refusal: ({ meter, waitMs, hintMs, question }) =>
      throttled(question, meter.unit === 'tokens' ? 'token' : 'call', waitMs === Infinity && hintMs !== undefined ? NEVER_MS : hintMs),
    pause: (question, hintMs) => throttled(question, 'call', hintMs),
    accident,
    rejection: (status, message) => openAIError(status, message, null),
    word: openAIWording,
    errorEvent: undefined,
  };
  return { name: NAME, open: (given) => openProvider(rules, given) };
}

function route(request: IncomingRequest): Route {
  const [, deployment, rest = ''] = /^\/openai\/(?:deployments\/([^/]+)|v1)\/(.+)$/.exec(request.path) ?? [];
  if (rest === '') return { kind: 'bad', failure: openAIError(404, 'Resource not found', '404') };
  const found = openAIRoute(rest, request, deployment);
  if (found.kind !== 'model') return found;
  const version = new URLSearchParams(request.query).get('api-version') ?? '2024-10-21';
  return { kind: 'model', question: { ...found.question, version } as ModelQuestion };
}

function headers({ id, meters, now }: Told): Readonly<Record<string, string>> {
  const told: Record<string, string> = { 'apim-request-id': id, 'x-ms-region': 'North Central US' };
  for (const meter of meters) {
    told[`x-ratelimit-limit-${meter.unit}`] = String(Math.floor(meter.limit));
    told[`x-ratelimit-remaining-${meter.unit}`] = String(Math.max(0, Math.floor(meter.level(now))));
  }
  return told;
}

/** The words are from refusals that users reported from 2023 to 2025. */
function throttled(question: ModelQuestion, what: 'token' | 'call', hintMs: number | undefined): Failure {
  const operation = { 'chat/completions': 'ChatCompletions_Create', embeddings: 'Embeddings_Create', responses: 'Responses_Create' }[
    question.endpoint
  ];
  const version = String(fieldsOf(question)['version']);
  const wait = hintMs === undefined ? '' : ` Please retry after ${String(Math.ceil(hintMs / 1000))} seconds.`;
  const message =
    `Requests to the ${operation ?? 'Completions_Create'} Operation under Azure OpenAI API version ${version} have exceeded ${what} rate limit of your ` +
    `current OpenAI S0 pricing tier.${wait} Please go here: https://aka.ms/oai/quotaincrease if you would like to further increase the default rate limit.`;
  return { status: 429, headers: retryAfter(hintMs), body: { error: { code: '429', message } } };
}

function accident(kind: Accident): Failure {
  if (kind === 'quota') return insufficientQuota();
  if (kind === 'flexBusy') return flexBusy();
  if (kind === 'overloaded')
    return openAIError(503, 'The server is currently overloaded, please try again later.', 'ServiceUnavailable', 'server_error');
  return openAIError(500, 'The server had an error while processing your request.', 'InternalServerError', 'server_error');
}
