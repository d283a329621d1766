export { type BatchToolOptions, createBatchTool } from './batch-tool.js';
export {
  type ConfiguredCaller,
  type ConfiguredEndpoint,
  chatCompletionsOptions,
  modelCallerOptions,
} from './config/model-caller-options.js';
export { type ConfigNotice, type ParseConfigOptions, type ParsedConfig, parseConfig } from './config/parse.js';
export { type PlannedConfig, planOf } from './config/plan.js';
export type { ConfigProblem } from './config/problems.js';
export { type Config } from './config/schema.js';
export { type ConfiguredStages, type ConfiguredWork, stagesOptions } from './config/stages-options.js';
