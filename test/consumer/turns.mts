// Agent turns, and streams of another RxJS.
import { of } from 'rxjs';
import {
  createAgentTurn,
  createToolRunner,
  toMessages,
  type AgentTurnOptions,
  type AgentTurns,
  type AgentTurnsSnapshot,
  type AguiTurnMessage,
  type AnswerOptions,
  type AnthropicTurnMessage,
  type AnyTool,
  type ApprovalContext,
  type AskOptions,
  type ChatTurnMessage,
  type ResponsesTurnItem,
  type TurnContext,
  type TurnEvent,
  type TurnMessage,
  type TurnView,
  type UserContent,
} from 'sluice';
import { fromSubscribable, type SubscribableLike } from 'sluice/interop';
import { type StoreStatus, type UnfinishedToolCallError } from 'sluice/operators';

const turns = createAgentTurn({ model: () => of({ choices: [{ index: 0, delta: { content: 'four' }, finish_reason: 'stop' }] }), tools: createToolRunner({ tools: [] }) });
export const asked = turns.ask('2 + 2?', { key: 'chat' });
export const cold = (foreign: SubscribableLike<string>): unknown => fromSubscribable(() => foreign);
