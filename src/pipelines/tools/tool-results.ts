import { CallbackError } from '../../../operators/index.js';
import { NAME } from './tool-setup.js';
import type { ToolCall, ToolError, ToolFailure, ToolResult, ToolRun, ToolSuccess } from './tool-types.js';

/** What every result says of its call. */
export type CallFacts = Pick<ToolResult, 'index' | 'attempts' | 'durationMs'> & { readonly call: ToolCall };

// Written out twice: a spread costs more than all else that is done for a result.

export function succeeded({ call, index, attempts, durationMs }: CallFacts, value: unknown, text: string, maxChars: number): ToolSuccess {
  const { id: tool_use_id, name } = call;
  const content = cut(text, maxChars);
  const isTruncated = content !== text;
  return { type: 'tool_result', tool_use_id, name, index, attempts, durationMs, content, is_error: false, value, isTruncated };
}

export function failed({ call, index, attempts, durationMs }: CallFacts, error: ToolError, cause?: unknown): ToolFailure {
  const { id: tool_use_id, name } = call;
  const content = JSON.stringify({ error });
  return { type: 'tool_result', tool_use_id, name, index, attempts, durationMs, content, is_error: true, error, cause };
}

/** What a thrown reason has to say, whatever it is. */
export function messageOf(reason: unknown): string {
  let message: unknown = reason;
  try {
    if (typeof reason !== 'string') message = (reason as Partial<Error> | null | undefined)?.message;
  } catch {
    // A getter that throws says nothing.
  }
  return typeof message === 'string' && message !== '' ? message : 'failed without saying why';
}

/** The output of a tool as a text, empty for none. @throws whatever `JSON.stringify` does, or a `TypeError`, about what cannot be written */
export function textOf(value: unknown): string {
  if (typeof value === 'string') return value;
  const text: unknown = value === undefined ? '' : JSON.stringify(value);
  if (typeof text === 'string') return text;
  throw new TypeError(`a ${typeof value} cannot be written as JSON`);
}

/** What the `format` of a tool answered. @throws CallbackError when it is no text */
export function written(text: unknown): string {
  if (typeof text === 'string') return text;
  // The promise is not awaited, and its rejection must not end the process.
  Promise.resolve(text).catch(() => undefined);
  throw new CallbackError(NAME, 'format', 'must return a string');
}

/** A text of at most so many characters, and a line that says how much of it is there. */
function cut(text: string, maxChars: number): string {
  if (text.length <= maxChars) return text;
  // Not through the middle of a character.
  const end = /[\uD800-\uDBFF]/.test(text.charAt(maxChars - 1)) ? maxChars - 1 : maxChars;
  return `${text.slice(0, end)}\n[cut: only the first ${String(end)} of ${String(text.length)} characters]`;
}

/** Results in the order of their calls, counted. */
export function runOf(results: readonly ToolResult[], durationMs: number): ToolRun {
  const details = results.map(({ tool_use_id: id, name: tool, is_error }) => ({ id, tool, success: !is_error }));
  const successful = details.filter(({ success }) => success).length;
  return { results, summary: { total: results.length, successful, failed: results.length - successful, durationMs, details } };
}
