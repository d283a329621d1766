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

/**
 * As the APIs of OpenAI and Anthropic name them, Google's, and Ollama's. A quote inside a text is escaped, so these are never part of one. A
 * stream may say them at its start, its end, or with every part.
 */
const COUNTS =
  /"(?:(prompt|completion|input|output|total)_tokens|(prompt|candidates|thoughts|toolUsePrompt|total)TokenCount|(prompt_eval|eval)_count)"\s*:\s*(\d{1,15})/g;
/** Where several mean the same; what is not named here has its own name, and is added. */
const KINDS: Readonly<Partial<Record<string, string>>> = {
  prompt: 'input',
  completion: 'output',
  candidates: 'output',
  prompt_eval: 'input',
  eval: 'output',
};
/** The last thing an OpenAI-compatible stream says. Its client reads no further, and cancels the body. */
const DONE = /\ndata: ?\[DONE\]/;
/** Longer than anything that matches. */
const OVERLAP = 64;

/** Finds what an answer says about its tokens, whole or streamed, while it passes by; the last number of a kind counts. */
export class UsageReader {
  readonly #decoder = new TextDecoder('latin1');
  readonly #found = new Map<string, number>();
  #rest = '';
  #isDone = false;

  /** Nothing is missing, though the body may not have ended. */
  get isDone(): boolean {
    return this.#isDone;
  }

  read(bytes: Uint8Array): void {
    const text = this.#rest + this.#decoder.decode(bytes, { stream: true });
    for (const [, snake, camel, ollama, digits] of text.matchAll(COUNTS)) {
      const name = snake ?? camel ?? ollama ?? '';
      const kind = KINDS[name] ?? name;
      // The end of a stream may have nothing to add to its start, and says so.
      if (Number(digits) > 0 || !this.#found.has(kind)) this.#found.set(kind, Number(digits));
    }
    this.#isDone ||= DONE.test(text);
    this.#rest = text.slice(-OVERLAP);
  }

  /** Undefined when nothing was said. */
  get usage(): Usage | undefined {
    const inputTokens = this.#sum('input', 'toolUsePrompt');
    const outputTokens = this.#sum('output', 'thoughts');
    if (inputTokens === undefined && outputTokens === undefined) {
      const total = this.#found.get('total');
      return total === undefined ? undefined : { inputTokens: total };
    }
    return { ...(inputTokens !== undefined && { inputTokens }), ...(outputTokens !== undefined && { outputTokens }) };
  }

  #sum(...kinds: readonly string[]): number | undefined {
    const found = kinds.flatMap((kind) => this.#found.get(kind) ?? []);
    return found.length === 0 ? undefined : found.reduce((sum, tokens) => sum + tokens);
  }
}
