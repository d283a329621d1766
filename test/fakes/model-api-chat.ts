import type OpenAI from 'openai';
import type { Api, Reply } from './model-api-exchange.js';
import { frame, piecesOf, replyTo, tokensIn } from './model-api-exchange.js';

type Chunk = OpenAI.ChatCompletionChunk;
type Delta = Chunk['choices'][number]['delta'];

interface Body {
  readonly model: string;
  readonly messages: readonly unknown[];
  readonly stream?: boolean;
  readonly stream_options?: { readonly include_usage?: boolean };
  readonly max_tokens?: number;
  readonly max_completion_tokens?: number;
}

/** `POST /v1/chat/completions`, whole and streamed. */
export const chat: Api = (body, { id, chunks }) => {
  const asked = body as Body;
  const reply = replyTo(asked.messages);
  const inputTokens = tokensIn(asked.messages);
  const { outputTokens, poison } = reply;
  const usage = { prompt_tokens: inputTokens, completion_tokens: outputTokens, total_tokens: inputTokens + outputTokens };
  const same = { id: `chatcmpl-${id}`, created: 0, model: asked.model };
  return {
    inputTokens,
    outputTokens,
    maxOutputTokens: asked.max_completion_tokens ?? asked.max_tokens,
    poison,
    answer: asked.stream
      ? framesOf(reply, same, chunks, asked.stream_options?.include_usage ? usage : undefined)
      : ({ ...same, object: 'chat.completion', choices: [choiceOf(reply, id)], usage } satisfies OpenAI.ChatCompletion),
  };
};

function choiceOf({ text, tool }: Reply, id: number): OpenAI.ChatCompletion['choices'][number] {
  const same = { index: 0, logprobs: null };
  if (tool === undefined) return { ...same, finish_reason: 'stop', message: { role: 'assistant', content: text, refusal: null } };
  const call = { id: `call_${id}`, type: 'function' as const, function: { name: tool, arguments: text } };
  return { ...same, finish_reason: 'tool_calls', message: { role: 'assistant', content: null, refusal: null, tool_calls: [call] } };
}

function framesOf(
  { text, tool }: Reply,
  same: Pick<Chunk, 'id' | 'created' | 'model'>,
  chunks: number,
  usage: Chunk['usage'] | undefined,
): readonly string[] {
  const chunk = (choices: Chunk['choices'], rest: Partial<Chunk> = {}): string =>
    frame({ ...same, object: 'chat.completion.chunk', choices, ...(usage && { usage: null }), ...rest } satisfies Chunk);
  const delta = (part: Delta, finish: Chunk['choices'][number]['finish_reason'] = null): string =>
    chunk([{ index: 0, delta: part, logprobs: null, finish_reason: finish }]);
  const call = { index: 0, id: same.id.replace('chatcmpl-', 'call_'), type: 'function' as const };
  const head: Delta =
    tool === undefined
      ? { role: 'assistant', content: '', refusal: null }
      : { role: 'assistant', content: null, tool_calls: [{ ...call, function: { name: tool, arguments: '' } }] };
  const partOf = (piece: string): Delta =>
    tool === undefined ? { content: piece } : { tool_calls: [{ index: 0, function: { arguments: piece } }] };
  return [
    delta(head),
    ...piecesOf(text, chunks).map((piece) => delta(partOf(piece))),
    [delta({}, tool === undefined ? 'stop' : 'tool_calls'), usage ? chunk([], { usage }) : '', frame('[DONE]')].join(''),
  ];
}
