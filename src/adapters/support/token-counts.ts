import type { Usage } from '../../../operators/types.js';
import { createTokenEstimator } from '../../tokenizers/estimate.js';

/** Google's: of a chat, of one text and of many to embed, and what a chat begins with. */
const GEMINI_PROMPTS: readonly string[] = ['contents', 'content', 'requests', 'systemInstruction'];
/** Keys of a request body under which prompts are; the rest is settings. */
const PROMPTS: readonly string[] = ['messages', 'input', 'prompt', 'system', 'instructions', ...GEMINI_PROMPTS];
/** Keys of a request body that allow an answer of so many tokens. */
const ANSWERS: readonly string[] = ['max_completion_tokens', 'max_output_tokens', 'max_tokens', 'maxOutputTokens'];
/** Below these are files and pictures, whose letters are no tokens. */
const BINARY: ReadonlySet<string> = new Set([
  ...['data', 'image_url', 'file_data', 'url', 'image', 'file', 'audio'],
  // Google's.
  ...['inlineData', 'fileData'],
]);

const estimate = /* @__PURE__ */ createTokenEstimator();

/** What a request with this JSON body will take at most: its texts as estimated, and the longest answer it allows. 0 for another body. */
export function requestUsage(json: unknown): Required<Pick<Usage, 'inputTokens' | 'outputTokens'>> {
  const body = Object(json) as Readonly<Record<string, unknown>>;
  const config = Object(body['generationConfig']) as typeof body;
  const answer = ANSWERS.map((name) => body[name] ?? config[name]).find(
    (value) => typeof value === 'number' && value > 0 && value < Infinity,
  );
  const tools = body['tools'] === undefined ? 0 : estimate(JSON.stringify(body['tools']));
  const inputTokens = PROMPTS.reduce((tokens, name) => tokens + textTokens(body[name]), tools);
  return { inputTokens, outputTokens: (answer as number | undefined) ?? 0 };
}

/** The same in one number, for a limiter. */
export function requestTokens(json: unknown): number {
  const { inputTokens, outputTokens } = requestUsage(json);
  return inputTokens + outputTokens;
}

/** However deep it is. */
function textTokens(value: unknown): number {
  let tokens = 0;
  const open = [value];
  while (open.length > 0) {
    const part = open.pop();
    if (typeof part === 'string') tokens += estimate(part);
    // Texts may be given as the tokens they are.
    else if (typeof part === 'number') tokens += 1;
    else if (Array.isArray(part)) for (const one of part as unknown[]) open.push(one);
    else for (const [name, inner] of Object.entries(Object(part) as object)) if (!BINARY.has(name)) open.push(inner);
  }
  return tokens;
}

/** Whether a model is asked something. */
export function hasPrompt(json: unknown): boolean {
  const body = Object(json) as Readonly<Record<string, unknown>>;
  return PROMPTS.some((name) => body[name] !== undefined);
}
