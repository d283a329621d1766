import type { Usage } from '../../operators/index.js';

type Fields = Readonly<Record<string, unknown>>;

/**
 * What an answer of a model says about its tokens, in the shape of whichever API it is: chat completions, responses, embeddings, Anthropic's
 * messages, Gemini's, Bedrock's and Ollama's; also one event of their streams. Reads the places where these APIs put usage and no others: a tool
 * argument with a field of that name is no usage. Undefined when the answer says nothing.
 *
 * Cached tokens are part of `inputTokens` here, whether the API counts them in (OpenAI, Gemini) or beside it (Anthropic, Bedrock).
 */
export function readUsage(answer: unknown): Usage | undefined {
  const at = fields(answer);
  const inner = fields(at['message']);
  const response = fields(at['response']);
  const counts = [at['usage'], inner['usage'], response['usage'], fields(at['x_groq'])['usage']].find(isObject);
  if (counts) return usageIn(fields(counts));
  const google = [at['usageMetadata'], response['usageMetadata']].find(isObject);
  if (google) return ofGemini(fields(google));
  return at['prompt_eval_count'] === undefined && at['eval_count'] === undefined
    ? undefined
    : told({ inputTokens: tokens(at['prompt_eval_count']), outputTokens: tokens(at['eval_count']) });
}

/** The same of the `usage` object alone. */
export function usageIn(usage: Fields): Usage | undefined {
  if (usage['prompt_tokens'] !== undefined || usage['completion_tokens'] !== undefined) return ofChat(usage);
  if (usage['inputTokens'] !== undefined || usage['outputTokens'] !== undefined) return ofBedrock(usage);
  if (usage['input_tokens'] !== undefined || usage['output_tokens'] !== undefined) return ofMessages(usage);
  return told({ inputTokens: tokens(usage['total_tokens']) });
}

/** Counts of a stream grow: of each kind the most that was said. */
export function mostOf(one: Usage | undefined, other: Usage | undefined): Usage | undefined {
  if (one === undefined || other === undefined) return one ?? other;
  const most: Record<string, number> = {};
  for (const usage of [one, other])
    for (const [name, value] of Object.entries(usage)) if (typeof value === 'number') most[name] = Math.max(most[name] ?? 0, value);
  return most;
}

/** Chat completions and embeddings of OpenAI and of the many that speak like it. Cached tokens are part of the prompt. */
function ofChat(usage: Fields): Usage | undefined {
  const prompt = fields(usage['prompt_tokens_details']);
  const input = tokens(usage['prompt_tokens']);
  return told({
    // An embedding has no completion, and a gateway may report only the sum.
    inputTokens: input ?? less(tokens(usage['total_tokens']), tokens(usage['completion_tokens'])),
    cacheReadTokens: tokens(prompt['cached_tokens']) ?? tokens(usage['prompt_cache_hit_tokens']),
    cacheWriteTokens: tokens(prompt['cache_write_tokens']),
    outputTokens: tokens(usage['completion_tokens']),
    reasoningTokens: tokens(fields(usage['completion_tokens_details'])['reasoning_tokens']),
  });
}

/** OpenAI's responses, which count cached tokens in, and Anthropic's messages, which count them beside. */
function ofMessages(usage: Fields): Usage | undefined {
  const written = fields(usage['cache_creation']);
  const forAnHour = tokens(written['ephemeral_1h_input_tokens']);
  const allWritten = tokens(usage['cache_creation_input_tokens']) ?? sum(tokens(written['ephemeral_5m_input_tokens']), forAnHour);
  const read = tokens(usage['cache_read_input_tokens']);
  return told({
    inputTokens: sum(tokens(usage['input_tokens']), allWritten, read),
    cacheReadTokens: read ?? tokens(fields(usage['input_tokens_details'])['cached_tokens']),
    cacheWriteTokens: forAnHour === undefined ? allWritten : less(allWritten, forAnHour),
    cacheWrite1hTokens: forAnHour,
    outputTokens: tokens(usage['output_tokens']),
    reasoningTokens: tokens(fields(usage['output_tokens_details'])['reasoning_tokens']),
  });
}

/** Bedrock's Converse. */
function ofBedrock(usage: Fields): Usage | undefined {
  const read = tokens(usage['cacheReadInputTokens']);
  const written = tokens(usage['cacheWriteInputTokens']);
  return told({
    inputTokens: sum(tokens(usage['inputTokens']), read, written),
    cacheReadTokens: read,
    cacheWriteTokens: written,
    outputTokens: tokens(usage['outputTokens']),
  });
}

function ofGemini(usage: Fields): Usage | undefined {
  const thoughts = tokens(usage['thoughtsTokenCount']);
  const input = sum(tokens(usage['promptTokenCount']), tokens(usage['toolUsePromptTokenCount']));
  return told({
    inputTokens: input ?? tokens(usage['totalTokenCount']),
    cacheReadTokens: tokens(usage['cachedContentTokenCount']),
    outputTokens: sum(tokens(usage['candidatesTokenCount']), thoughts),
    reasoningTokens: thoughts,
  });
}

/** Without what is not known; undefined when nothing is. */
function told(usage: Readonly<Partial<Record<string, number | undefined>>>): Usage | undefined {
  const known = Object.entries(usage).filter(([, value]) => value !== undefined);
  return known.length === 0 ? undefined : Object.fromEntries(known);
}

function fields(value: unknown): Fields {
  return Object(value) as Fields;
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

/** A count; undefined for anything else, as for numbers that no count can be. */
function tokens(value: unknown): number | undefined {
  return typeof value === 'number' && value >= 0 && value < Infinity ? value : undefined;
}

function sum(...counts: readonly (number | undefined)[]): number | undefined {
  const known = counts.filter((count) => count !== undefined);
  return known.length === 0 ? undefined : known.reduce((total, count) => total + count, 0);
}

function less(count: number | undefined, part: number | undefined): number | undefined {
  return count === undefined ? undefined : Math.max(0, count - (part ?? 0));
}
