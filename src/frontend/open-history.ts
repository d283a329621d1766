import type { ToolCall, ToolResult } from '../pipelines/tools/tool-types.js';
import { isBlank } from './turn-messages.js';
import type { OpaqueBlock, TurnMessage } from './turn-types.js';

export type AssistantMessage = Extract<TurnMessage, { role: 'assistant' }>;

/** A step that a reload came into. */
export interface OpenStep {
  readonly message: AssistantMessage;
  /** By the place of the call; undefined for those that are not over. */
  readonly results: readonly (ToolResult | undefined)[];
}

/** A conversation that was given: what a model takes, and the step that it ends in, if that is open. */
export interface OpenHistory {
  readonly messages: readonly TurnMessage[];
  readonly open: OpenStep | undefined;
}

/** Cuts off the step that is open. @returns the problem instead, with its place */
export function openHistory(given: readonly TurnMessage[]): OpenHistory | string {
  const messages: TurnMessage[] = [];
  const ids = new Set<string>();
  let step: AssistantMessage | undefined;
  let results = new Map<string, ToolResult>();
  const isOpen = (): boolean => step?.toolCalls.some(({ id }) => !results.has(id)) === true;
  const close = (): void => {
    if (step) messages.push(step, ...step.toolCalls.map((call) => messageOf(results.get(call.id) as ToolResult)));
    step = undefined;
    results = new Map();
  };
  for (const [i, message] of given.entries()) {
    const at = `\`history[${String(i)}]\``;
    if (message.role === 'tool') {
      const call = step?.toolCalls.find(({ id }) => id === message.toolCallId);
      if (call === undefined || results.has(call.id)) return `${at} is a result without its call`;
      results.set(call.id, resultOf(call, message));
      continue;
    }
    if (isOpen()) return `${at} comes before the results of all tool calls`;
    close();
    const problem = message.role === 'assistant' ? problemOf(message, ids) : userProblem(message);
    if (problem !== undefined) return `${at} ${problem}`;
    if (message.role === 'assistant') step = message;
    else messages.push(message);
  }
  if (!isOpen() || step === undefined) {
    close();
    return { messages, open: undefined };
  }
  return { messages, open: { message: step, results: step.toolCalls.map(({ id }) => results.get(id)) } };
}

/** The ids of all calls. */
export function idsOf(messages: readonly TurnMessage[]): Set<string> {
  return new Set(messages.flatMap((message) => (message.role === 'assistant' ? message.toolCalls.map(({ id }) => id) : [])));
}

function problemOf({ content, toolCalls, opaque = [] }: AssistantMessage, ids: Set<string>): string | undefined {
  if (typeof content !== 'string' || !Array.isArray(toolCalls)) return 'has neither text nor tool calls';
  if (toolCalls.length === 0 && isBlank(content)) return 'is an empty answer';
  if (!Array.isArray(opaque) || !opaque.every(isOpaque)) return 'has an invalid `opaque` entry';
  for (const { id, name } of toolCalls) {
    if (typeof id !== 'string' || id === '' || typeof name !== 'string') return 'has a tool call without `id` or `name`';
    if (ids.has(id)) return 'has a tool call whose `id` is used twice';
    ids.add(id);
  }
  return undefined;
}

function isOpaque({ protocol, block, afterChars, afterCalls }: Partial<OpaqueBlock>): boolean {
  return typeof protocol === 'string' && Object(block) === block && [afterChars, afterCalls].every(Number.isInteger);
}

function userProblem({ role, content }: TurnMessage): string | undefined {
  if ((role as string) !== 'user') return 'has an unknown role';
  return contentProblem(content);
}

/** What a model would not take as a question. */
export function contentProblem(content: unknown): string | undefined {
  const isFilled = typeof content === 'string' ? !isBlank(content) : Array.isArray(content) && content.length > 0;
  return isFilled ? undefined : 'is an empty question';
}

function resultOf({ id, name }: ToolCall, { content, isError }: Extract<TurnMessage, { role: 'tool' }>): ToolResult {
  const common = { type: 'tool_result', tool_use_id: id, name, content, index: 0, attempts: 0, durationMs: 0 } as const;
  if (isError) return { ...common, is_error: true, error: { code: 'failed', message: content }, cause: undefined };
  return { ...common, is_error: false, value: content, isTruncated: false };
}

function messageOf({ tool_use_id: toolCallId, name, content, is_error: isError }: ToolResult): TurnMessage {
  return { role: 'tool', toolCallId, name, content, isError };
}
