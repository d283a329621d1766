import { createLimiter } from 'sluice/operators';
import {
  type CallRules,
  type ConnectionRules,
  createModelMiddleware,
  createToolMiddleware,
  type JobRules,
  type Middleware,
  type ModelMiddlewareOptions,
  type PerTool,
  type ToolMiddlewareOptions,
} from 'sluice/langchain/agents';

const rules: CallRules = { limiter: createLimiter({ concurrency: 2 }) };
type Request = Parameters<Extract<ModelMiddlewareOptions['job'], (request: never) => unknown>>[0];
const jobRules: JobRules<Request> = { ...rules, job: { lane: 'default' } };
const connection: ConnectionRules<Request> = { ...jobRules, closeGraceMs: 20 };
const models: ModelMiddlewareOptions = { ...connection, job: ({ messages }) => ({ cost: { tokens: messages.length } }) };
const perTool: PerTool = { search: 2 };
const tools: ToolMiddlewareOptions = { concurrency: 4, toolConcurrency: perTool };
export const middleware: readonly Middleware[] = [createToolMiddleware(tools), createModelMiddleware(models)];
