import { createLimiter } from 'sluice';
import {
  type CallRules,
  createModelMiddleware,
  createToolMiddleware,
  type JobRules,
  type Middleware,
  type ModelMiddlewareOptions,
  type PerTool,
  TOOL_MIDDLEWARE_DEFAULTS,
  type ToolMiddlewareOptions,
} from 'sluice/langchain/agents';

const rules: CallRules = { limiter: createLimiter({ concurrency: 2 }) };
const jobRules: JobRules<Parameters<NonNullable<ModelMiddlewareOptions['cost']>>[0]> = { ...rules, lane: 'default' };
const models: ModelMiddlewareOptions = { ...jobRules, cost: ({ messages }) => ({ tokens: messages.length }) };
const perTool: PerTool = { search: 2 };
const tools: ToolMiddlewareOptions = { concurrency: TOOL_MIDDLEWARE_DEFAULTS.concurrency, toolConcurrency: perTool };
export const middleware: readonly Middleware[] = [createToolMiddleware(tools), createModelMiddleware(models)];
