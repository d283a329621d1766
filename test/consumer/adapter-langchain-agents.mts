import { createLimiter } from 'sluice/operators';
import {
  createModelMiddleware,
  createToolMiddleware,
  type Middleware,
  type ModelMiddlewareOptions,
  type ToolMiddlewareOptions,
} from 'sluice/langchain/agents';

const rules = { limiter: createLimiter({ concurrency: 2 }) };
type Request = Parameters<Extract<ModelMiddlewareOptions['job'], (request: never) => unknown>>[0];
const jobRules = { ...rules, job: { lane: 'default' } };
const connection = { ...jobRules, closeGraceMs: 20 };
const models: ModelMiddlewareOptions = { ...connection, job: ({ messages }) => ({ cost: { tokens: messages.length } }) };
const perTool = { search: 2 };
const tools: ToolMiddlewareOptions = { concurrency: 4, toolConcurrency: perTool };
export const middleware: readonly Middleware[] = [createToolMiddleware(tools), createModelMiddleware(models)];
