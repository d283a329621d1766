import type { Usage } from '../../../operators/types.js';
import { answersOf, contentTokens } from '../../tokenizers/content-tokens.js';
import { estimatorFor } from '../../tokenizers/estimate.js';

/** Google's: of a chat, of one text and of many to embed, and what a chat begins with. */
const GEMINI_PROMPTS: readonly string[] = ['contents', 'content', 'requests', 'systemInstruction', 'system_instruction'];
/** Keys of a request body under which prompts are; the rest is settings. */
const PROMPTS: readonly string[] = [
  ...['messages', 'input', 'prompt', 'suffix', 'system', 'instructions', 'query', 'documents', 'texts'],
  ...GEMINI_PROMPTS,
];
/** Under these are schemas, which a model reads as JSON. */
const SCHEMAS: readonly string[] = [
  'tools',
  'functions',
  'response_format',
  'output_config',
  'text',
  'responseSchema',
  'responseJsonSchema',
];
/** Keys of a request body that allow an answer of so many tokens. */
const ANSWERS: readonly string[] = ['max_completion_tokens', 'max_output_tokens', 'max_tokens', 'maxOutputTokens'];
/** How many answers it asks for. */
const COUNTS_OF_ANSWERS: readonly string[] = ['n', 'best_of', 'candidateCount', 'candidate_count'];

/**
 * What a request with this JSON body will take at most: its content as estimated for its `model`, and the longest answers it allows. 0 for
 * another body.
 */
export function requestUsage(json: unknown): Required<Usage> {
  const body = Object(json) as Readonly<Record<string, unknown>>;
  const config = Object(body['generationConfig']) as typeof body;
  const estimate = estimatorFor(body['model']);
  const answer = ANSWERS.map((name) => body[name] ?? config[name]).find(
    (value) => typeof value === 'number' && value > 0 && value < Infinity,
  );
  const answers = answersOf(...COUNTS_OF_ANSWERS.map((name) => body[name] ?? config[name]));
  const schemas = SCHEMAS.map((name) => body[name] ?? config[name]).filter((schema) => typeof schema === 'object' && schema !== null);
  const read = schemas.reduce<number>((tokens, schema) => tokens + estimate(JSON.stringify(schema)), 0);
  const inputTokens = PROMPTS.reduce((tokens, name) => tokens + contentTokens(body[name], estimate), read);
  return { inputTokens, outputTokens: answers * ((answer as number | undefined) ?? 0) };
}

/** The same in one number, for a limiter. */
export function requestTokens(json: unknown): number {
  const { inputTokens, outputTokens } = requestUsage(json);
  return inputTokens + outputTokens;
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
