import type Anthropic from '@anthropic-ai/sdk';
import type { Api, Reply } from './model-api-exchange.js';
import { frame, piecesOf, replyTo, textOf, tokensIn, tokensOf } from './model-api-exchange.js';

type Block = Anthropic.TextBlock | Anthropic.ToolUseBlock;

interface Body {
  readonly model: string;
  readonly max_tokens: number;
  readonly messages: readonly unknown[];
  readonly system?: unknown;
  readonly stream?: boolean;
}

/** `POST /v1/messages`, whole and streamed: Anthropic's API. */
export const messages: Api = (body, { id, chunks }) => {
  const asked = body as Body;
  const reply = replyTo(asked.messages);
  const inputTokens = tokensIn(asked.messages) + tokensOf(textOf(asked.system));
  const { outputTokens, poison, tool } = reply;
  const message: Anthropic.Message = {
    id: `msg_${id}`,
    type: 'message',
    role: 'assistant',
    model: asked.model,
    content: [blockOf(reply, id)],
    container: null,
    diagnostics: null,
    stop_details: null,
    stop_reason: tool === undefined ? 'end_turn' : 'tool_use',
    stop_sequence: null,
    usage: {
      input_tokens: inputTokens,
      output_tokens: outputTokens,
      output_tokens_details: null,
      cache_creation: null,
      cache_creation_input_tokens: 0,
      cache_read_input_tokens: 0,
      inference_geo: null,
      server_tool_use: null,
      service_tier: 'standard',
      speed: null,
    },
  };
  return {
    inputTokens,
    outputTokens,
    maxOutputTokens: asked.max_tokens,
    poison,
    answer: asked.stream ? framesOf(message, reply, id, chunks) : message,
  };
};

function blockOf({ text, tool }: Pick<Reply, 'text' | 'tool'>, id: number): Block {
  if (tool === undefined) return { type: 'text', text, citations: null };
  return { type: 'tool_use', id: `toolu_${id}`, name: tool, input: JSON.parse(text) as unknown, caller: { type: 'direct' } };
}

function framesOf(message: Anthropic.Message, { text, tool }: Reply, id: number, chunks: number): readonly string[] {
  const { usage, stop_reason, stop_sequence } = message;
  const event = (data: Anthropic.MessageStreamEvent): string => frame(data, data.type);
  const empty = blockOf({ text: tool === undefined ? '' : '{}', tool }, id);
  return [
    event({
      type: 'message_start',
      message: { ...message, content: [], stop_reason: null, usage: { ...usage, output_tokens: 0 } },
    }) + event({ type: 'content_block_start', index: 0, content_block: empty }),
    ...piecesOf(text, chunks).map((piece) =>
      event({
        type: 'content_block_delta',
        index: 0,
        delta: tool === undefined ? { type: 'text_delta', text: piece } : { type: 'input_json_delta', partial_json: piece },
      }),
    ),
    event({ type: 'content_block_stop', index: 0 }) +
      // As the API itself: what went in was said at the start.
      event({
        type: 'message_delta',
        delta: { stop_reason, stop_sequence, stop_details: null, container: null },
        usage: { output_tokens: usage.output_tokens } as Anthropic.MessageDeltaUsage,
      }) +
      event({ type: 'message_stop' }),
  ];
}
