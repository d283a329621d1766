import { check } from '../../operators/build.js';
import type { Usage } from '../../operators/index.js';

/**
 * What the rate limits of a provider count, and when. A row of a table: take one of the {@link providers}, or write your own,
 * `{ ...providers.openai, unusedOutput: 'returned' }`.
 * @beta
 */
export interface ProviderRules {
  /** In events and records. */
  readonly name: string;
  /** Whether input that is read from the provider's prompt cache counts in `inputTokens` and `tokens`. */
  readonly cacheReads: 'free' | 'counted';
  /** Whether output counts when the request comes in, with all that `max_tokens` allows, or as it is generated. */
  readonly outputCharged: 'onArrival' | 'asGenerated';
  /** Of output that counted on arrival and was not generated: whether the provider gives it back when the answer has ended. */
  readonly unusedOutput: 'returned' | 'kept';
  /** What `tokens` counts: input and output together, the larger of the two, or the input alone. */
  readonly tokensCharged: 'sum' | 'larger' | 'input';
  /** Input of a request that was refused (400, 401, 403, 404, 413, 422): nothing was generated. */
  readonly refusedInput: 'returned' | 'kept';
  /** Input of a request that failed (5xx, a broken connection) before anything of its answer came. */
  readonly failedInput: 'returned' | 'kept';
}

/** Before anything is known of a call. */
export interface RequestTokens {
  /** Tokens of the prompt, estimated. */
  readonly inputTokens: number;
  /** Most tokens that the answer may have (`max_tokens`, times the number of answers); undefined when the request does not say. */
  readonly maxOutputTokens: number | undefined;
  /** Tokens beside those, of which it is not known whether prompt or answer has them. @defaultValue 0 */
  readonly tokens?: number;
}

/** What the rates count, by unit. */
export interface TokenUnits {
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly tokens: number;
}

const LIKE_MOST = {
  cacheReads: 'counted',
  outputCharged: 'asGenerated',
  unusedOutput: 'returned',
  tokensCharged: 'sum',
  refusedInput: 'returned',
  failedInput: 'kept',
} as const;

/**
 * What is known of the providers, checked against their pages on 2026-11-28.
 *
 * - `anthropic`: https://platform.claude.com/docs/en/api/rate-limits. Input and output apart; reads from the prompt cache do not count for current
 *   models, writes do. The provider's pages disagree on whether `max_tokens` counts on arrival; the headers show it, and an account that sees
 *   it changes over by itself.
 * - `openai`: https://platform.openai.com/docs/guides/rate-limits. One limit for both; `max_tokens` counts on arrival and is not given back.
 *   Two readings of the page exist, the larger of input and `max_tokens` or their sum: the sum is the larger.
 * - `azure`: https://learn.microsoft.com/azure/ai-foundry/openai/how-to/quota. Prompt, `max_tokens` and `best_of` count on arrival, in a counter for each minute.
 * - `gemini`: https://ai.google.dev/gemini-api/docs/rate-limits. Input tokens alone.
 * - `groq`: https://console.groq.com/docs/rate-limits. Cached tokens do not count.
 * - `cerebras`: https://inference-docs.cerebras.ai/support/rate-limits. Input and `max_completion_tokens` are checked on arrival.
 * - `bedrock`: https://docs.aws.amazon.com/bedrock/latest/userguide/quotas-token-burndown.html. Input and `maxTokens` are reserved on arrival; what was
 *   not used and what was read from the cache comes back.
 * - `other`: a server of which nothing is known.
 * @beta
 */
export const providers = /* @__PURE__ */ (() =>
  ({
    anthropic: { ...LIKE_MOST, name: 'anthropic', cacheReads: 'free' },
    openai: { ...LIKE_MOST, name: 'openai', outputCharged: 'onArrival', unusedOutput: 'kept' },
    azure: { ...LIKE_MOST, name: 'azure', outputCharged: 'onArrival', unusedOutput: 'kept' },
    gemini: { ...LIKE_MOST, name: 'gemini', tokensCharged: 'input' },
    groq: { ...LIKE_MOST, name: 'groq', cacheReads: 'free' },
    cerebras: { ...LIKE_MOST, name: 'cerebras', outputCharged: 'onArrival' },
    bedrock: { ...LIKE_MOST, name: 'bedrock', cacheReads: 'free', outputCharged: 'onArrival' },
    other: { ...LIKE_MOST, name: 'other' },
  }) as const satisfies Readonly<Record<string, ProviderRules>>)();

/** By the end of a host's name. */
const HOSTS: readonly (readonly [host: string, rules: ProviderRules])[] = /* @__PURE__ */ (() => [
  ['anthropic.com', providers.anthropic],
  ['api.openai.com', providers.openai],
  ['openai.azure.com', providers.azure],
  ['services.ai.azure.com', providers.azure],
  ['cognitiveservices.azure.com', providers.azure],
  ['googleapis.com', providers.gemini],
  ['groq.com', providers.groq],
  ['cerebras.ai', providers.cerebras],
  ['amazonaws.com', providers.bedrock],
])();

/** The rules of the server behind an address; undefined of one that is not known. */
export function providerAt(url: string): ProviderRules | undefined {
  let host: string;
  try {
    host = new URL(url).hostname.toLowerCase();
  } catch {
    return undefined;
  }
  return HOSTS.find(([end]) => host === end || host.endsWith(`.${end}`))?.[1];
}

/** By a name that a library gives a provider, such as `anthropic.messages` or `google.generative-ai`; undefined of one that is not known. */
export function providerNamed(name: unknown): ProviderRules | undefined {
  if (typeof name !== 'string') return undefined;
  const words = name.toLowerCase().split(/[^a-z]/);
  return NAMES.find(([word]) => words.includes(word))?.[1];
}

/** The most special first: a name may have several of them. */
const NAMES: readonly (readonly [word: string, rules: ProviderRules])[] = /* @__PURE__ */ (() => [
  ['azure', providers.azure],
  ['bedrock', providers.bedrock],
  ['anthropic', providers.anthropic],
  ['google', providers.gemini],
  ['vertex', providers.gemini],
  ['groq', providers.groq],
  ['cerebras', providers.cerebras],
  ['openai', providers.openai],
])();

/** What a request is charged with before it is sent. `expected` is what its answer will probably have. */
export function unitsBefore(rules: ProviderRules, request: RequestTokens, expected: number): TokenUnits {
  const { maxOutputTokens } = request;
  const inputTokens = request.inputTokens + (request.tokens ?? 0);
  const outputTokens =
    rules.outputCharged === 'onArrival' ? (maxOutputTokens ?? expected) : Math.min(maxOutputTokens ?? Infinity, expected);
  return { inputTokens, outputTokens, tokens: together(rules, inputTokens, outputTokens) };
}

/**
 * What the rates have counted of a call that is over, or is left where it is. `charged` is what it was charged with; a unit of which nothing is known
 * keeps that.
 */
export function unitsAfter(rules: ProviderRules, usage: Usage, charged: TokenUnits): TokenUnits {
  const { inputTokens, cacheReadTokens = 0, outputTokens } = usage;
  const input =
    inputTokens === undefined
      ? charged.inputTokens
      : inputTokens - (rules.cacheReads === 'free' ? Math.min(inputTokens, cacheReadTokens) : 0);
  const isKept = rules.outputCharged === 'onArrival' && rules.unusedOutput === 'kept';
  const output = outputTokens === undefined ? charged.outputTokens : isKept ? Math.max(charged.outputTokens, outputTokens) : outputTokens;
  // By as much as the sum was bounded when the permit was granted, unless that much was really used.
  const bounded = isKept ? Math.max(0, together(rules, charged.inputTokens, charged.outputTokens) - charged.tokens) : 0;
  const tokens = Math.max(together(rules, input, outputTokens ?? 0), together(rules, input, output) - bounded);
  return { inputTokens: input, outputTokens: output, tokens };
}

/** The same of a call to which no answer came: refused, or broken off before its first byte. */
export function unitsWithoutAnswer(rules: ProviderRules, how: 'refused' | 'failed', charged: TokenUnits): TokenUnits {
  const isReturned = (how === 'refused' ? rules.refusedInput : rules.failedInput) === 'returned';
  const inputTokens = isReturned ? 0 : charged.inputTokens;
  return { inputTokens, outputTokens: 0, tokens: together(rules, inputTokens, 0) };
}

function together({ tokensCharged }: ProviderRules, input: number, output: number): number {
  if (tokensCharged === 'input') return input;
  return tokensCharged === 'sum' ? input + output : Math.max(input, output);
}

/** What each column of a row may say. */
export const COLUMNS: Readonly<Record<Exclude<keyof ProviderRules, 'name'>, readonly string[]>> = {
  cacheReads: ['free', 'counted'],
  outputCharged: ['onArrival', 'asGenerated'],
  unusedOutput: ['returned', 'kept'],
  tokensCharged: ['sum', 'larger', 'input'],
  refusedInput: ['returned', 'kept'],
  failedInput: ['returned', 'kept'],
};

/** The `provider` option. @throws FlowConfigError */
export function providerOption(operator: string, option: string, rules: ProviderRules | undefined): ProviderRules | undefined {
  if (rules === undefined) return undefined;
  check.onlyKnown(operator, rules, ['name', ...Object.keys(COLUMNS)], option, `${option}.`);
  check.nonEmpty(operator, `${option}.name`, rules.name);
  for (const [column, values] of Object.entries(COLUMNS))
    check.oneOf(...values)(operator, `${option}.${column}`, rules[column as keyof typeof COLUMNS]);
  return { ...rules };
}
