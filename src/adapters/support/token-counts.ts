import type { Usage } from '../../../operators/index.js';
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
 * What a request with this JSON body will take at most: its content as estimated for its `model`, and the longest answers it allows, when it says. 0 for
 * another body.
 */
export function requestUsage(json: unknown): Usage & { readonly inputTokens: number } {
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
  return { inputTokens, ...(answer !== undefined && { outputTokens: answers * (answer as number) }) };
}

/** Whether a model is asked something. */
export function hasPrompt(json: unknown): boolean {
  const body = Object(json) as Readonly<Record<string, unknown>>;
  return PROMPTS.some((name) => body[name] !== undefined);
}
