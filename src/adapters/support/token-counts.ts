import type { Usage } from '../../../operators/support/types.js';
import { createTokenEstimator } from '../../tokenizers/estimate.js';

/** Keys of a request body under which prompts are; the rest is settings. */
const PROMPTS: readonly string[] = ['messages', 'input', 'prompt', 'system', 'instructions', 'contents'];
/** Keys of a request body that allow an answer of so many tokens. */
const ANSWERS: readonly string[] = ['max_completion_tokens', 'max_output_tokens', 'max_tokens'];
/** Below these are files and pictures, whose letters are no tokens. */
const BINARY: ReadonlySet<string> = new Set(['data', 'image_url', 'file_data', 'url', 'image', 'file', 'audio']);

const estimate = /* @__PURE__ */ createTokenEstimator();

/** What a request with this JSON body will cost at most: its texts as estimated, and the longest answer it allows. 0 for another body. */
export function requestTokens(json: unknown): number {
  const body = Object(json) as Readonly<Record<string, unknown>>;
  const answer = ANSWERS.map((name) => body[name]).find((value) => typeof value === 'number' && value > 0 && value < Infinity);
  const tools = body['tools'] === undefined ? 0 : estimate(JSON.stringify(body['tools']));
  return PROMPTS.reduce((tokens, name) => tokens + textTokens(body[name]), ((answer as number | undefined) ?? 0) + tools);
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

/** As the APIs of OpenAI and Anthropic name them. A quote inside a text is escaped, so these are never part of one; usage comes last. */
const COUNTS = /"(prompt|completion|input|output|total)_tokens"\s*:\s*(\d{1,15})/g;
/** Where both mean the same. */
const KINDS: Readonly<Partial<Record<string, string>>> = { prompt: 'input', completion: 'output' };
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
    for (const [, name = '', tokens] of text.matchAll(COUNTS)) this.#found.set(KINDS[name] ?? name, Number(tokens));
    this.#isDone ||= DONE.test(text);
    this.#rest = text.slice(-OVERLAP);
  }

  /** Undefined when nothing was said. */
  get usage(): Usage | undefined {
    const found = this.#found;
    const inputTokens = found.get('input');
    const outputTokens = found.get('output');
    if (inputTokens === undefined && outputTokens === undefined) {
      const total = found.get('total');
      return total === undefined ? undefined : { inputTokens: total };
    }
    return { ...(inputTokens !== undefined && { inputTokens }), ...(outputTokens !== undefined && { outputTokens }) };
  }
}
