import { ChatOpenAI } from '@langchain/openai';
import { Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, run, setTracingDisabled } from '@openai/agents';
import { AIMessage, createAgent, fakeModel } from 'langchain';
import OpenAI from 'openai';
import { describe, expect, it } from 'vitest';
import type { Limiter } from '../../operators/index.js';
import { createAccount } from '../../operators/index.js';
import { createModelMiddleware } from '../../src/adapters/langchain-agents.js';
import { limitModel } from '../../src/adapters/openai-agents.js';
import { expectNoUnhandledRejections } from '../support/rejections.js';

setTracingDisabled(true);

const SAID = { 'x-ratelimit-limit-requests': '120', 'x-ratelimit-remaining-requests': '60', 'x-ratelimit-reset-requests': '500ms' };
const refusing = async () => Response.json({ error: { message: 'slow down', type: 'requests' } }, { status: 429, headers: SAID });
const openai = (): OpenAI => new OpenAI({ apiKey: 'k', baseURL: 'http://h/v1', fetch: refusing });
const retry = false;

const CALLS: Readonly<Record<string, (limiter: Limiter) => Promise<unknown>>> = {
  'limitModel, chat': (limiter) => {
    const model = limitModel(new OpenAIChatCompletionsModel(openai(), 'm'), { limiter, retry });
    return run(new Agent({ name: 'A', model }), 'x');
  },
  'limitModel, responses': (limiter) => {
    const model = limitModel(new OpenAIResponsesModel(openai(), 'm'), { limiter, retry });
    return run(new Agent({ name: 'A', model }), 'x');
  },
  'limitModel, a stream': async (limiter) => {
    const model = limitModel(new OpenAIChatCompletionsModel(openai(), 'm'), { limiter, retry });
    const events = await run(new Agent({ name: 'A', model }), 'x', { stream: true });
    for await (const event of events) expect(event).toBeDefined();
  },
  createModelMiddleware: (limiter) => {
    const model = new ChatOpenAI({ model: 'm', apiKey: 'k', maxRetries: 0, configuration: { baseURL: 'http://h/v1', fetch: refusing } });
    return createAgent({ model, tools: [], middleware: [createModelMiddleware({ limiter, retry })] }).invoke({ messages: 'x' });
  },
};

describe('the headers that a server sends', () => {
  expectNoUnhandledRejections();

  it.each(Object.entries(CALLS))('set the rates of the limiter when they come with a refusal: %s', async (_, call) => {
    const limiter = createAccount();
    await expect(call(limiter)).rejects.toThrow('slow down');
    // That there was a refusal says that it is too much: half of it is in force for now.
    expect(limiter.snapshot().requestsPerMinute).toBe(60);
  });

  it('set them with a message of LangChain that has them', async () => {
    const limiter = createAccount();
    const model = fakeModel().respond(new AIMessage({ content: '4', response_metadata: { headers: SAID } }));
    await createAgent({ model, tools: [], middleware: [createModelMiddleware({ limiter })] }).invoke({ messages: 'x' });
    expect(limiter.snapshot().requestsPerMinute).toBe(120);
  });
});
