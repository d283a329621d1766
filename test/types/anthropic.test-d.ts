import Anthropic from '@anthropic-ai/sdk';
import type { Middleware } from '@anthropic-ai/sdk/core/middleware';
import { describe, expectTypeOf, it } from 'vitest';
import { createLimiter } from '../../operators/index.js';
import type { AnthropicChatRequest, HttpRequest, HttpRules } from '../../src/adapters/anthropic.js';
import { anthropicChat, createAnthropicMiddleware, limitAnthropic } from '../../src/adapters/anthropic.js';
import type { CallRules } from '../../src/adapters/support/call-rules.js';
import type { ModelCaller } from '../../src/pipelines/create-model-caller.js';
import { createModelCaller } from '../../src/pipelines/create-model-caller.js';

const client = new Anthropic({ apiKey: 'none' });

describe('sluice/anthropic', () => {
  it('is a middleware of the client', () => {
    expectTypeOf(createAnthropicMiddleware()).toEqualTypeOf<Middleware>();
    createAnthropicMiddleware({
      limiter: createLimiter(),
      job: (request) => {
        expectTypeOf(request).toEqualTypeOf<HttpRequest>();
        return { lane: 'background' };
      },
    });
    expectTypeOf<HttpRules>().toExtend<CallRules>();
    // @ts-expect-error -- unknown option
    createAnthropicMiddleware({ maxRetries: 2 });
  });

  it('gives a client of the same class', () => {
    class Own extends Anthropic {
      readonly name = 'own';
    }
    expectTypeOf(limitAnthropic(client)).toEqualTypeOf<Anthropic>();
    expectTypeOf(limitAnthropic(new Own({ apiKey: 'none' }), { deadlineMs: 1000 })).toEqualTypeOf<Own>();
    // @ts-expect-error -- no client
    limitAnthropic('anthropic');
  });

  it('makes a caller of messages and their events', () => {
    const models = createModelCaller({ call: anthropicChat(client), concurrency: 2 });
    expectTypeOf(models).toEqualTypeOf<ModelCaller<AnthropicChatRequest, Anthropic.Message, Anthropic.MessageStreamEvent>>();
    // @ts-expect-error -- no messages
    void models.call({ model: 'm', max_tokens: 1 });
  });
});
