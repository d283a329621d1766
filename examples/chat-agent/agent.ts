import type { Model, Said } from './models.js';

/** What is read of a request of AG-UI. */
export interface RunInput {
  readonly threadId: string;
  readonly runId: string;
  readonly messages: readonly { readonly role: string; readonly content?: unknown }[];
  readonly tools: readonly { readonly name: string }[];
}

export type AgentEvent = { readonly type: string } & Readonly<Record<string, unknown>>;

/** What makes the agent call a tool of the page: the models that answer here know no tools. */
const CALLS: readonly { readonly tool: string; readonly asksFor: RegExp; readonly args: string }[] = [
  { tool: 'clock', asksFor: /\btime\b|\bclock\b/i, args: '{}' },
  { tool: 'dice', asksFor: /\bdice\b|\broll\b/i, args: '{"sides": 6}' },
];

/** One run, as the events of AG-UI: a tool call, which the page answers with the next run, or a text. */
export async function* run({ threadId, runId, messages, tools }: RunInput, model: Model, signal: AbortSignal): AsyncGenerator<AgentEvent> {
  yield { type: 'RUN_STARTED', threadId, runId };
  const conversation = messages.flatMap(({ role, content }): Said[] =>
    typeof content === 'string' && content !== '' && (role === 'user' || role === 'assistant' || role === 'tool')
      ? [{ role, text: content }]
      : [],
  );
  const last = conversation.at(-1);
  const call = CALLS.find(
    ({ tool, asksFor }) => last?.role === 'user' && asksFor.test(last.text) && tools.some(({ name }) => name === tool),
  );
  if (call) {
    const toolCallId = `call-${runId}`;
    yield { type: 'TOOL_CALL_START', toolCallId, toolCallName: call.tool };
    yield { type: 'TOOL_CALL_ARGS', toolCallId, delta: call.args };
    yield { type: 'TOOL_CALL_END', toolCallId };
  } else {
    const messageId = `answer-${runId}`;
    yield { type: 'TEXT_MESSAGE_START', messageId, role: 'assistant' };
    for await (const delta of model.answer(conversation, signal))
      if (delta !== '') yield { type: 'TEXT_MESSAGE_CONTENT', messageId, delta };
    yield { type: 'TEXT_MESSAGE_END', messageId };
  }
  yield { type: 'RUN_FINISHED', threadId, runId };
}

/** The last thing the user said. */
export function questionOf({ messages }: RunInput): string {
  const content = messages.findLast(({ role }) => role === 'user')?.content;
  return typeof content === 'string' ? content : '';
}
