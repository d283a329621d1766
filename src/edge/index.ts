export {
  type BatchToolInput,
  type BatchToolOptions,
  batchToolSchema,
  createBatchTool,
} from './batch-tool.js';
export { type Checked, checkJson } from './check.js';
export type { Env } from './config/env.js';
export { configJsonSchema } from './config/json-schema.js';
export {
  type ConfiguredCaller,
  type ConfiguredEndpoint,
  chatCompletionsOptions,
  modelCallerOptions,
} from './config/model-caller-options.js';
export { type ParseConfigOptions, type ParsedConfig, parseConfig } from './config/parse.js';
export { type PlannedConfig, planOf, type StatedLoad } from './config/plan.js';
export type { ConfigProblem } from './config/problems.js';
export {
  type Config,
  type ConfigFile,
  type ConfigLimits,
  configSchema,
  limitsSchema,
  type StageConfig,
  stagesSchema,
} from './config/schema.js';
