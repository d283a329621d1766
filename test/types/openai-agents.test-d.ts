import type { Model, ModelProvider, ModelRequest } from '@openai/agents';
import { Agent, OpenAIProvider, OpenAIResponsesModel, Runner } from '@openai/agents';
import OpenAI from 'openai';
import { describe, expectTypeOf, it } from 'vitest';
import { createLimiter } from '../../operators/index.js';
import type { ModelRules } from '../../src/adapters/openai-agents.js';
import { limitModel, limitModelProvider } from '../../src/adapters/openai-agents.js';
import type { CallRules } from '../../src/adapters/support/call-rules.js';

const model = new OpenAIResponsesModel(new OpenAI({ apiKey: 'none' }), 'm');

describe('sluice/openai-agents', () => {
  it('gives a model for an agent', () => {
    const limited = limitModel(model, { limiter: createLimiter(), deadlineMs: 1000 });
    expectTypeOf(limited).toEqualTypeOf<Model>();
    expectTypeOf(new Agent({ name: 'a', model: limited })).toExtend<Agent>();
  });

  it('gives a provider for a runner', () => {
    const limited = limitModelProvider(new OpenAIProvider({ apiKey: 'none' }));
    expectTypeOf(limited).toEqualTypeOf<ModelProvider>();
    expectTypeOf(new Runner({ modelProvider: limited })).toExtend<Runner>();
  });

  it('shows the request to `job`', () => {
    limitModel(model, {
      limiter: createLimiter(),
      job: (request) => {
        expectTypeOf(request).toEqualTypeOf<ModelRequest>();
        return { lane: 'background', cost: { tokens: request.modelSettings.maxTokens ?? 1000 } };
      },
    });
    expectTypeOf<ModelRules>().toExtend<CallRules>();
  });

  it('rejects unknown options, and takes models only', () => {
    // @ts-expect-error -- that is the name the framework has for it
    limitModel(model, { maxRetries: 2 });
    // @ts-expect-error -- a name is no model
    limitModel('gpt-4.1');
  });
});
