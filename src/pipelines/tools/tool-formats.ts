import { check } from '../../../operators/build.js';
import { FlowConfigError } from '../../../operators/index.js';
import type { ToolCall, ToolResult } from './tool-types.js';

/** A tool call as OpenAI's chat completions have it: of a function, or of a custom tool, whose input is a text. */
export type ChatToolCall =
  | { readonly id: string; readonly type?: string; readonly function: { readonly name: string; readonly arguments: string } }
  | { readonly id: string; readonly type?: string; readonly custom: { readonly name: string; readonly input: string } };

/**
 * Turns the `tool_calls` of a chat completion's message into calls for `createToolRunner`; returns an empty list when the message has none.
 * Arguments that are not JSON stay a text, which the schema of the tool rejects; arguments that the server has parsed itself stay as they are.
 * Streams of any protocol go through `assembleToolCalls` instead; Anthropic's `tool_use` blocks are calls already.
 *
 * @beta
 * @example
 * ```ts
 * import { fromChatToolCalls } from 'sluice';
 *
 * const [call] = fromChatToolCalls([{ id: 'call_1', function: { name: 'read', arguments: '{"path":"a.md"}' } }]);
 * call; // => { id: 'call_1', name: 'read', input: { path: 'a.md' } }
 * ```
 */
export function fromChatToolCalls(calls: readonly ChatToolCall[] | null | undefined): ToolCall[] {
  return (calls ?? []).map((call) => {
    const { id } = call;
    if ('custom' in call) return { id, name: call.custom.name, input: call.custom.input };
    const { name, arguments: given }: { readonly name: string; readonly arguments: unknown } = call.function;
    return { id, name, input: typeof given === 'string' ? inputOf(given) : (given ?? {}) };
  });
}

/** Whether an input is text that a model meant as JSON, and that could not be parsed. */
export function isCutJson(input: unknown): boolean {
  return typeof input === 'string' && /^\s*[{[]/.test(input);
}

/** The input of a call, from the text that a model wrote. Text that is not JSON stays text. */
export function inputOf(text: string): unknown {
  try {
    // No arguments at all are often an empty text.
    return JSON.parse(text === '' ? '{}' : text);
  } catch {
    return text;
  }
}

/**
 * Protocols that {@link toToolResults} and `toToolDefinitions` write: chat completions, the Responses API, Anthropic's messages, AG-UI.
 * @beta
 */
export type ToolProtocol = keyof ToolResultMessages;

/** A message, or an item of the input, that hands results back, by protocol. */
export interface ToolResultMessages {
  readonly chat: { role: 'tool'; tool_call_id: string; content: string };
  readonly responses:
    | { type: 'function_call_output'; call_id: string; output: string }
    | { type: 'custom_tool_call_output'; call_id: string; output: string };
  readonly anthropic: {
    role: 'user';
    content: { type: 'tool_result'; tool_use_id: string; content: string; is_error: boolean }[];
  };
  readonly 'ag-ui': { id: string; role: 'tool'; toolCallId: string; content: string; error?: string };
}

/**
 * What the next request says about the tool calls that the model asked for, in the shape of its protocol: messages, or items of the input, to be
 * added behind the message that has the calls. In the order of the results; an empty list for no results. The types fit the clients of the
 * protocols (`openai`, `@anthropic-ai/sdk`, `@ag-ui/client`) and `createModelCaller` as they are.
 *
 * @beta
 * @param customTools - Names of tools that take text instead of JSON: the Responses API wants their results marked.
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) for a protocol that is none.
 * @example
 * ```ts
 * import { createToolRunner, toToolResults } from 'sluice';
 *
 * const runner = createToolRunner({ tools: [] });
 * const { results } = await runner.runAllAsync([{ id: 'call_1', name: 'read', input: {} }]);
 *
 * toToolResults(results, 'responses').map(({ type, call_id }) => [type, call_id]); // => [['function_call_output', 'call_1']]
 * toToolResults(results, 'anthropic').map(({ role, content }) => [role, content.length]); // => [['user', 1]]
 * ```
 * @see {@link assembleToolCalls} for the way there.
 */
export function toToolResults<P extends ToolProtocol>(
  results: readonly ToolResult[],
  protocol: P,
  customTools: readonly string[] = [],
): ToolResultMessages[P][] {
  names('toToolResults', 'customTools', customTools);
  const make: { readonly [Q in ToolProtocol]: () => ToolResultMessages[Q][] } = {
    chat: () => results.map(({ tool_use_id, content }) => ({ role: 'tool', tool_call_id: tool_use_id, content })),
    responses: () =>
      results.map(({ tool_use_id, name, content }) => ({
        type: customTools.includes(name) ? 'custom_tool_call_output' : 'function_call_output',
        call_id: tool_use_id,
        output: content,
      })),
    anthropic: () => (results.length === 0 ? [] : [{ role: 'user', content: results.map(anthropicBlock) }]),
    'ag-ui': () =>
      results.map((result) => ({
        // One message for each call, so its id makes one for the message.
        id: `result-${result.tool_use_id}`,
        role: 'tool',
        toolCallId: result.tool_use_id,
        content: result.content,
        ...(result.is_error && { error: result.error.message }),
      })),
  };
  return make[check.oneOf(...(Object.keys(make) as ToolProtocol[]))('toToolResults', 'protocol', protocol) as P]();
}

/** Only what the API takes: a result has more. */
function anthropicBlock({ type, tool_use_id, content, is_error }: ToolResult) {
  return { type, tool_use_id, content, is_error };
}

function names(operator: string, option: string, value: unknown): readonly string[] {
  if (Array.isArray(value) && value.every((name) => typeof name === 'string')) return value;
  throw new FlowConfigError(operator, option, 'a list of names', value);
}
