import Anthropic from '@anthropic-ai/sdk';
import { OpenAIEmbeddings } from '@langchain/openai';
import OpenAI from 'openai';
import type { Observable } from 'rxjs';
import { lastValueFrom } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { createAccount } from '../../operators/index.js';
import { anthropicChat, createAnthropicMiddleware, limitAnthropic } from '../../src/adapters/anthropic.js';
import { limitFetch } from '../../src/adapters/fetch.js';
import { limitEmbeddings } from '../../src/adapters/langchain.js';
import { limitOpenAI, openAIChat, openAIEmbeddings } from '../../src/adapters/openai.js';
import { chatCompletions, createEmbedder, createModelCaller, embeddings } from '../../src/index.js';
import { expectNoUnhandledRejections } from '../support/rejections.js';

type Fetch = typeof globalThis.fetch;

const PAGE = '<html>please log in, secret visitor</html>';
const baseUrl = 'http://host/v1';
const asked = { model: 'm', max_tokens: 9, messages: [{ role: 'user' as const, content: 'hello' }] };
const openai = (fetch: Fetch): OpenAI => new OpenAI({ apiKey: 'k', baseURL: baseUrl, fetch, maxRetries: 0 });
const anthropic = (fetch: Fetch): Anthropic => new Anthropic({ apiKey: 'k', fetch, maxRetries: 0 });

/** What is in between answers, with a status that says that all is well. */
const ANSWERS: Readonly<Record<string, () => Response>> = {
  'a page': () => new Response(PAGE, { headers: { 'content-type': 'text/html; charset=utf-8' } }),
  'a page that says it is JSON': () => new Response(PAGE, { headers: { 'content-type': 'application/json' } }),
  'a page as a stream of events': () => new Response(PAGE, { headers: { 'content-type': 'text/event-stream' } }),
  'a page without a type': () => new Response(new TextEncoder().encode(PAGE)),
  '204': () => new Response(null, { status: 204 }),
  nothing: () => new Response(''),
  'a text': () => Response.json(PAGE),
  null: () => Response.json(null),
  'a number': () => Response.json(5),
};

const CALLERS = {
  'an address': (fetch: Fetch) => createModelCaller({ call: chatCompletions({ baseUrl, model: 'm', fetch }) }),
  openAIChat: (fetch: Fetch) => createModelCaller({ call: openAIChat(openai(fetch)) }),
  anthropicChat: (fetch: Fetch) => createModelCaller({ call: anthropicChat(anthropic(fetch)) }),
} as const;

describe.each(Object.entries(ANSWERS))('%s in the place of an answer', (_what, answer) => {
  expectNoUnhandledRejections();

  const messageOf = async (answered: Promise<unknown>): Promise<string> => {
    const error = await answered.then(
      (value: unknown) => expect.unreachable(`answered ${JSON.stringify(value)}`),
      (thrown: unknown) => thrown as Error,
    );
    // What the client cannot read it says itself.
    expect(['SyntaxError', 'ProviderError', 'Error', 'AnthropicError']).toContain(error.name);
    return error.message;
  };

  describe.each(Object.entries(CALLERS))('over %s', (_over, make) => {
    it('is an error that says so', async () => {
      const message = await messageOf(make(async () => answer()).callAsync(asked));
      const response = answer();
      const type = response.headers.get('content-type')?.split(';')[0] ?? 'no content type';
      expect(message).toBe(`the answer is no JSON object (status ${String(response.status)}, ${type})`);
    });

    it('is an error of a stream', async () => {
      const message = await messageOf(lastValueFrom<unknown>(make(async () => answer()).stream(asked) as Observable<unknown>));
      expect(message).not.toContain('secret');
    });
  });
});

describe('a client that is behind a limiter already', () => {
  const limiter = createAccount({ concurrency: 1 });
  const limited = limitFetch({ limiter });
  const OTHERS: Readonly<Record<string, () => unknown>> = {
    limitOpenAI: () => limitOpenAI(openai(limited), { limiter }),
    openAIChat: () => openAIChat(openai(limited)),
    openAIEmbeddings: () => openAIEmbeddings(openai(limited), { model: 'm' }),
    limitAnthropic: () => limitAnthropic(anthropic(limited), { limiter }),
    anthropicChat: () => anthropicChat(anthropic(limited)),
    'anthropicChat, with a middleware': () => {
      const middleware = [createAnthropicMiddleware({ limiter })];
      return anthropicChat(new Anthropic({ apiKey: 'k', middleware }));
    },
    createModelCaller: () => createModelCaller({ call: chatCompletions({ baseUrl, model: 'm', fetch: limited }), limiter }),
    createEmbedder: () => createEmbedder({ call: embeddings({ baseUrl, model: 'm', fetch: limited }), limiter }),
    limitEmbeddings: () => {
      const embeddings = (fetch: Fetch): OpenAIEmbeddings => new OpenAIEmbeddings({ apiKey: 'k', configuration: { fetch } });
      return limitEmbeddings(embeddings, { limiter, fetch: limited });
    },
  };

  it.each(Object.entries(OTHERS))('is refused by %s, whose calls would wait for each other', (_, make) => {
    expect(make).toThrow(/`(client|fetch)` has a limiter already/);
  });
});
