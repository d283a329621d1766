import type { Model, ModelProvider } from '@openai/agents';
import { createLimiter } from 'sluice/operators';
import { limitModel, limitModelProvider, type ModelRules } from 'sluice/openai-agents';

const rules = { limiter: createLimiter({ concurrency: 2 }) };
const modelRules: ModelRules = { ...rules, job: ({ input }) => ({ cost: { tokens: input.length } }) };
export const limited = (model: Model): Model => limitModel(model, modelRules);
export const provided = (provider: ModelProvider): ModelProvider => limitModelProvider(provider, modelRules);
