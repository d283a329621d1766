import { describe, expect, it } from 'vitest';
import { requestUsage } from '../../src/adapters/support/token-counts.js';
import { createTokenEstimator } from '../../src/tokenizers/estimate.js';

const BASE64 = 'iVBORw0KGgo'.repeat(20_000);
const WORDS = 'word '.repeat(2000);
const KB = (BASE64.length * 0.75) / 1000;

/** Tokens of a message with this content, less what one without any costs. */
function of(...content: readonly unknown[]): number {
  const asked = (parts: readonly unknown[]): number =>
    requestUsage({ model: 'm', messages: [{ role: 'user', content: parts }] }).inputTokens;
  return asked(content) - asked([]);
}

describe('the estimate of a request', () => {
  const text = createTokenEstimator()(WORDS);
  const around = (tokens: number): readonly [number, number] => [tokens, tokens + 60];

  it.each([
    ['a text of Anthropic or OpenAI', { type: 'text', text: WORDS }, around(text)],
    ['a document of text', { type: 'document', source: { type: 'text', media_type: 'text/plain', data: WORDS } }, around(text)],
    ['a document of content', { type: 'document', source: { type: 'content', content: [{ type: 'text', text: WORDS }] } }, around(text)],
    ['a result of a tool with text', { type: 'tool_result', tool_use_id: 't', content: [{ type: 'text', text: WORDS }] }, around(text)],
    [
      'arguments of a tool, whatever they are called',
      { type: 'tool_use', input: { data: WORDS, file: WORDS, image: WORDS } },
      around(3 * text),
    ],
    ['a picture of Anthropic', { type: 'image', source: { type: 'base64', media_type: 'image/png', data: BASE64 } }, around(1600)],
    ['a picture of Anthropic by its address', { type: 'image', source: { type: 'url', url: 'https://host/a.png' } }, around(1600)],
    ['a picture of OpenAI', { type: 'image_url', image_url: { url: `data:image/png;base64,${BASE64}` } }, around(1600)],
    ['a picture of the Responses API', { type: 'input_image', image_url: 'https://host/a.png' }, around(1600)],
    ['a picture of low detail', { type: 'image_url', image_url: { url: 'https://host/a.png', detail: 'low' } }, around(85)],
    [
      'a picture of low detail of the Responses API',
      { type: 'input_image', detail: 'low', image_url: `data:image/png;base64,${BASE64}` },
      around(85),
    ],
    ['a picture of Gemini', { inlineData: { mimeType: 'image/png', data: BASE64 } }, around(1600)],
    ['a picture of the AI SDK', { type: 'file', mediaType: 'image/png', data: new Uint8Array(5000) }, around(1600)],
    ['pictures of Ollama', { images: [BASE64, BASE64] }, around(3200)],
    [
      'a PDF of Anthropic',
      { type: 'document', source: { type: 'base64', media_type: 'application/pdf', data: BASE64 } },
      around(3000 * Math.ceil(KB / 50)),
    ],
    [
      'a PDF of OpenAI',
      { type: 'file', file: { filename: 'a.pdf', file_data: `data:application/pdf;base64,${BASE64}` } },
      around(3000 * Math.ceil(KB / 50)),
    ],
    ['a PDF by its name', { type: 'input_file', file_id: 'file-abc' }, around(3000)],
    ['a PDF of Gemini', { fileData: { mimeType: 'application/pdf', fileUri: 'gs://bucket/a.pdf' } }, around(3000)],
    ['audio of OpenAI, compressed', { type: 'input_audio', input_audio: { format: 'mp3', data: BASE64 } }, around(32 * Math.ceil(KB / 8))],
    ['audio of OpenAI as it is', { type: 'input_audio', input_audio: { format: 'wav', data: BASE64 } }, around(32 * Math.ceil(KB / 32))],
    ['audio of Gemini', { inline_data: { mime_type: 'audio/wav', data: BASE64 } }, around(32 * Math.ceil(KB / 32))],
    ['video of Gemini', { inlineData: { mimeType: 'video/mp4', data: BASE64 } }, around(300 * Math.ceil(KB / 125))],
  ])('is about right for %s', (_name, part, [least, most]) => {
    expect(of(part)).toBeGreaterThanOrEqual(least);
    expect(of(part)).toBeLessThanOrEqual(most);
  });

  it.each([
    [{ max_tokens: 100 }, 100],
    [{ max_tokens: 100, n: 8 }, 800],
    [{ max_tokens: 100, n: 2, best_of: 5 }, 500],
    [{ generationConfig: { maxOutputTokens: 100, candidateCount: 3 } }, 300],
    [{ max_tokens: 100, n: 0 }, 100],
    [{ max_tokens: 100, n: 'all' }, 100],
    [{ max_tokens: 100, n: 1e9 }, 12_800],
    [{ n: 8 }, 0],
  ])('of %j allows %i tokens of answers', (body, tokens) => {
    expect(requestUsage({ messages: [], ...body }).outputTokens).toBe(tokens);
  });

  it('is that of the encoding of its model', () => {
    const content = 'დამოუკიდებლად '.repeat(50);
    const asked = (model?: string): number => requestUsage({ model, messages: [{ role: 'user', content }] }).inputTokens;
    expect(asked('gpt-3.5-turbo')).toBeGreaterThan(3 * asked('gpt-4o'));
    expect(asked('claude-opus-4-1')).toBe(asked('gpt-3.5-turbo'));
    expect(asked()).toBe(asked('gpt-3.5-turbo'));
  });

  it('counts schemas, and texts given as tokens', () => {
    const schema = { type: 'function', function: { name: 'f', description: WORDS } };
    for (const name of ['tools', 'functions', 'response_format'])
      expect(requestUsage({ [name]: [schema] }).inputTokens, name).toBeGreaterThanOrEqual(text);
    expect(requestUsage({ input: [1, 2, 3] }).inputTokens).toBe(3);
  });

  it.each([undefined, null, 'text', 5, [], { messages: 'x', tools: null, n: null }])('is none too strange: %j', (body) => {
    expect(requestUsage(body).inputTokens).toBeLessThan(3);
  });
});
