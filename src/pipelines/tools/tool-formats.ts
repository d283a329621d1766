import { FlowConfigError } from '../../../operators/errors.js';
import { checked, oneOf } from '../../../operators/toolkit.js';
import type { ToolCall, ToolResult } from './tool-types.js';

/** A tool call as the chat completions of OpenAI have it: of a function, or of a custom tool, whose input is a text. */
export type OpenAIToolCall =
  | { readonly id: string; readonly type?: string; readonly function: { readonly name: string; readonly arguments: string } }
  | { readonly id: string; readonly type?: string; readonly custom: { readonly name: string; readonly input: string } };

/**
 * Calls as `createToolRunner` takes them, of the `tool_calls` of an OpenAI message; none when it has none. Arguments that are no JSON stay a
 * text, which the schema of the tool refuses; those that the server has parsed itself stay as they are.
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
    const { name, arguments: given }: { readonly name: string; readonly arguments: unknown } = call.function;
    return { id, name, input: typeof given === 'string' ? inputOf(given) : (given ?? {}) };
  });
}

/** The input of a call, of the text a model wrote. What is no JSON stays a text. */
export function inputOf(text: string): unknown {
  try {
    // No arguments at all are often an empty text.
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

/** Whose messages {@link toToolResults} makes: chat completions, the Responses API, Anthropic's messages, AG-UI. */
export type ToolProtocol = keyof ToolResultMessages;

/** A message, or an item of the input, that hands results back, by protocol. */
export interface ToolResultMessages {
  readonly chat: ReturnType<typeof toOpenAI>;
  readonly responses: {
    readonly type: 'function_call_output' | 'custom_tool_call_output';
    readonly call_id: string;
    readonly output: string;
  };
  readonly anthropic: { readonly role: 'user'; readonly content: ReturnType<typeof toAnthropic>[] };
  readonly 'ag-ui': {
    readonly id: string;
    readonly role: 'tool';
    readonly toolCallId: string;
    readonly content: string;
    readonly error?: string;
  };
}

export interface ToToolResultsOptions {
  /** Names of tools that take a text and no JSON; the Responses API wants their results marked. @defaultValue none */
  readonly customTools?: readonly string[];
}

/**
 * What the next request says about the tool calls that the model asked for, in the shape of its protocol: messages, or items of the input, to be
 * added behind the message that has the calls. In the order of the results; none for no results.
 *
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) for a protocol that is none.
 * @example
 * ```ts
 * import { createToolRunner, toToolResults } from 'sluice';
 *
 * const runner = createToolRunner({ tools: [] });
 * const { results } = await runner.runAll([{ id: 'call_1', name: 'read', input: {} }]);
 *
 * toToolResults(results, 'responses').map(({ type, call_id }) => [type, call_id]); // => [['function_call_output', 'call_1']]
 * toToolResults(results, 'anthropic').map(({ role, content }) => [role, content.length]); // => [['user', 1]]
 * ```
 * @see {@link assembleToolCalls} for the way there.
 */
export function toToolResults<P extends ToolProtocol>(
  results: readonly ToolResult[],
  protocol: P,
  options: ToToolResultsOptions = {},
): ToolResultMessages[P][] {
  const { customTools } = checked('toToolResults', options, { customTools: [] }, { customTools: names });
  const make: { readonly [Q in ToolProtocol]: () => ToolResultMessages[Q][] } = {
    chat: () => results.map(toOpenAI),
    responses: () =>
      results.map(({ tool_use_id, name, content }) => ({
        type: customTools.includes(name) ? 'custom_tool_call_output' : 'function_call_output',
        call_id: tool_use_id,
        output: content,
      })),
    anthropic: () => (results.length === 0 ? [] : [{ role: 'user', content: results.map(toAnthropic) }]),
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
  return make[oneOf(...(Object.keys(make) as ToolProtocol[]))('toToolResults', 'protocol', protocol) as P]();
}

function names(operator: string, option: string, value: unknown): readonly string[] {
  if (Array.isArray(value) && value.every((name) => typeof name === 'string')) return value;
  throw new FlowConfigError(operator, option, 'a list of names', value);
}
