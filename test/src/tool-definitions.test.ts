import Anthropic from '@anthropic-ai/sdk';
import Anthropic0 from 'anthropic0';
import OpenAI from 'openai';
import OpenAI6 from 'openai6';
import { afterEach, describe, expect, it } from 'vitest';
import * as z from 'zod';
import type { AgentTurnOptions, AnyTool } from '../../src/index.js';
import { createAgentTurn, createToolRunner, defineTool, toMessages, toToolDefinitions } from '../../src/index.js';
import type { ModelApi } from '../fakes/model-api.js';
import { startModelApi } from '../fakes/model-api.js';
import { whole, word } from '../frontend/turn-kit.js';

const read = defineTool({
  name: 'read',
  description: 'Reads a file.',
  parameters: z.object({ path: z.string(), from: z.number().default(1) }),
  execute: ({ path }) => `text of ${path}`,
});
const schema = {
  type: 'object',
  properties: { path: { type: 'string' }, from: { type: 'number', default: 1 } },
  required: ['path'],
};
const about = { name: 'read', description: 'Reads a file.' };
/** What a request says about it. */
const DEFINITIONS = {
  chat: { type: 'function', function: { ...about, parameters: schema } },
  responses: { type: 'function', ...about, parameters: schema, strict: false },
  anthropic: { ...about, input_schema: schema },
  'ag-ui': { ...about, parameters: schema },
} as const;

describe('toToolDefinitions', () => {
  it.each(['chat', 'responses', 'anthropic', 'ag-ui'] as const)('writes %s', (protocol) => {
    expect(toToolDefinitions([read], protocol)).toEqual([DEFINITIONS[protocol]]);
  });

  it('takes the schema of an MCP server as it is, and the `jsonSchema` of a tool before all else', () => {
    const inputSchema = { type: 'object', properties: { q: {} } };
    const validate = (value: unknown) => ({ value });
    const ofServer = { ...read, parameters: { '~standard': { validate }, inputSchema } };
    const given = { type: 'object', title: 'given' };
    const tools: AnyTool[] = [ofServer, read];
    expect(toToolDefinitions(tools, 'anthropic').map(({ input_schema }) => input_schema)).toEqual([inputSchema, schema]);
    const { tools: ofRunner } = createToolRunner({
      tools: [
        { ...ofServer, jsonSchema: given },
        { ...read, name: 'other' },
      ],
    });
    expect(toToolDefinitions(ofRunner, 'anthropic').map(({ input_schema }) => input_schema)).toEqual([given, schema]);
  });

  it.each<[string, AnyTool['parameters'], string]>([
    ['says nothing about JSON', { safeParse: (data: unknown) => ({ success: true, data }) }, 'got none'],
    ['is of a text', z.string(), 'got another one'],
    ['cannot be written', z.object({ at: z.date() }), 'got an error: Date cannot be represented'],
  ])('refuses a schema that %s, and names its place', (_what, parameters, got) => {
    const make = () => toToolDefinitions([read, { ...read, parameters }], 'chat');
    expect(make).toThrow('toToolDefinitions: expected `tools[1].parameters` to be a schema that gives the JSON Schema of an object');
    expect(make).toThrow(got);
  });
});

describe('messages and definitions go through the clients as they are', () => {
  let api: ModelApi;
  afterEach(() => api.stop());
  type Model = AgentTurnOptions['model'];
  const options = { apiKey: 'k', maxRetries: 0 };
  const chat =
    (client: OpenAI): Model =>
    (messages, { signal, tools }) =>
      client.chat.completions.create(
        { model: 'm', stream: true, messages: toMessages(messages, 'chat'), tools: toToolDefinitions(tools, 'chat') },
        { signal },
      );
  const chat6 =
    (client: OpenAI6): Model =>
    (messages, { signal, tools }) =>
      client.chat.completions.create(
        { model: 'm', stream: true, messages: toMessages(messages, 'chat'), tools: toToolDefinitions(tools, 'chat') },
        { signal },
      );
  const responses =
    (client: OpenAI): Model =>
    (messages, { signal, tools }) =>
      client.responses.create(
        { model: 'm', stream: true, input: toMessages(messages, 'responses'), tools: toToolDefinitions(tools, 'responses') },
        { signal },
      );
  const responses6 =
    (client: OpenAI6): Model =>
    (messages, { signal, tools }) =>
      client.responses.create(
        { model: 'm', stream: true, input: toMessages(messages, 'responses'), tools: toToolDefinitions(tools, 'responses') },
        { signal },
      );
  const claude =
    (client: Anthropic): Model =>
    (messages, { signal, tools }) =>
      client.messages.create(
        {
          ...{ model: 'm', max_tokens: 99, stream: true },
          messages: toMessages(messages, 'anthropic'),
          tools: toToolDefinitions(tools, 'anthropic'),
        },
        { signal },
      );
  const claude0 =
    (client: Anthropic0): Model =>
    (messages, { signal, tools }) =>
      client.messages.create(
        {
          ...{ model: 'm', max_tokens: 99, stream: true },
          messages: toMessages(messages, 'anthropic'),
          tools: toToolDefinitions(tools, 'anthropic'),
        },
        { signal },
      );

  it.each<[string, keyof typeof DEFINITIONS, () => Model]>([
    ['openai, chat completions', 'chat', () => chat(new OpenAI({ ...options, baseURL: api.baseUrl }))],
    ['openai 6, chat completions', 'chat', () => chat6(new OpenAI6({ ...options, baseURL: api.baseUrl }))],
    ['openai, Responses', 'responses', () => responses(new OpenAI({ ...options, baseURL: api.baseUrl }))],
    ['openai 6, Responses', 'responses', () => responses6(new OpenAI6({ ...options, baseURL: api.baseUrl }))],
    ['@anthropic-ai/sdk', 'anthropic', () => claude(new Anthropic({ ...options, baseURL: api.url }))],
    ['@anthropic-ai/sdk 0.105', 'anthropic', () => claude0(new Anthropic0({ ...options, baseURL: api.url }))],
  ])('%s', async (_name, protocol, model) => {
    api = await startModelApi({ chunks: 9 });
    const turns = createAgentTurn({ tools: createToolRunner({ tools: [read] }), model: model() });
    const events = await whole(turns.ask('CALL read {"path":"a.md"}'));
    expect(events.at(-1)).toMatchObject({ type: 'finished', text: 'text of a.md' });
    expect(turns.history().map(word)).toHaveLength(4);
    expect(api.requests.map(({ status, body }) => [status, (body as { tools: unknown }).tools])).toEqual([
      [200, [DEFINITIONS[protocol]]],
      [200, [DEFINITIONS[protocol]]],
    ]);
  });
});
