import { RunnableLambda, RunnableSequence } from '@langchain/core/runnables';
import { ChatOpenAI } from '@langchain/openai';
import { AIMessage, createAgent, fakeModel, tool, providerStrategy, toolStrategy } from 'langchain';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createLimiter } from '../../operators/create-limiter.js';
import { createModelMiddleware, createToolMiddleware } from '../../src/adapters/langchain-agents.js';
import type { ModelApi } from '../fakes/model-api.js';
import { startModelApi } from '../fakes/model-api.js';
import { expectNoUnhandledRejections } from '../support/rejections.js';
const retry = { initialMs: 1, jitter: 'none' } as const;
let api: ModelApi;
beforeEach(async () => { api = await startModelApi(); });
afterEach(async () => { await api.stop(); });
const openai = (fields: any = {}): ChatOpenAI => new ChatOpenAI({ apiKey: 'k', model: 'm', configuration: { baseURL: api.baseUrl }, ...fields });
const say = (content: string) => ({ messages: [{ role: 'user' as const, content }] });
const failure = { status: 503, message: 'overloaded' };
const schema = { title: 'x', type: 'object', properties: { a: { type: 'string' } }, required: ['a'] };

describe('models', { timeout: 60_000 }, () => {
  expectNoUnhandledRejections();
  it.each([
    ['binding', () => openai().withConfig({ tags: ['a'] }) as any],
    ['retry', () => openai().withConfig({ metadata: {a: 1} }).withConfig({tags: ['x']}) as any],
    ['sequence', () => RunnableSequence.from([RunnableLambda.from((x: any) => x), openai() as any]) as any],
    ['plain', () => openai() as any],
  ])('%s: attempts', async (_n, model) => {
    api.fail(...Array.from({ length: 9 }, () => failure));
    const agent = createAgent({ model: model(), tools: [], middleware: [createModelMiddleware({ retry: { ...retry, maxAttempts: 2 } })] });
    const t = Date.now();
    const e = await agent.invoke(say('x')).then((m) => m.messages.at(-1)?.text, (e) => e.message);
    console.log(_n, e, 'requests', api.requests.length, Date.now() - t);
  });
  it.each([
    ['binding', () => openai().withConfig({ tags: ['a'] }) as any],
    ['sequence', () => RunnableSequence.from([RunnableLambda.from((x: any) => x), openai() as any]) as any],
    ['plain', () => openai() as any],
  ])('%s: timeouts seen by the server', async (_n, model) => {
    api.fail('silent', 'silent');
    const agent = createAgent({ model: model(), tools: [], middleware: [createModelMiddleware({ retry: { ...retry, maxAttempts: 2 }, attemptTimeoutMs: 200 })] });
    const e = await agent.invoke(say('x')).then((m) => m.messages.at(-1)?.text, (e) => e.message);
    await new Promise((r) => setTimeout(r, 300));
    console.log(_n, e, 'requests', api.requests.length, 'aborted', api.aborted);
  });
  it.each(['provider', 'tool'])('structured output %s reconciles', async (kind) => {
    const limiter = createLimiter({ tokensPerMinute: 600, headroom: 1, burstSeconds: 6000 });
    const usage = { input_tokens: 10, output_tokens: 5, total_tokens: 15 };
    const model = kind === 'tool'
      ? fakeModel().respond(new AIMessage({ content: '', tool_calls: [{ name: 'x', args: { a: 'b' }, id: '1' }], usage_metadata: usage } as any))
      : fakeModel().respond(new AIMessage({ content: '{"a":"b"}', usage_metadata: usage } as any));
    (model as any).maxTokens = 5000;
    const agent = createAgent({ model, tools: [], responseFormat: (kind === 'tool' ? toolStrategy(schema as any) : providerStrategy(schema as any)) as any, middleware: [createModelMiddleware({ limiter })] });
    const r: any = await agent.invoke(say('x'));
    console.log(kind, r.structuredResponse, 'spent', 60_000 - limiter.snapshot().tokens);
  });
  it('one limiter of 1 for both', async () => {
    const limiter = createLimiter({ concurrency: 1 });
    const t = tool(async () => 'ok', { name: 'search', schema: { type: 'object', properties: {} } as any });
    const model = fakeModel().respondWithTools([{ name: 'search', args: {}, id: '1' }, { name: 'search', args: {}, id: '2' }]).respond(new AIMessage('done'));
    const agent = createAgent({ model, tools: [t], middleware: [createModelMiddleware({ limiter }), createToolMiddleware({ limiter, toolConcurrency: 1 })] });
    const r = await agent.invoke(say('x'));
    console.log(r.messages.map((m) => m.text), limiter.executing);
  });
  it('odd names', async () => {
    const names = ['__proto__', 'constructor', 'toString', 'hasOwnProperty'];
    const tools = names.map((name) => tool(async () => 'ok ' + name, { name, schema: { type: 'object', properties: {} } as any }));
    const model = fakeModel().respondWithTools(names.map((name, i) => ({ name, args: {}, id: String(i) }))).respond(new AIMessage('done'));
    const agent = createAgent({ model, tools, middleware: [createToolMiddleware({ toolConcurrency: { constructor: 1 } as any, timeoutMs: JSON.parse('{"__proto__": 1000}') })] });
    const r = await agent.invoke(say('x'));
    console.log(r.messages.map((m) => m.text));
  });
  it('private fields', async () => {
    class Priv extends ChatOpenAI {
      #secret = 1;
      override get profile() { void this.#secret; return { structuredOutput: true } as any; }
      override async _generate(...args: Parameters<ChatOpenAI['_generate']>) { void this.#secret; return super._generate(...args); }
    }
    const model = new Priv({ apiKey: 'k', model: 'm', configuration: { baseURL: api.baseUrl } });
    for (const middleware of [[], [createModelMiddleware()]])
      console.log('priv', await createAgent({ model, tools: [], responseFormat: schema as any, middleware }).invoke(say('{"a":"b"}')).then((r: any) => r.structuredResponse, (e) => e.message));
  });
});
