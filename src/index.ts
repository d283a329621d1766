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
export {
  batchMap,
  batchMapFrom,
  createBatcher,
  isFlowError,
  lanes,
  robust,
  switchLatest,
  unwrap,
} from '../operators/index.js';
export type { AccountOptions } from './account/create-account.js';
export { createAccount } from './account/create-account.js';
export type { ProviderRules } from './account/providers.js';
export { providers } from './account/providers.js';
export type { AmbientJob } from './account/with-job.js';
export { withJob } from './account/with-job.js';
export { createAgentTurn } from './frontend/create-agent-turn.js';
export { messageFaults } from './frontend/message-faults.js';
export type {
  AguiTurnMessage,
  AguiUserPart,
  AnthropicTurnBlock,
  AnthropicTurnMessage,
  AnthropicUserPart,
  ChatTurnMessage,
  ChatUserPart,
  ResponsesTurnItem,
  ResponsesUserPart,
  TurnProtocols,
} from './frontend/turn-messages.js';
export { toMessages } from './frontend/turn-messages.js';
export type {
  AgentTurnOptions,
  AgentTurns,
  AgentTurnsSnapshot,
  AnswerOptions,
  ApprovalContext,
  AskArguments,
  AskOptions,
  CancelReason,
  GuessOptions,
  HistoryOptions,
  OpaqueBlock,
  SpeculateOptions,
  TurnCallView,
  TurnContext,
  TurnEvent,
  TurnMessage,
  TurnNews,
  TurnPlace,
  TurnStoreOptions,
  TurnUsage,
  TurnView,
  TurnWaste,
  UserContent,
} from './frontend/turn-types.js';
export { emptyView, reduceView } from './frontend/turn-view.js';
export type { CallRecord } from './metrics/call-record.js';
export type {
  Budget,
  BudgetCall,
  BudgetLimit,
  BudgetLimitSnapshot,
  BudgetOptions,
  BudgetPort,
  BudgetSnapshot,
  BudgetStorage,
  BudgetWarning,
  ModelPrice,
  ModelPrices,
  Reservation,
  SavedBudget,
} from './pipelines/create-budget.js';
export { createBudget } from './pipelines/create-budget.js';
export type {
  ClientEmbedderOptions,
  EmbedCall,
  Embedder,
  EmbedderOptions,
  EmbedderRules,
  EmbedderSnapshot,
  EmbedderSpend,
  EmbedOptions,
} from './pipelines/create-embedder.js';
export { createEmbedder } from './pipelines/create-embedder.js';
export type {
  AnswerStorage,
  ChatChunk,
  ChatCompletion,
  ChatMessage,
  ChatRequest,
  ChatUsage,
  Collected,
  FixAnswerOptions,
  ModelCacheOptions,
  ModelCallAllOptions,
  ModelCaller,
  ModelCallerOptions,
  ModelCallerRules,
  ModelCallerSnapshot,
  ModelCallMode,
  ModelCallOptions,
  ModelClient,
  ModelContext,
  ModelEntry,
  ModelHedgeOptions,
  ModelStream,
} from './pipelines/create-model-caller.js';
export { chatCompletions, createModelCaller } from './pipelines/create-model-caller.js';
export type {
  AnyStage,
  BatchRules,
  DocumentFulfilled,
  DocumentOf,
  DocumentRejected,
  DocumentResult,
  ItemFulfilled,
  ItemRejected,
  ItemResult,
  JournalEntry,
  LevelLoad,
  RequestContext,
  Stage,
  StageContext,
  StageItem,
  StageJournal,
  StageOutput,
  StageResult,
  StageRules,
  StageState,
  Stages,
  StagesOptions,
  StagesRules,
  StagesSnapshot,
  StageWork,
  StepsContext,
} from './pipelines/create-stages.js';
export { createMemoryJournal, createStages } from './pipelines/create-stages.js';
export type {
  RunToolsArguments,
  RunToolsOptions,
  ToolLoad,
  ToolRunner,
  ToolRunnerOptions,
  ToolRunnerSnapshot,
} from './pipelines/create-tool-runner.js';
export { createToolRunner } from './pipelines/create-tool-runner.js';
export type { EndpointOptions } from './pipelines/endpoint.js';
export { presets } from './pipelines/presets.js';
export { ProviderError } from './pipelines/provider-error.js';
export type {
  RequestLimits,
  StageLoad,
  Throughput,
  ThroughputLevel,
  ThroughputPlan,
  ThroughputRaise,
} from './pipelines/throughput.js';
export { explainThroughput } from './pipelines/throughput.js';
export type { ToolDefinitions, ToolJsonSchema, ToToolDefinitionsOptions } from './pipelines/tools/tool-definitions.js';
export { toToolDefinitions } from './pipelines/tools/tool-definitions.js';
export type { ChatToolCall, ToolProtocol, ToolResultMessages, ToToolResultsOptions } from './pipelines/tools/tool-formats.js';
export { fromChatToolCalls, toToolResults } from './pipelines/tools/tool-formats.js';
export type {
  AnyTool,
  GuardContext,
  GuardedCall,
  SchemaAnswer,
  Tool,
  ToolCall,
  ToolContext,
  ToolError,
  ToolErrorCode,
  ToolFailure,
  ToolGuard,
  ToolIssue,
  ToolOutput,
  ToolResult,
  ToolRun,
  ToolSchema,
  ToolSuccess,
  ToolSummary,
} from './pipelines/tools/tool-types.js';
export { defineTool } from './pipelines/tools/tool-types.js';
export type { AssembleToolCallsOptions } from './streams/assemble-tool-calls.js';
export { assembleToolCalls } from './streams/assemble-tool-calls.js';
export type { ModelPart } from './streams/model-part.js';
export type { TokenEncoding, TokenEstimatorOptions } from './tokenizers/estimate.js';
export { createTokenEstimator, estimateTokens } from './tokenizers/estimate.js';
