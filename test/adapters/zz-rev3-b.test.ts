import { RunnableBinding, RunnableLambda, RunnableSequence } from '@langchain/core/runnables';
import { ChatOpenAI } from '@langchain/openai';
import { AIMessage, createAgent, fakeModel, tool, providerStrategy, toolStrategy, modelRetryMiddleware, modelFallbackMiddleware, humanInTheLoopMiddleware, modelCallLimitMiddleware, toolCallLimitMiddleware, summarizationMiddleware, todoListMiddleware } from 'langchain';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createLimiter } from '../../operators/create-limiter.js';
import { createModelMiddleware, createToolMiddleware } from '../../src/adapters/langchain-agents.js';
import type { ModelApi } from '../fakes/model-api.js';
import { startModelApi } from '../fakes/model-api.js';
import { inMemory } from '../fakes/mcp-worlds.js';
import { expectNoUnhandledRejections } from '../support/rejections.js';
const retry = { initialMs: 1, jitter: 'none' } as const;
let api: ModelApi;
beforeEach(async () => { api = await startModelApi(); });
afterEach(async () => { await api.stop(); });
const openai = (fields: any = {}): any => new ChatOpenAI({ apiKey: 'k', model: 'm', configuration: { baseURL: api.baseUrl }, ...fields });
const say = (content: string) => ({ messages: [{ role: 'user' as const, content }] });
const failure = { status: 503, message: 'overloaded' };
const bound = () => new RunnableBinding({ bound: openai(), config: { tags: ['x'] }, kwargs: {} }) as any;
const seq = () => RunnableSequence.from([RunnableLambda.from((x: any) => x), openai() as any]) as any;
const seqb = () => RunnableSequence.from([RunnableLambda.from((x: any) => x), bound()]) as any;
describe('models', { timeout: 20_000 }, () => {
  expectNoUnhandledRejections();
  it.each([['binding', bound], ['sequence', seq], ['seq of binding', seqb], ['plain', openai]])('%s: attempts', async (_n, model) => {
    const ok = await createAgent({ model: model(), tools: [], middleware: [createModelMiddleware({ retry: { ...retry, maxAttempts: 2 } })] }).invoke(say('x'));
    expect(ok.messages.at(-1)?.text).toBe('x');
    api.clear();
    api.fail(...Array.from({ length: 9 }, () => failure));
    const agent = createAgent({ model: model(), tools: [tool(() => 'x', { name: 'y', schema: { type: 'object', properties: {} } as any })], middleware: [createModelMiddleware({ retry: { ...retry, maxAttempts: 2 } })] });
    const t = Date.now();
    await Promise.race([agent.invoke(say('x')).then((m) => m.messages.at(-1)?.text, (e) => e.message), new Promise((r) => setTimeout(r, 5000))]);
    console.log(_n, 'requests', api.requests.length, Date.now() - t);
  });
  it.each([['binding', bound], ['sequence', seq], ['plain', openai]])('%s: abort at the server', async (_n, model) => {
    api.fail('silent');
    const agent = createAgent({ model: model(), tools: [], middleware: [createModelMiddleware({ retry: { ...retry, maxAttempts: 2 }, attemptTimeoutMs: 200 })] });
    // second attempt answers: was the first aborted before?
    console.log(_n, await agent.invoke(say('x')).then((m) => m.messages.at(-1)?.text, (e) => e.message), 'aborted', api.aborted);
  });
  it('stream with binding', async () => {
    let said = '';
    for await (const [chunk] of await createAgent({ model: bound(), tools: [], middleware: [createModelMiddleware()] }).stream(say('one two three'), { streamMode: 'messages' }) as any) said += chunk.text + '|';
    console.log(said);
  });
  it('others', async () => {
    const limiter = createLimiter({ concurrency: 1 });
    api.fail(...Array.from({ length: 3 }, () => failure));
    const a = createAgent({ model: openai(), tools: [], middleware: [modelRetryMiddleware({ maxRetries: 2, initialDelayMs: 1 } as any), modelFallbackMiddleware(openai() as any), modelCallLimitMiddleware({ runLimit: 5 }), createModelMiddleware({ limiter, retry: false })] });
    console.log((await a.invoke(say('hi'))).messages.at(-1)?.text, api.requests.length, limiter.executing);
  });
  it('inline agent name + tool strategy + binding', async () => {
    const schema = { title: 'x', type: 'object', properties: { a: { type: 'string' } }, required: ['a'] };
    const m = fakeModel().respond(new AIMessage({ content: '', tool_calls: [{ name: 'x', args: { a: 'b' }, id: '1' }] } as any));
    const agent = createAgent({ name: 'bob', includeAgentName: 'inline', model: new RunnableBinding({ bound: m as any, config: {} }) as any, tools: [], responseFormat: toolStrategy(schema as any) as any, middleware: [createModelMiddleware()] });
    console.log(((await agent.invoke(say('x'))) as any).structuredResponse);
  });
  it('write with data', async () => {
    for (const [name, openWorld] of Object.entries(inMemory)) {
      const world = await openWorld();
      const caller = world.caller({ retry });
      const call = vi.spyOn(world.brain, 'call').mockRejectedValue(Object.assign(new Error('no'), { code: -32_603, data: { code: 'ECONNREFUSED' } }));
      await caller.callToolAsync({ name: 'write' }).catch((e: any) => console.log(name, e.code, e.data));
      console.log(name, 'calls of a writer', call.mock.calls.length);
      caller.close(); await world.close();
    }
  });
  it('chain', async () => {
    const world = await (inMemory as any)['client 2, in memory']();
    const own = async () => undefined;
    world.client.fallbackNotificationHandler = own;
    let last: any = world.caller({});
    for (let i = 0; i < 2000; i++) { const next = world.caller({}); last.close(); last = next; }
    let depth = 0;
    for (let h: any = world.client.fallbackNotificationHandler; h; h = h.next) depth++;
    console.log('chain', depth);
    last.close();
    console.log(world.client.fallbackNotificationHandler === own);
    delete world.client.fallbackNotificationHandler;
    await world.close();
  });
});
