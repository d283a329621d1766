export type {
  Batcher,
  BatcherOptions,
  BatchMapFromOptions,
  BatchMapOptions,
  BatchWork,
  CallContext,
  Cost,
  FlowErrorCode,
  FlowEvent,
  Fulfilled,
  Handle,
  LaneOptions,
  LanesOptions,
  Limiter,
  LimiterJob,
  LoadOptions,
  Rejected,
  RepairRule,
  RobustOptions,
  Settled,
  SwitchLatestOptions,
  Usage,
} from '../operators/index.js';
export { batchMap, batchMapFrom, createBatcher, isFlowError, lanes, robust, switchLatest, unwrap } from '../operators/index.js';
export type { AccountOptions } from './account/create-account.js';
export { createAccount } from './account/create-account.js';
export type { ProviderRules } from './account/providers.js';
export { providers } from './account/providers.js';
export type { AmbientJob } from './account/with-job.js';
export { withJob } from './account/with-job.js';
export { createAgentTurn } from './frontend/create-agent-turn.js';
export type { AguiTurnMessage, AnthropicTurnMessage, ChatTurnMessage, ResponsesTurnItem } from './frontend/turn-messages.js';
export { toMessages } from './frontend/turn-messages.js';
export type {
  AgentTurnOptions,
  AgentTurns,
  AgentTurnsSnapshot,
  AnswerOptions,
  ApprovalContext,
  AskOptions,
  SpeculateOptions,
  TurnContext,
  TurnEvent,
  TurnMessage,
  TurnView,
  UserContent,
} from './frontend/turn-types.js';
export type { CallRecord } from './metrics/call-record.js';
export type {
  Budget,
  BudgetLimit,
  BudgetOptions,
  BudgetSnapshot,
  BudgetStorage,
  ModelPrices,
  Reservation,
  SavedBudget,
  SharedBudget,
  SharedBudgetOptions,
} from './pipelines/create-budget.js';
export { createBudget } from './pipelines/create-budget.js';
export type { EmbedCall, EmbedClient, Embedder, EmbedderOptions, EmbedderSnapshot, EmbedOptions } from './pipelines/create-embedder.js';
export { createEmbedder } from './pipelines/create-embedder.js';
export type {
  AnswerCaching,
  AnswerStorage,
  ChatChunk,
  ChatCompletion,
  ChatMessage,
  ChatRequest,
  Collected,
  FixAnswerOptions,
  ModelCacheOptions,
  ModelCallAllOptions,
  ModelCaller,
  ModelCallerOptions,
  ModelCallerSnapshot,
  ModelCallOptions,
  ModelClient,
  ModelContext,
  ModelStream,
} from './pipelines/create-model-caller.js';
export { answerCache, callAll, chatCompletions, createModelCaller } from './pipelines/create-model-caller.js';
export type {
  AnyStage,
  DocumentResult,
  ItemResult,
  JournalEntry,
  Stage,
  StageContext,
  StageJournal,
  Stages,
  StagesOptions,
  StagesSnapshot,
} from './pipelines/create-stages.js';
export { createStages } from './pipelines/create-stages.js';
export type { RunToolsOptions, ToolRunner, ToolRunnerOptions, ToolRunnerSnapshot } from './pipelines/create-tool-runner.js';
export { createToolRunner } from './pipelines/create-tool-runner.js';
export type { EmbeddingsOptions } from './pipelines/embeddings-api.js';
export { embeddings } from './pipelines/embeddings-api.js';
export type { EndpointOptions } from './pipelines/endpoint.js';
export { presets } from './pipelines/presets.js';
export { ProviderError } from './pipelines/provider-error.js';
export type { Throughput, ThroughputPlan } from './pipelines/throughput.js';
export { explainThroughput } from './pipelines/throughput.js';
export { toToolDefinitions } from './pipelines/tools/tool-definitions.js';
export type { ToolProtocol } from './pipelines/tools/tool-formats.js';
export { fromChatToolCalls, toToolResults } from './pipelines/tools/tool-formats.js';
export type {
  AnyTool,
  Tool,
  ToolCall,
  ToolContext,
  ToolError,
  ToolGuard,
  ToolResult,
  ToolRun,
  ToolSchema,
} from './pipelines/tools/tool-types.js';
export { defineTool } from './pipelines/tools/tool-types.js';
export { assembleToolCalls } from './streams/assemble-tool-calls.js';
export type { TokenEstimatorOptions } from './tokenizers/estimate.js';
export { createTokenEstimator, estimateTokens } from './tokenizers/estimate.js';
