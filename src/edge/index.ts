export {
  BATCH_TOOL_DEFAULTS,
  type BatchToolInput,
  type BatchToolOptions,
  batchToolSchema,
  createBatchTool,
} from './batch-tool.js';
export { type Checked, checkJson } from './check.js';
export {
  type Config,
  type ConfigFile,
  type ConfigLimits,
  configSchema,
  limitsSchema,
  type StageConfig,
  stagesSchema,
} from './config/schema.js';
export {
  type IndexChunk,
  type IndexFooter,
  type IndexHeader,
  indexChunkSchema,
  indexFooterSchema,
  indexHeaderSchema,
  type JournalLine,
  journalLineSchema,
} from './index-lines.js';
export { type Questions, questionsSchema } from './questions.js';
