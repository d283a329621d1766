import type { ToolCall } from '../../src/index.js';

/** What one protocol says when a model makes calls: the events of each, in order, and those around them. */
export interface ToolCallProtocol {
  readonly before: (count: number) => readonly object[];
  /** Begin, pieces and end of one call. */
  readonly call: (call: ToolCall, place: number, pieces: readonly string[]) => readonly object[];
  /** The model has ended; `isCut`: because it was not allowed to say more. */
  readonly after: (isCut: boolean) => readonly object[];
}

const chatPiece = (index: number, piece: object): object => ({ choices: [{ index: 0, delta: { tool_calls: [{ index, ...piece }] } }] });

export const PROTOCOLS: Readonly<Record<string, ToolCallProtocol>> = {
  'chat completions': {
    before: () => [{ choices: [{ index: 0, delta: { role: 'assistant', content: '' }, finish_reason: null }] }],
    call: ({ id, name }, index, pieces) => [
      chatPiece(index, { id, type: 'function', function: { name, arguments: '' } }),
      ...pieces.map((text) => chatPiece(index, { function: { arguments: text } })),
    ],
    after: (isCut) => [{ choices: [{ index: 0, delta: {}, finish_reason: isCut ? 'length' : 'tool_calls' }] }, { choices: [], usage: {} }],
  },
  'the Responses API': {
    before: () => [{ type: 'response.created', response: {} }],
    call: ({ id, name }, output_index, pieces) => {
      const item = { type: 'function_call', id: `fc_${id}`, call_id: id, name };
      const at = { item_id: item.id, output_index };
      return [
        { type: 'response.output_item.added', output_index, item: { ...item, arguments: '', status: 'in_progress' } },
        ...pieces.map((delta) => ({ type: 'response.function_call_arguments.delta', ...at, delta })),
        { type: 'response.function_call_arguments.done', ...at, arguments: pieces.join('') },
        { type: 'response.output_item.done', output_index, item: { ...item, arguments: pieces.join(''), status: 'completed' } },
      ];
    },
    after: (isCut) => [
      isCut
        ? { type: 'response.incomplete', response: { incomplete_details: { reason: 'max_output_tokens' } } }
        : { type: 'response.completed', response: {} },
    ],
  },
  Anthropic: {
    before: () => [{ type: 'message_start', message: { usage: { input_tokens: 1, output_tokens: 0 } } }],
    call: ({ id, name }, index, pieces) => [
      { type: 'content_block_start', index, content_block: { type: 'tool_use', id, name, input: {} } },
      ...pieces.map((partial_json) => ({ type: 'content_block_delta', index, delta: { type: 'input_json_delta', partial_json } })),
      { type: 'content_block_stop', index },
    ],
    after: (isCut) => [
      { type: 'message_delta', delta: { stop_reason: isCut ? 'max_tokens' : 'tool_use' }, usage: { output_tokens: 1 } },
      { type: 'message_stop' },
    ],
  },
  'AG-UI': {
    before: () => [{ type: 'RUN_STARTED' }],
    call: ({ id, name }, _place, pieces) => [
      { type: 'TOOL_CALL_START', toolCallId: id, toolCallName: name },
      ...pieces.map((delta) => ({ type: 'TOOL_CALL_ARGS', toolCallId: id, delta })),
      { type: 'TOOL_CALL_END', toolCallId: id },
    ],
    after: (isCut) => [{ type: 'RUN_FINISHED', ...(isCut && { outcome: { type: 'cancelled' } }) }],
  },
  'AG-UI in chunks': {
    before: () => [{ type: 'RUN_STARTED' }],
    call: ({ id, name }, _place, [first = '', ...pieces]) => [
      { type: 'TOOL_CALL_CHUNK', toolCallId: id, toolCallName: name, delta: first },
      ...pieces.map((delta) => ({ type: 'TOOL_CALL_CHUNK', toolCallId: id, delta })),
    ],
    after: (isCut) => [{ type: 'RUN_FINISHED', ...(isCut && { outcome: { type: 'cancelled' } }) }],
  },
};

/** The lists as one, each in its own order, whose next comes first as `turns` says. */
export function interleaved<T>(lists: readonly (readonly T[])[], turns: readonly number[]): readonly T[] {
  const rest = lists.map((list) => [...list]);
  const out: T[] = [];
  for (let step = 0; ; step++) {
    const open = rest.filter((list) => list.length > 0);
    if (open.length === 0) return out;
    out.push((open[(turns[step % Math.max(1, turns.length)] ?? 0) % open.length] as T[]).shift() as T);
  }
}

/** A text in pieces that end at these places. */
export function cutAt(text: string, places: readonly number[]): readonly string[] {
  const ends = [...new Set(places.map((place) => place % (text.length + 1)))].sort((a, b) => a - b);
  return [0, ...ends].map((start, i) => text.slice(start, ends[i] ?? text.length));
}
