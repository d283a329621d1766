import type { ToolCall, ToolResult } from './tool-types.js';

/** A tool call as the chat completions of OpenAI have it: of a function, or of a custom tool, whose input is a text. */
export type OpenAIToolCall =
  | { readonly id: string; readonly type?: string; readonly function: { readonly name: string; readonly arguments: string } }
  | { readonly id: string; readonly type?: string; readonly custom: { readonly name: string; readonly input: string } };

/**
 * Calls as `createToolRunner` takes them, of the `tool_calls` of an OpenAI message; none when it has none. Arguments that are no JSON stay a
 * text, which the schema of the tool refuses.
 *
 * @example
 * ```ts
 * import { fromOpenAI } from 'sluice';
 *
 * const [call] = fromOpenAI([{ id: 'call_1', function: { name: 'read', arguments: '{"path":"a.md"}' } }]);
 * call; // => { id: 'call_1', name: 'read', input: { path: 'a.md' } }
 * ```
 */
export function fromOpenAI(calls: readonly OpenAIToolCall[] | null | undefined): ToolCall[] {
  return (calls ?? []).map((call) => {
    const { id } = call;
    if ('custom' in call) return { id, name: call.custom.name, input: call.custom.input };
    return { id, name: call.function.name, input: parsed(call.function.arguments) };
  });
}

/** No arguments at all are often an empty text. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text === '' ? '{}' : text);
  } catch {
    return text;
  }
}

/**
 * The message that hands a result to an OpenAI model.
 *
 * @example
 * ```ts
 * import { createToolRunner, toOpenAI } from 'sluice';
 *
 * const runner = createToolRunner({ tools: [] });
 * const { results } = await runner.runAll([{ id: 'call_1', name: 'read', input: {} }]);
 * results.map(toOpenAI)[0]?.tool_call_id; // => 'call_1'
 * ```
 */
export function toOpenAI({ tool_use_id, content }: ToolResult) {
  return { role: 'tool', tool_call_id: tool_use_id, content } as const;
}

/**
 * The block that hands a result to an Anthropic model: only what its API takes.
 *
 * @example
 * ```ts
 * import { createToolRunner, toAnthropic } from 'sluice';
 *
 * const runner = createToolRunner({ tools: [] });
 * const { results } = await runner.runAll([{ id: 'toolu_1', name: 'read', input: {} }]);
 * results.map(toAnthropic)[0]?.tool_use_id; // => 'toolu_1'
 * ```
 */
export function toAnthropic({ type, tool_use_id, content, is_error }: ToolResult) {
  return { type, tool_use_id, content, is_error };
}
