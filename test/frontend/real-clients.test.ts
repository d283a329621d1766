import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { describe, expect, it, onTestFinished } from 'vitest';
import * as z from 'zod';
import { createAgentTurn } from '../../src/frontend/create-agent-turn.js';
import { toMessages } from '../../src/frontend/turn-messages.js';
import type { AgentTurnOptions, TurnMessage } from '../../src/frontend/turn-types.js';
import { chatCompletions, createModelCaller } from '../../src/pipelines/create-model-caller.js';
import { createToolRunner } from '../../src/pipelines/create-tool-runner.js';
import { defineTool } from '../../src/pipelines/tools/tool-types.js';
import { CHAT_MODEL, fakeRuntime, hang } from '../support/fake-chat.js';
import { messageFaults } from '../support/message-faults.js';
import { clientOf, serverFor } from '../support/model-server.js';
import { expectNoUnhandledRejections } from '../support/rejections.js';
import { line, whole, word } from './turn-kit.js';

expectNoUnhandledRejections();

const weather = defineTool({
  name: 'weather',
  description: 'The weather of a city.',
  parameters: z.object({ city: z.string() }),
  readOnly: true,
  execute: ({ city }) => `${city}: sunny`,
});

interface Asked {
  readonly messages: readonly { readonly role: string; readonly content: unknown }[];
}

/**
 * A provider that refuses what it would refuse, asks for two tools in interleaved pieces, and answers once it has their results. A question `hang` is
 * answered with one word, and no more until the client leaves.
 */
async function provider(protocol: 'chat' | 'anthropic') {
  const seen = { answered: 0, aborted: 0, refused: [] as string[][] };
  const server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => {
      const { messages } = JSON.parse(Buffer.concat(parts).toString()) as Asked;
      const faults = messageFaults(messages, protocol);
      if (faults.length > 0) {
        seen.refused.push(faults);
        response.writeHead(400, { 'content-type': 'application/json' }).end(JSON.stringify({ error: { message: faults.join() } }));
        return;
      }
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      const events = protocol === 'chat' ? chatEvents(messages) : anthropicEvents(messages);
      for (const event of events) response.write(`event: ${String((event as { type?: string }).type)}\ndata: ${JSON.stringify(event)}\n\n`);
      if (JSON.stringify(messages.at(-1)).includes('hang')) {
        response.on('close', () => seen.aborted++);
        return;
      }
      seen.answered++;
      response.end(protocol === 'chat' ? 'data: [DONE]\n\n' : '');
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { seen, baseURL: `http://127.0.0.1:${String((server.address() as AddressInfo).port)}` };
}

const CITIES = ['Oslo', 'Rome'];

function chatEvents(messages: Asked['messages']): object[] {
  const chunk = (delta: object, finish_reason: string | null = null) => ({
    id: 'c',
    object: 'chat.completion.chunk',
    choices: [{ index: 0, delta, finish_reason }],
  });
  if (JSON.stringify(messages.at(-1)).includes('hang')) return [chunk({ content: 'one' })];
  if (messages.at(-1)?.role === 'tool') return [chunk({ content: 'Sunny ' }), chunk({ content: 'all over.' }), chunk({}, 'stop')];
  const pieces = ['{"ci', 'ty":"', '"}'];
  return [
    ...CITIES.map((_, index) =>
      chunk({ tool_calls: [{ index, id: `call_${String(index)}`, type: 'function', function: { name: 'weather', arguments: '' } }] }),
    ),
    ...pieces.flatMap((piece, i) =>
      CITIES.map((city, index) => chunk({ tool_calls: [{ index, function: { arguments: i === 1 ? piece + city : piece } }] })),
    ),
    chunk({}, 'tool_calls'),
    { id: 'c', object: 'chat.completion.chunk', choices: [], usage: { prompt_tokens: 20, completion_tokens: 8, total_tokens: 28 } },
  ];
}

function anthropicEvents(messages: Asked['messages']): object[] {
  const start = {
    type: 'message_start',
    message: {
      id: 'm',
      type: 'message',
      role: 'assistant',
      content: [],
      model: 'm',
      stop_reason: null,
      stop_sequence: null,
      usage: { input_tokens: 20, output_tokens: 1 },
    },
  };
  const text = (words: string[]) => [
    { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
    ...words.map((word) => ({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: word } })),
  ];
  const end = (stop_reason: string) => [
    { type: 'message_delta', delta: { stop_reason, stop_sequence: null }, usage: { output_tokens: 8 } },
    { type: 'message_stop' },
  ];
  const last = JSON.stringify(messages.at(-1));
  if (last.includes('hang')) return [start, ...text(['one'])];
  if (last.includes('tool_result'))
    return [start, ...text(['Sunny ', 'all over.']), { type: 'content_block_stop', index: 0 }, ...end('end_turn')];
  const tools = CITIES.flatMap((city, index) => [
    { type: 'content_block_start', index, content_block: { type: 'tool_use', id: `toolu_${String(index)}`, name: 'weather', input: {} } },
    ...['{"city":', `"${city}"}`].map((partial_json) => ({
      type: 'content_block_delta',
      index,
      delta: { type: 'input_json_delta', partial_json },
    })),
    { type: 'content_block_stop', index },
  ]);
  return [start, ...tools, ...end('tool_use')];
}

/** Each client as a user has it. */
const clients: Record<string, { protocol: 'chat' | 'anthropic'; model: (baseURL: string) => AgentTurnOptions['model'] }> = {
  'the OpenAI SDK': {
    protocol: 'chat',
    model: (baseURL) => {
      const openai = new OpenAI({ baseURL, apiKey: 'any', maxRetries: 0 });
      return (messages, { signal }) =>
        openai.chat.completions.create({ model: 'm', stream: true, messages: toMessages(messages, 'chat') }, { signal });
    },
  },
  'the Anthropic SDK': {
    protocol: 'anthropic',
    model: (baseURL) => {
      const anthropic = new Anthropic({ baseURL, apiKey: 'any', maxRetries: 0 });
      return (messages, { signal }) =>
        anthropic.messages.create({ model: 'm', max_tokens: 99, stream: true, messages: toMessages(messages, 'anthropic') }, { signal });
    },
  },
  'a model caller': {
    protocol: 'chat',
    model: (baseUrl) => {
      const caller = createModelCaller({ call: chatCompletions({ baseUrl, model: 'm' }), retry: false });
      return (messages, { signal }) => caller.stream({ messages: toMessages(messages, 'chat') }, { signal });
    },
  },
};

describe.each(Object.entries(clients))('with %s', (_name, { protocol, model }) => {
  it('calls tools whose arguments come in pieces, and hands their results back', async () => {
    const { seen, baseURL } = await provider(protocol);
    const turns = createAgentTurn({ tools: createToolRunner({ tools: [weather] }), model: model(baseURL) });
    const events = await whole(turns.ask('How is the weather?'));
    expect(events.at(-1)).toMatchObject({
      type: 'finished',
      text: 'Sunny all over.',
      usage: { inputTokens: expect.any(Number) as number },
    });
    expect(turns.history().map(word)).toEqual([
      '? How is the weather?',
      protocol === 'chat' ? '!  @call_0 @call_1' : '!  @toolu_0 @toolu_1',
      ...CITIES.map((city, i) => `${protocol === 'chat' ? 'call' : 'toolu'}_${String(i)}=${city}: sunny`),
      '! Sunny all over.',
    ]);
    await whole(turns.ask('And now?'));
    expect([seen.refused, seen.answered]).toEqual([[], 4]);
  });

  it('aborts what was superseded at the server, and what follows is taken', async () => {
    const { seen, baseURL } = await provider(protocol);
    const turns = createAgentTurn({ tools: createToolRunner({ tools: [weather] }), model: model(baseURL) });
    const said = (): Promise<void> =>
      new Promise((resolve) => {
        const listening = turns.events.subscribe(({ type }) => {
          if (type !== 'delta') return;
          listening.unsubscribe();
          resolve();
        });
      });
    const ends: string[] = [];
    turns.events.subscribe((event) => {
      if (['finished', 'cancelled', 'failed'].includes(event.type)) ends.push(line(event));
    });
    for (const question of ['hang 1', 'hang 2']) {
      const heard = said();
      turns.ask(question).subscribe();
      await heard;
    }
    await whole(turns.ask('How is the weather?'));
    await expect.poll(() => seen.aborted).toBe(2);
    expect(ends).toEqual(['1 cancelled superseded', '1 cancelled superseded', '2 finished done']);
    expect([seen.refused, seen.answered]).toEqual([[], 2]);
    const cut = turns.history().filter((message: TurnMessage) => message.role === 'assistant' && message.isCut);
    expect(cut.map(word)).toEqual(['! one (cut)', '! one (cut)']);
  });
});

describe('with the OpenAI SDK and the model server', () => {
  // The server loads its embedding model first.
  it('answers, and the server sees that two of three questions were given up', { timeout: 60_000 }, async () => {
    const chat = fakeRuntime((prompt, job) => {
      if (prompt.endsWith('hang')) return hang(prompt, job);
      job.onText('well');
      return Promise.resolve({ tokens: 1, finishReason: 'stop' });
    });
    const server = await serverFor({ chat: { runtime: chat } });
    const openai = clientOf(server);
    const turns = createAgentTurn({
      unfinished: 'drop',
      model: (messages, { signal }) =>
        openai.chat.completions.create(
          { model: CHAT_MODEL, stream: true, stream_options: { include_usage: true }, messages: toMessages(messages, 'chat') },
          { signal },
        ),
    });
    for (let i = 1; i <= 2; i++) {
      turns.ask('hang').subscribe();
      await expect.poll(() => chat.started.length).toBe(i);
    }
    const last = (await whole(turns.ask('hello'))).at(-1);
    expect(last).toMatchObject({ type: 'finished', text: 'well', usage: { outputTokens: 1 } });
    await expect.poll(() => chat.started.map(({ job }) => job.signal.aborted)).toEqual([true, true, false]);
    expect(turns.history().map(word)).toEqual(['? hello', '! well']);
  });
});
