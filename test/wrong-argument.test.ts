import { describe, expect, it } from 'vitest';
import * as z from 'zod';
import { batchMap, createBatcher, createLimiter, DeadlineError } from '../operators/index.js';
import { limitFetch } from '../src/adapters/fetch.js';
import { limitOpenAI } from '../src/adapters/openai.js';
import { createAccount, createEmbedder, createModelCaller, createToolRunner, defineTool } from '../src/index.js';

const read = defineTool({ name: 'read', description: 'Reads a file.', parameters: z.object({ path: z.string() }), execute: () => 'text' });
const openai = { chat: { completions: {} }, responses: {}, fetch: () => undefined, withOptions: () => undefined };

/** A value that belongs somewhere else, and the repair that its error names. */
const mistakes: readonly (readonly [what: string, make: () => unknown, message: string])[] = [
  ['a limiter as options', () => limitFetch(createAccount() as never), 'limitFetch: `options` is a limiter. Pass `{ limiter }`.'],
  [
    'a limiter as options of a client',
    () => limitOpenAI(openai as never, createAccount() as never),
    '`options` is a limiter. Pass `{ limiter }`.',
  ],
  [
    'a limiter as options of an operator',
    () => batchMap(async (xs) => xs, createLimiter() as never),
    'batchMap: `options` is a limiter. Pass `{ limiter }`.',
  ],
  [
    'the client of an SDK as `call`',
    () => createModelCaller({ call: openai as never }),
    'createModelCaller: `call` is a client of an SDK. Pass `openAIChat(client)` of `sluice/openai`.',
  ],
  [
    'another client of an SDK as `call`',
    () => createModelCaller({ call: { messages: {} } as never }),
    'createModelCaller: `call` is a client of an SDK. Pass `anthropicChat(client)` of `sluice/anthropic`.',
  ],
  [
    'tool calls of a chat completion',
    () => createToolRunner({ tools: [read] }).run([{ id: 'a', type: 'function', function: { name: 'read', arguments: '{}' } }] as never),
    'createToolRunner: `calls[0]` is a tool call of a chat completion. Pass the calls through `fromChatToolCalls` first.',
  ],
  [
    'requests per minute by another name',
    () => createAccount({ rpm: 5 } as never),
    'createAccount: unknown option `rpm`. Use `requestsPerMinute`.',
  ],
  [
    'slots by another name',
    () => createLimiter({ maxConcurrent: 5 } as never),
    'createLimiter: unknown option `maxConcurrent`. Use `concurrency`.',
  ],
  [
    'tokens of a batch by another name',
    () => createBatcher(async (xs: readonly number[]) => xs, { maxTokens: 5 } as never),
    'createBatcher: unknown option `maxTokens`. Use `maxWeight` with `weigh`.',
  ],
  ...[
    ['requestsPerHour', 'Use `rates` of `createLimiter`.'],
    ['requestsPerDya', 'Did you mean `requestsPerDay`?'],
    ['tokensPerSecond', 'Use `rates` of `createLimiter`.'],
  ].map(
    ([name = '', repair]) => [name, () => createAccount({ [name]: 5 }), `createAccount: unknown option \`${name}\`. ${repair}`] as const,
  ),
  [
    'a lane where the pipeline is made',
    () => createModelCaller({ call: async (text: string) => text, lane: 'user' } as never),
    'createModelCaller: unknown option `lane`. Give it with the call.',
  ],
  [
    'a lane where the embedder is made',
    () => createEmbedder({ call: async (texts: readonly string[]) => texts.map(() => [1]), lane: 'user' } as never),
    'createEmbedder: unknown option `lane`. Give it with the texts.',
  ],
  [
    'requests per minute of an embedder by another name',
    () => createEmbedder({ call: async (texts: readonly string[]) => texts.map(() => [1]), rpm: 5 } as never),
    'createEmbedder: unknown option `rpm`. Use `limiter: createAccount({ … })`.',
  ],
  [
    'an account by its own name',
    () => limitFetch({ account: createAccount() } as never),
    'limitFetch: unknown option `account`. Use `limiter`.',
  ],
];

describe('a value that belongs somewhere else', () => {
  it.each(mistakes)('%s', (_what, make, message) => {
    expect(make).toThrow(message);
  });
});

describe('arguments that a model did not finish', () => {
  it('are called invalid JSON, and not a wrong type', async () => {
    const runner = createToolRunner({ tools: [read] });
    const { results } = await runner.runAllAsync([{ id: 'a', name: 'read', input: '{"path":' }]);
    expect(JSON.parse(results[0]?.content ?? '')).toMatchObject({
      error: { code: 'invalid_arguments', message: 'the arguments are not valid JSON' },
    });
  });
});

describe('a deadline that ends a call before it is over', () => {
  it('says why', () => {
    expect(new DeadlineError('policy', 30_000, 66.2).message).toBe(
      'policy: given up after 66 ms: the next attempt would start after the deadline of 30000 ms',
    );
    expect(new DeadlineError('policy', 30, 31).message).toBe('policy: not settled within 30 ms (31 ms elapsed)');
  });
});
