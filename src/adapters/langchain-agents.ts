export type { Middleware } from './langchain/agent-calls.js';
export type { ModelMiddlewareOptions } from './langchain/model-middleware.js';
export { createModelMiddleware } from './langchain/model-middleware.js';
export type { PerTool, ToolMiddlewareOptions } from './langchain/tool-middleware.js';
export { createToolMiddleware } from './langchain/tool-middleware.js';
export type { JobRules } from './support/call-job.js';
export type { CallRules } from './support/call-rules.js';
export type { ConnectionRules } from './support/held-rules.js';
