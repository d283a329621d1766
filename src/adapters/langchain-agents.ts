export type { Middleware } from './langchain/agent-calls.js';
export type { ModelMiddlewareOptions } from './langchain/model-middleware.js';
export { createModelMiddleware } from './langchain/model-middleware.js';
export type { ToolMiddlewareOptions } from './langchain/tool-middleware.js';
export { createToolMiddleware } from './langchain/tool-middleware.js';
