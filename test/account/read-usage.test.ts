import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { AnswerReader } from '../../src/account/answer-reader.js';
import { readUsage } from '../../src/account/read-usage.js';

const cases: readonly (readonly [name: string, answer: unknown, usage: object | undefined])[] = [
  [
    'chat completions with cached and reasoning tokens',
    {
      usage: {
        prompt_tokens: 100,
        completion_tokens: 30,
        total_tokens: 130,
        prompt_tokens_details: { cached_tokens: 64 },
        completion_tokens_details: { reasoning_tokens: 12 },
      },
    },
    { inputTokens: 100, cacheReadTokens: 64, outputTokens: 30, reasoningTokens: 12 },
  ],
  [
    'DeepSeek, whose cache has names of its own',
    { usage: { prompt_tokens: 9, completion_tokens: 2, prompt_cache_hit_tokens: 5 } },
    { inputTokens: 9, cacheReadTokens: 5, outputTokens: 2 },
  ],
  ['embeddings', { data: [], usage: { prompt_tokens: 8, total_tokens: 8 } }, { inputTokens: 8 }],
  ['embeddings that tell only the sum', { data: [], usage: { total_tokens: 8 } }, { inputTokens: 8 }],
  [
    'a completion of a gateway that tells the sum',
    { usage: { completion_tokens: 3, total_tokens: 8 } },
    { inputTokens: 5, outputTokens: 3 },
  ],
  [
    'responses',
    {
      object: 'response',
      usage: {
        input_tokens: 7,
        input_tokens_details: { cached_tokens: 4 },
        output_tokens: 5,
        output_tokens_details: { reasoning_tokens: 1 },
      },
    },
    { inputTokens: 7, cacheReadTokens: 4, outputTokens: 5, reasoningTokens: 1 },
  ],
  [
    'the last event of responses',
    { type: 'response.completed', response: { usage: { input_tokens: 7, output_tokens: 5 } } },
    { inputTokens: 7, outputTokens: 5 },
  ],
  [
    "Anthropic's messages, which count the cache beside the input",
    { type: 'message', usage: { input_tokens: 12, cache_creation_input_tokens: 1000, cache_read_input_tokens: 20_000, output_tokens: 20 } },
    { inputTokens: 21_012, cacheReadTokens: 20_000, cacheWriteTokens: 1000, outputTokens: 20 },
  ],
  [
    'what Anthropic writes for an hour',
    {
      usage: {
        input_tokens: 1,
        cache_creation_input_tokens: 1000,
        cache_creation: { ephemeral_5m_input_tokens: 400, ephemeral_1h_input_tokens: 600 },
        output_tokens: 2,
      },
    },
    { inputTokens: 1001, cacheWriteTokens: 400, cacheWrite1hTokens: 600, outputTokens: 2 },
  ],
  [
    'the first event of a message',
    { type: 'message_start', message: { usage: { input_tokens: 5, output_tokens: 1 } } },
    { inputTokens: 5, outputTokens: 1 },
  ],
  [
    'Gemini',
    {
      usageMetadata: {
        promptTokenCount: 10,
        cachedContentTokenCount: 4,
        candidatesTokenCount: 3,
        thoughtsTokenCount: 2,
        toolUsePromptTokenCount: 1,
        totalTokenCount: 16,
      },
    },
    { inputTokens: 11, cacheReadTokens: 4, outputTokens: 5, reasoningTokens: 2 },
  ],
  ['Ollama', { prompt_eval_count: 26, eval_count: 290 }, { inputTokens: 26, outputTokens: 290 }],
  [
    'Bedrock',
    { usage: { inputTokens: 3, outputTokens: 4, cacheReadInputTokens: 10, cacheWriteInputTokens: 5 } },
    { inputTokens: 18, cacheReadTokens: 10, cacheWriteTokens: 5, outputTokens: 4 },
  ],
  ['an answer without usage', { choices: [] }, undefined],
  ['a usage of null, as in all chunks but the last', { choices: [], usage: null }, undefined],
  ['invalid numbers', { usage: { prompt_tokens: '9', completion_tokens: -1 } }, undefined],
  [
    'a tool argument with the name of usage',
    {
      choices: [{ message: { tool_calls: [{ usage: { prompt_tokens: 6_000_000 } }] } }],
      usage: { prompt_tokens: 6, completion_tokens: 1 },
    },
    { inputTokens: 6, outputTokens: 1 },
  ],
  [
    'a content block of a tool with such an argument',
    { content: [{ type: 'tool_use', input: { usage: { input_tokens: 6_000_000 } } }], usage: { input_tokens: 6, output_tokens: 1 } },
    { inputTokens: 6, outputTokens: 1 },
  ],
];

describe('what an answer says of its tokens', () => {
  it.each(cases)('%s', (_, answer, usage) => {
    expect(readUsage(answer)).toEqual(usage);
  });

  it('is found however the body is cut into pieces', () => {
    fc.assert(
      fc.property(fc.constantFrom(...cases), fc.integer({ min: 1, max: 40 }), fc.constantFrom(0, 2), ([, answer, usage], size, indent) => {
        expect(read(JSON.stringify(answer, undefined, indent), size).usage).toEqual(usage);
      }),
    );
  });

  it('is found in a body of several MB, at either end', () => {
    const data = Array.from({ length: 40_000 }, () => ({ embedding: [0.123456789, 0.987654321, 0.5] }));
    const usage = { prompt_tokens: 77, total_tokens: 77 };
    for (const body of [
      { data, usage },
      { usage, data },
    ])
      expect(read(JSON.stringify(body), 65_536).usage).toEqual({ inputTokens: 77 });
  });
});

const sse = (...events: readonly unknown[]): string =>
  events.map((event) => `event: x\ndata: ${typeof event === 'string' ? event : JSON.stringify(event)}\n\n`).join('');

describe('what a stream says of its tokens', () => {
  const anthropic = sse(
    { type: 'message_start', message: { usage: { input_tokens: 5, cache_read_input_tokens: 100, output_tokens: 1 } } },
    { type: 'content_block_delta', delta: { type: 'text_delta', text: 'Four, and nothing else.' } },
    { type: 'content_block_delta', delta: { type: 'input_json_delta', partial_json: '{"usage":{"output_tokens":6000000}}' } },
    { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 42 } },
    { type: 'message_stop' },
  );
  const chat = sse(
    { choices: [{ delta: { content: 'Four, ' } }], usage: null },
    { choices: [{ delta: { content: 'and nothing else.' } }] },
    { choices: [], usage: { prompt_tokens: 5, completion_tokens: 42 } },
    '[DONE]',
  );
  const lines = [
    { message: { content: 'Four' }, done: false },
    { done: true, prompt_eval_count: 5, eval_count: 42 },
  ]
    .map((line) => JSON.stringify(line))
    .join('\n');

  it.each([
    ['Anthropic', anthropic, { inputTokens: 105, cacheReadTokens: 100, outputTokens: 42 }],
    ['chat completions', chat, { inputTokens: 5, outputTokens: 42 }],
    ['JSON by lines without an end of the last', lines, { inputTokens: 5, outputTokens: 42 }],
    [
      "Gemini's list",
      JSON.stringify([{ usageMetadata: { promptTokenCount: 5 } }, { usageMetadata: { promptTokenCount: 5, candidatesTokenCount: 42 } }]),
      { inputTokens: 5, outputTokens: 42 },
    ],
  ])('%s, however it is cut', (_, text, usage) => {
    for (let size = 1; size < 60; size += 7) expect(read(text, size).usage).toEqual(usage);
  });

  it('is done at [DONE], not before', () => {
    expect(read(chat.slice(0, -9), 10).isDone).toBe(false);
    expect(read(chat, 10).isDone).toBe(true);
    expect(read(sse({ choices: [{ delta: { content: 'data: [DONE]' } }] }), 10).isDone).toBe(false);
  });

  it('is estimated by the pieces when the stream is left', () => {
    const left = read(
      sse(
        { type: 'message_start', message: { usage: { input_tokens: 5, output_tokens: 1 } } },
        ...Array.from({ length: 500 }, () => ({ type: 'content_block_delta', delta: { text: 'seven small words, one after the other ' } })),
      ),
      1000,
    );
    expect(left.outputTokens).toBeGreaterThan(500 * 7);
    expect(left.outputTokens).toBeLessThan(500 * 14);
    expect(read('{"choices":[{"message":{"content":"whole"}}]}', 10).outputTokens).toBe(0);
  });
});

function read(text: string, size: number): AnswerReader {
  const reader = new AnswerReader();
  const bytes = new TextEncoder().encode(text);
  for (let at = 0; at < bytes.length; at += size) reader.read(bytes.subarray(at, at + size));
  return reader;
}
