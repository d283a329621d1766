import type { Observable } from 'rxjs';
import { of } from 'rxjs';
import { describe, expectTypeOf, it } from 'vitest';
import type { CallContext, Handle, Settled } from '../../operators/index.js';
import { createLimiter } from '../../operators/index.js';
import { providers } from '../../src/account/providers.js';
import type { EmbedCall, EmbedClient, Embedder } from '../../src/pipelines/create-embedder.js';
import { createEmbedder } from '../../src/pipelines/create-embedder.js';
import { embeddings } from '../../src/pipelines/embeddings-api.js';

describe('createEmbedder', () => {
  const baseUrl = 'http://127.0.0.1/v1';

  it('gives vectors, over an endpoint or a client', () => {
    const embedder = createEmbedder({ call: embeddings({ baseUrl, model: 'm', dimensions: 3 }) });
    expectTypeOf(embedder).toEqualTypeOf<Embedder>();
    expectTypeOf(embedder).toExtend<Handle>();
    expectTypeOf(embedder.embed('a')).toEqualTypeOf<Observable<Float32Array>>();
    expectTypeOf(embedder.embedAsync('a', { lane: 'user' })).toEqualTypeOf<Promise<Float32Array>>();
    expectTypeOf(embedder.embedFrom(['a'])).toEqualTypeOf<Observable<Settled<string, Float32Array>>>();
    expectTypeOf(createEmbedder({ call: () => of([]), limiter: createLimiter(), provider: providers.gemini })).toEqualTypeOf<Embedder>();
    expectTypeOf(createEmbedder({ call: () => of([]), model: 'for its price' })).toEqualTypeOf<Embedder>();
  });

  it('tells a client what it is to embed, and takes what it answers', () => {
    createEmbedder({
      call: (texts, context) => {
        expectTypeOf(texts).toEqualTypeOf<readonly string[]>();
        expectTypeOf(context).toEqualTypeOf<CallContext>();
        return Promise.resolve(texts.map(() => [1, 2]));
      },
    });
    expectTypeOf((texts: readonly string[]) => of(texts.map(() => new Float32Array(2)))).toExtend<EmbedCall>();
    expectTypeOf((texts: readonly string[]) => Promise.resolve(texts.map(() => new Float64Array(2)))).toExtend<EmbedCall>();
    expectTypeOf((texts: readonly string[]) => Promise.resolve(texts)).not.toExtend<EmbedCall>();
    // @ts-expect-error -- one vector is not a list of them
    createEmbedder({ call: () => Promise.resolve([1, 2]) });
  });

  it('takes a client, which may be a function', () => {
    const call: EmbedCall = () => of([]);
    const client: EmbedClient = { embed: call, model: 'm', provider: providers.gemini, estimateTokens: (text) => text.length };
    createEmbedder({ call: client, concurrency: 2 });
    expectTypeOf(embeddings({ baseUrl, model: 'm' })).toEqualTypeOf<EmbedClient>();
    // @ts-expect-error -- no client
    createEmbedder({ concurrency: 4 });
    // @ts-expect-error -- the address is one of the client
    createEmbedder({ call, baseUrl });
    // @ts-expect-error -- an endpoint without a model
    embeddings({ baseUrl });
    // @ts-expect-error -- a rate is one of the limiter
    createEmbedder({ call, tokensPerMinute: 60 });
    // @ts-expect-error -- a budget is one of the account
    createEmbedder({ call, budget: {} });
  });
});
