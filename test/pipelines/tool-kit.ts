import type { Observable } from 'rxjs';
import { map, timer } from 'rxjs';
import * as z from 'zod';
import type { Tool, ToolCall, ToolResult } from '../../src/pipelines/tools/tool-types.js';

/** A tool that takes anything. */
export function tool(name: string, execute: Tool['execute'], options: Partial<Tool> = {}): Tool {
  return { name, description: name, parameters: z.unknown(), execute, ...options };
}

/** A value after some virtual time. */
export function after<R>(ms: number, value: R): Observable<R> {
  return timer(ms).pipe(map(() => value));
}

/** So many calls of a tool, with ids from 0. */
export function calls(count: number, name: string, input: (i: number) => unknown = (i) => i): ToolCall[] {
  return Array.from({ length: count }, (_, i) => ({ id: `${name}-${String(i)}`, name, input: input(i) }));
}

/** The text of a success, the code of a failure. */
export function said(result: ToolResult | undefined): string {
  if (result === undefined) return 'nothing';
  return result.is_error ? result.error.code : result.content;
}

/** An error that may pass. */
export function busy(message = 'busy'): Error {
  return Object.assign(new Error(message), { status: 503 });
}
