import type { Api } from './model-api-exchange.js';
import { POISON, tokensIn } from './model-api-exchange.js';

interface Body {
  readonly model: string;
  readonly input: string | readonly string[];
  readonly encoding_format?: 'float' | 'base64';
  readonly dimensions?: number;
}

const DEFAULT_DIMENSIONS = 8;

/** `POST /v1/embeddings`: see {@link vectorOf} for the vectors. */
export const embeddings: Api = (body, { namePoison }) => {
  const { model, input, encoding_format, dimensions } = body as Body;
  const texts = typeof input === 'string' ? [input] : input;
  const inputTokens = tokensIn(texts);
  const poisoned = texts.findIndex((text) => text.includes(POISON));
  return {
    inputTokens,
    outputTokens: 0,
    poison: poisoned === -1 ? undefined : refusalOf(poisoned, namePoison),
    answer: {
      object: 'list',
      data: texts.map((text, index) => {
        const vector = vectorOf(text, dimensions);
        return { object: 'embedding', index, embedding: encoding_format === 'base64' ? base64Of(vector) : vector };
      }),
      model,
      usage: { prompt_tokens: inputTokens, total_tokens: inputTokens },
    },
  };
};

/** The vector of a text: equal for equal texts, another one for each other text, and the same in 32 bits as in 64. */
export function vectorOf(text: string, dimensions = DEFAULT_DIMENSIONS): number[] {
  return Array.from({ length: dimensions }, (_, dimension) => (hashOf(`${dimension}:${text}`) >>> 16) / 0x8000 - 1);
}

/** FNV-1a, 32 bits, with the bits mixed once more: the last characters reach the upper half, too. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d);
}

function base64Of(vector: readonly number[]): string {
  return Buffer.from(new Float32Array(vector).buffer).toString('base64');
}

function refusalOf(index: number, named: boolean) {
  const at = `input[${index}]`;
  return named ? { status: 400, message: `Invalid '${at}': it was refused.`, param: at } : { status: 400, message: 'Invalid input.' };
}
