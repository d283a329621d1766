// Agent turns, and streams of another RxJS.
import { of } from 'rxjs';
import {
  AGENT_TURN_DEFAULTS,
  createAgentTurn,
  emptyView,
  messageFaults,
  reduceView,
  SPECULATE_DEFAULTS,
  toMessages,
  type AgentTurnOptions,
  type AgentTurns,
  type AgentTurnsSnapshot,
  type AguiTurnMessage,
  type AnswerOptions,
  type AnthropicTurnMessage,
  type AnyTool,
  type ApprovalContext,
  type AskArguments,
  type AskOptions,
  type CancelReason,
  type ChatTurnMessage,
  type GuessOptions,
  type HistoryOptions,
  type ModelPart,
  type OpaqueBlock,
  type ResponsesTurnItem,
  type RunToolsArguments,
  type TurnCallView,
  type TurnContext,
  type TurnEvent,
  type TurnMessage,
  type TurnNews,
  type TurnPlace,
  type TurnProtocols,
  type TurnStoreOptions,
  type TurnUsage,
  type TurnView,
  type TurnWaste,
  type UserContent,
} from 'sluice';
import { fromSubscribable, type StoreStatus, type SubscribableLike, type SubscribableObserver, type UnfinishedToolCallError } from 'sluice/operators';

/** Every type can be named. */
export type All = [
  AgentTurnOptions,
  AgentTurns,
  AgentTurnsSnapshot,
  AguiTurnMessage,
  AnswerOptions,
  AnthropicTurnMessage,
  AnyTool,
  ApprovalContext,
  AskArguments<undefined>,
  AskOptions,
  CancelReason,
  ChatTurnMessage,
  GuessOptions,
  HistoryOptions,
  ModelPart,
  OpaqueBlock,
  ResponsesTurnItem,
  RunToolsArguments<undefined>,
  TurnCallView,
  TurnContext,
  TurnEvent,
  TurnMessage,
  TurnNews,
  TurnPlace,
  TurnProtocols,
  TurnStoreOptions,
  TurnUsage,
  TurnView,
  TurnWaste,
  UserContent,
  StoreStatus,
  SubscribableObserver<string>,
  UnfinishedToolCallError,
];

const turns = createAgentTurn({ model: () => of({ choices: [{ index: 0, delta: { content: 'four' }, finish_reason: 'stop' }] }), tools: [] });
export const asked = turns.ask('2 + 2?', { key: 'chat' });
const view: TurnView = emptyView([]);
export const views = (event: TurnEvent): TurnView => reduceView(view, event);
export const faults = (history: readonly TurnMessage[]): unknown => messageFaults(toMessages(history, 'chat'), 'chat');
export const defaults: readonly object[] = [AGENT_TURN_DEFAULTS, SPECULATE_DEFAULTS];
export const cold = (foreign: SubscribableLike<string>): unknown => fromSubscribable(() => foreign);
