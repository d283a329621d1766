import type { AzureOpenAI, OpenAI } from 'openai';
import type { Observable } from 'rxjs';
import { describe, expectTypeOf, it } from 'vitest';
import { createLimiter } from '../../operators/index.js';
import type { LimitFetchOptions } from '../../src/adapters/fetch.js';
import type { LimitOpenAIOptions, OpenAIChatParams, OpenAIChatRequest } from '../../src/adapters/openai.js';
import { limitOpenAI, openAIChat, openAIEmbeddings } from '../../src/adapters/openai.js';
import { createEmbedder, type Embedder } from '../../src/pipelines/create-embedder.js';
import { createModelCaller, type ModelCaller } from '../../src/pipelines/create-model-caller.js';

declare const client: OpenAI;
declare const azure: AzureOpenAI;
const messages = [{ role: 'user' as const, content: 'a' }];

describe('sluice/openai', () => {
  it('limits a client without changing its class', () => {
    expectTypeOf(limitOpenAI(client)).toEqualTypeOf<OpenAI>();
    expectTypeOf(limitOpenAI(azure, { limiter: createLimiter(), job: { lane: 'user' }, deadlineMs: 1000 })).toEqualTypeOf<AzureOpenAI>();
    expectTypeOf<LimitFetchOptions>().toEqualTypeOf<LimitOpenAIOptions>();
    // @ts-expect-error -- no client
    limitOpenAI('a key');
    // @ts-expect-error -- that is what the client calls it
    limitOpenAI(client, { maxRetries: 2 });
  });

  it('is the client of a model caller', () => {
    const models = createModelCaller({ call: openAIChat(client), limiter: createLimiter() });
    expectTypeOf(models).toEqualTypeOf<ModelCaller<OpenAIChatParams, OpenAI.ChatCompletion, OpenAI.ChatCompletionChunk>>();
    expectTypeOf(models.call({ model: 'm', messages })).toEqualTypeOf<Observable<OpenAI.ChatCompletion>>();
    expectTypeOf(models.stream({ model: 'm', messages })).toEqualTypeOf<Observable<OpenAI.ChatCompletionChunk>>();
    // @ts-expect-error -- which model?
    void models.call({ messages });
    // @ts-expect-error -- that is for `call` and `stream` to say
    void models.call({ model: 'm', messages, stream: true });
    // @ts-expect-error -- no field of a chat
    openAIChat(client, { temprature: 0 });
  });

  it('has a model to fall back on', () => {
    const models = createModelCaller({ call: openAIChat(client, { model: 'm', temperature: 0 }), parse: ({ choices }) => choices.length });
    expectTypeOf(models).toEqualTypeOf<ModelCaller<OpenAIChatRequest, number, OpenAI.ChatCompletionChunk>>();
    expectTypeOf(models.call({ messages })).toEqualTypeOf<Observable<number>>();
  });

  it('is the client of an embedder', () => {
    expectTypeOf(
      createEmbedder({ call: openAIEmbeddings(client, { model: 'm', dimensions: 3 }), concurrency: 2 }),
    ).toEqualTypeOf<Embedder>();
    // @ts-expect-error -- which model?
    openAIEmbeddings(client, {});
    // @ts-expect-error -- the key is the client's
    openAIEmbeddings(client, { model: 'm', apiKey: 'secret' });
  });
});
