import type OpenAI from 'openai';
import type { Api, Reply } from './model-api-exchange.js';
import { frame, piecesOf, replyTo, tokensIn, tokensOf } from './model-api-exchange.js';

type Response = Omit<OpenAI.Responses.Response, 'output_text'>;
type Item = OpenAI.Responses.ResponseOutputMessage | OpenAI.Responses.ResponseFunctionToolCall;

interface Body {
  readonly model: string;
  readonly input?: string | readonly unknown[];
  readonly instructions?: string | null;
  readonly stream?: boolean;
  readonly max_output_tokens?: number | null;
}

/** `POST /v1/responses`, whole and streamed. */
export const responses: Api = (body, { id, chunks }) => {
  const { model, input = [], instructions, stream, max_output_tokens } = body as Body;
  const items = typeof input === 'string' ? [{ role: 'user', content: input }] : input;
  const reply = replyTo(items);
  const inputTokens = tokensIn(items) + tokensOf(instructions ?? '');
  const { outputTokens, poison } = reply;
  const item = itemOf(reply, id);
  const response: Response = {
    id: `resp_${id}`,
    object: 'response',
    created_at: 0,
    status: 'completed',
    access_programs: null,
    error: null,
    incomplete_details: null,
    instructions: instructions ?? null,
    metadata: {},
    model,
    output: [item],
    parallel_tool_calls: true,
    temperature: 1,
    tool_choice: 'auto',
    tools: [],
    top_p: 1,
    usage: {
      input_tokens: inputTokens,
      input_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 },
      output_tokens: outputTokens,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: inputTokens + outputTokens,
    },
  };
  return {
    inputTokens,
    outputTokens,
    maxOutputTokens: max_output_tokens ?? undefined,
    poison,
    answer: stream ? framesOf(response, item, reply, chunks) : response,
  };
};

function itemOf({ text, tool }: Reply, id: number): Item & { readonly id: string } {
  if (tool !== undefined)
    return { id: `fc_${id}`, type: 'function_call', call_id: `call_${id}`, name: tool, arguments: text, status: 'completed' };
  return { id: `msg_${id}`, type: 'message', role: 'assistant', status: 'completed', content: [partOf(text)] };
}

function partOf(text: string) {
  return { type: 'output_text' as const, text, annotations: [], logprobs: [] };
}

function framesOf(response: Response, item: ReturnType<typeof itemOf>, { text }: Reply, chunks: number): readonly string[] {
  let sequence_number = 0;
  const event = (type: string, data: object): string => frame({ type, sequence_number: sequence_number++, ...data }, type);
  const { usage, ...open } = { ...response, status: 'in_progress', output: [] };
  const at = { item_id: item.id, output_index: 0 };
  const pieces = piecesOf(text, chunks);
  const started = [event('response.created', { response: open }), event('response.in_progress', { response: open })];
  const added = (empty: object): string =>
    event('response.output_item.added', { output_index: 0, item: { ...item, ...empty, status: 'in_progress' } });
  const ended = (): string =>
    event('response.output_item.done', { output_index: 0, item }) +
    event('response.completed', { response: { ...open, ...response, usage } });
  if (item.type === 'function_call')
    return [
      [...started, added({ arguments: '' })].join(''),
      ...pieces.map((delta) => event('response.function_call_arguments.delta', { ...at, delta })),
      event('response.function_call_arguments.done', { ...at, name: item.name, arguments: text }) + ended(),
    ];
  const within = { ...at, content_index: 0 };
  return [
    [...started, added({ content: [] }), event('response.content_part.added', { ...within, part: partOf('') })].join(''),
    ...pieces.map((delta) => event('response.output_text.delta', { ...within, delta, logprobs: [] })),
    event('response.output_text.done', { ...within, text, logprobs: [] }) +
      event('response.content_part.done', { ...within, part: partOf(text) }) +
      ended(),
  ];
}
