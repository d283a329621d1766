import { check } from '../../operators/build.js';
import type { OpaqueProtocol } from '../streams/model-part.js';
import type { TurnMessage, UserContent } from './turn-types.js';

/** A part of what a user says, for chat completions. */
export type ChatUserPart =
  | { type: 'text'; text: string }
  | { type: 'image_url'; image_url: { url: string; detail?: 'auto' | 'low' | 'high' } }
  | { type: 'input_audio'; input_audio: { data: string; format: 'wav' | 'mp3' } }
  | { type: 'file'; file: { file_data?: string; file_id?: string; filename?: string } };

/**
 * A message of OpenAI's chat completions.
 * @beta
 */
export type ChatTurnMessage =
  | { role: 'user'; content: string | ChatUserPart[] }
  | {
      role: 'assistant';
      content: string | null;
      tool_calls?: { id: string; type: 'function'; function: { name: string; arguments: string } }[];
    }
  | { role: 'tool'; tool_call_id: string; content: string };

/** A part of what a user says, for Anthropic. */
export type AnthropicUserPart =
  | { type: 'text'; text: string }
  | {
      type: 'image';
      source:
        | { type: 'base64'; media_type: 'image/jpeg' | 'image/png' | 'image/gif' | 'image/webp'; data: string }
        | { type: 'url'; url: string };
    }
  | {
      type: 'document';
      source:
        | { type: 'base64'; media_type: 'application/pdf'; data: string }
        | { type: 'text'; media_type: 'text/plain'; data: string }
        | { type: 'url'; url: string };
    };

/** A block of a message of Anthropic. */
export type AnthropicTurnBlock =
  | AnthropicUserPart
  | { type: 'tool_use'; id: string; name: string; input: Record<string, unknown> }
  | { type: 'tool_result'; tool_use_id: string; content: string; is_error: boolean }
  /** Signed thinking, as it came. */
  | { type: 'thinking'; thinking: string; signature: string }
  | { type: 'redacted_thinking'; data: string };

/**
 * A message of Anthropic's API.
 * @beta
 */
export type AnthropicTurnMessage = { role: 'user' | 'assistant'; content: AnthropicTurnBlock[] };

/** A part of what a user says, for OpenAI's Responses. */
export type ResponsesUserPart =
  | { type: 'input_text'; text: string }
  | { type: 'input_image'; detail: 'auto' | 'low' | 'high'; image_url?: string | null; file_id?: string | null }
  | { type: 'input_file'; file_data?: string; file_id?: string | null; file_url?: string; filename?: string };

/**
 * An item of OpenAI's Responses.
 * @beta
 */
export type ResponsesTurnItem =
  | { role: 'user'; content: string | ResponsesUserPart[] }
  | { role: 'assistant'; content: string }
  | { type: 'function_call'; call_id: string; name: string; arguments: string }
  | { type: 'function_call_output'; call_id: string; output: string }
  /** Encrypted reasoning, as it came. */
  | { type: 'reasoning'; id: string; summary: { type: 'summary_text'; text: string }[]; encrypted_content?: string | null };

/** A part of what a user says, for AG-UI. */
export type AguiUserPart =
  | { type: 'text'; text: string }
  | {
      type: 'image' | 'audio' | 'video' | 'document';
      source: { type: 'data'; value: string; mimeType: string } | { type: 'url'; value: string; mimeType?: string };
    };

/**
 * A message of AG-UI.
 * @beta
 */
export type AguiTurnMessage =
  | { id: string; role: 'user'; content: string | AguiUserPart[] }
  | {
      id: string;
      role: 'assistant';
      content: string;
      toolCalls?: { id: string; type: 'function'; function: { name: string; arguments: string }; encryptedValue?: string }[];
      encryptedValue?: string;
    }
  /** What the model thought before the answer, as it came. */
  | { id: string; role: 'reasoning'; content: string; encryptedValue: string }
  | { id: string; role: 'tool'; toolCallId: string; content: string; error?: string };

/** The messages of each protocol. */
export interface TurnProtocols {
  readonly chat: ChatTurnMessage;
  readonly anthropic: AnthropicTurnMessage;
  readonly responses: ResponsesTurnItem;
  readonly 'ag-ui': AguiTurnMessage;
}

const NAME = 'toMessages';

/**
 * A conversation in the words of a provider: messages of chat completions, of Anthropic, items of OpenAI's Responses, messages of AG-UI. What
 * `createAgentTurn` hands to your `model` becomes what every one of them takes: arguments are objects, texts are not blank, roles come in their
 * turns. Put your instructions in front yourself.
 *
 * @beta
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) for a protocol there is not.
 * @example
 * ```ts
 * import { toMessages } from 'sluice';
 *
 * toMessages([{ role: 'user', content: 'Hi' }], 'chat'); // => [{ role: 'user', content: 'Hi' }]
 * toMessages([{ role: 'user', content: 'Hi' }], 'anthropic'); // => [{ role: 'user', content: [{ type: 'text', text: 'Hi' }] }]
 * ```
 */
export function toMessages<P extends keyof TurnProtocols>(messages: readonly TurnMessage[], protocol: P): TurnProtocols[P][] {
  const { [check.oneOf('chat', 'anthropic', 'responses', 'ag-ui')(NAME, 'protocol', protocol)]: write } = writers;
  return write(messages) as TurnProtocols[P][];
}

const writers: { readonly [P in keyof TurnProtocols]: (messages: readonly TurnMessage[]) => TurnProtocols[P][] } = {
  chat: (messages) => messages.map(chatMessage),
  anthropic: anthropicMessages,
  responses: (messages) => messages.flatMap(responsesItems),
  'ag-ui': (messages) => messages.flatMap(aguiMessages),
};

function chatMessage(message: TurnMessage): ChatTurnMessage {
  if (message.role === 'user') return { role: 'user', content: contentOf(message.content) };
  if (message.role === 'tool') return { role: 'tool', tool_call_id: message.toolCallId, content: message.content };
  const { content, toolCalls } = message;
  if (toolCalls.length === 0) return { role: 'assistant', content };
  return { role: 'assistant', content: content === '' ? null : content, tool_calls: functionCalls(toolCalls) };
}

/** Parts are written as the user gave them: those of the provider that the conversation goes to. */
function contentOf(content: UserContent): string | never[] {
  return typeof content === 'string' ? content : [...(content as readonly never[])];
}

/** Neighbours of one role are one message; the results of all calls of a step stand at its beginning. */
function anthropicMessages(messages: readonly TurnMessage[]): AnthropicTurnMessage[] {
  const written: AnthropicTurnMessage[] = [];
  for (const message of messages) {
    const role = message.role === 'assistant' ? 'assistant' : 'user';
    const last = written.at(-1);
    const blocks = anthropicBlocks(message, message === messages.at(-1));
    if (last?.role === role) last.content.push(...blocks);
    else written.push({ role, content: blocks });
  }
  return written;
}

/** An answer that the model is to go on with must not end with a blank. */
function anthropicBlocks(message: TurnMessage, isLast: boolean): AnthropicTurnBlock[] {
  if (message.role === 'user') {
    const content = contentOf(message.content);
    return typeof content === 'string' ? [textBlock(content)] : content;
  }
  if (message.role === 'tool') {
    const { toolCallId: tool_use_id, content, isError: is_error } = message;
    return [{ type: 'tool_result', tool_use_id, content, is_error }];
  }
  return inOrder<AnthropicTurnBlock>(message, 'anthropic', {
    text: (text) => textBlock(isLast ? text.trimEnd() : text),
    call: ({ id, name, input }) => ({ type: 'tool_use', id, name: asName(name), input: asObject(input) }),
  });
}

function textBlock(text: string): AnthropicTurnBlock {
  return { type: 'text', text };
}

function responsesItems(message: TurnMessage): ResponsesTurnItem[] {
  if (message.role === 'user') return [{ role: 'user', content: contentOf(message.content) }];
  if (message.role === 'tool') return [{ type: 'function_call_output', call_id: message.toolCallId, output: message.content }];
  return inOrder<ResponsesTurnItem>(message, 'responses', {
    text: (content) => ({ role: 'assistant', content }),
    call: ({ id, name, input }) => ({ type: 'function_call', call_id: id, name: asName(name), arguments: asJson(input) }),
  });
}

/** What stands in an answer, in the order in which the model said it: the text, what the provider has put between, the calls. */
function inOrder<P extends object>(
  { content, toolCalls, opaque = [] }: AssistantMessage,
  protocol: OpaqueProtocol,
  write: { readonly text: (text: string) => P; readonly call: (call: AssistantMessage['toolCalls'][number]) => P },
): P[] {
  const parts: P[] = [];
  let chars = 0;
  let calls = 0;
  const upTo = (endChars: number, endCalls: number): void => {
    const text = content.slice(chars, endChars);
    if (!isBlank(text)) parts.push(write.text(text));
    parts.push(...toolCalls.slice(calls, endCalls).map(write.call));
    chars = Math.max(chars, endChars);
    calls = Math.max(calls, endCalls);
  };
  const own = opaque.filter((each) => each.protocol === protocol);
  for (const { block, afterChars, afterCalls } of own) {
    upTo(afterChars, afterCalls);
    parts.push(block as P);
  }
  upTo(content.length, toolCalls.length);
  // Nothing may end with one: it is the beginning of what follows.
  const blocks = new Set<object>(own.map(({ block }) => block));
  return parts.slice(0, parts.findLastIndex((part) => !blocks.has(part)) + 1);
}

function aguiMessages(message: TurnMessage, index: number): AguiTurnMessage[] {
  const id = `message_${String(index + 1)}`;
  if (message.role === 'user') return [{ id, role: 'user', content: contentOf(message.content) }];
  if (message.role === 'tool') {
    const { toolCallId, content, isError } = message;
    return [{ id, role: 'tool', toolCallId, content, ...(isError && { error: content }) }];
  }
  const { content, opaque = [] } = message;
  const own = opaque.filter(({ protocol }) => protocol === 'ag-ui').map(({ block }) => block as AguiOpaque);
  const thoughts = own.filter((block): block is AguiThought => 'role' in block);
  const valueOf = (callId?: string) => {
    const encryptedValue = own.findLast((block) => !('role' in block) && block.toolCallId === callId)?.encryptedValue;
    return encryptedValue === undefined ? {} : { encryptedValue };
  };
  const toolCalls = functionCalls(message.toolCalls).map((call) => ({ ...call, ...valueOf(call.id) }));
  return [...thoughts, { id, role: 'assistant', content, ...(toolCalls.length > 0 && { toolCalls }), ...valueOf() }];
}

type AguiThought = Extract<AguiTurnMessage, { role: 'reasoning' }>;

/** A thought, or what belongs to a call or to the answer. */
type AguiOpaque = AguiThought | { readonly toolCallId?: string; readonly encryptedValue: string };

type AssistantMessage = Extract<TurnMessage, { role: 'assistant' }>;

function functionCalls(toolCalls: AssistantMessage['toolCalls']) {
  return toolCalls.map(({ id, name, input }) => ({
    id,
    type: 'function' as const,
    function: { name: asName(name), arguments: asJson(input) },
  }));
}

function asJson(input: unknown): string {
  return JSON.stringify(asObject(input));
}

/** What a model wrote that is no object was refused by the tool; servers refuse to read it, too. */
function asObject(input: unknown): Record<string, unknown> {
  if (typeof input === 'object' && input !== null && !Array.isArray(input)) return input as Record<string, unknown>;
  return input === undefined ? {} : { input };
}

/** A model may ask for a tool that cannot be: its result says that there is none, but the name must pass. */
function asName(name: string): string {
  return name.replace(/[^a-zA-Z0-9_-]/g, '_').slice(0, 64) || 'unknown';
}

export function isBlank(text: string): boolean {
  return text.trim() === '';
}
