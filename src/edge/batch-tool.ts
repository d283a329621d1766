import * as z from 'zod';
import { checked, filled, positive } from '../../operators/toolkit.js';
import type { Tool, ToolResult, ToolRun } from '../pipelines/tools/tool-types.js';

/** Most calls in one batch. */
const MOST_CALLS = 10;

/** What a model says to call several tools at once. */
export const batchToolSchema = /* @__PURE__ */ (() =>
  z.object({
    tool_calls: z
      .array(
        z.object({
          tool: z.string().min(1).describe('Name of the tool'),
          parameters: z.record(z.string(), z.unknown()).describe('Arguments of the tool'),
        }),
      )
      .min(1)
      .max(MOST_CALLS)
      .describe('Calls that do not depend on each other'),
  }))();

export type BatchToolInput = z.infer<typeof batchToolSchema>;

export interface BatchToolOptions {
  /** @defaultValue 'batch' */
  readonly name?: string;
  /** What the model reads about it. @defaultValue a description of what it does and when to use it */
  readonly description?: string;
  /** Longest time for all calls of a batch, in ms. @defaultValue Infinity: each call has its own limit */
  readonly timeoutMs?: number;
}

export const BATCH_TOOL_DEFAULTS = {
  name: 'batch',
  description: `Makes up to ${String(MOST_CALLS)} tool calls side by side. Use it for calls that do not need each other's results, such as reading several files. Every call has its own result; one that fails does not stop the others. It cannot call itself.`,
  timeoutMs: Infinity,
} as const;

/**
 * A tool with which a model makes several calls in one, for models that make one call at a time. Its calls run in the same runner: under
 * the same limits, each past the same guard, and aborted with it. It takes no slot itself, so that it cannot be in its own way.
 *
 * The model reads every result, whole, under its number, its tool and its id. `value` of the result is a `ToolRun`: the results of the calls
 * and their summary. Ids are those of the batch call with the number of the call behind it: `toolu_1.2`.
 *
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) when an option is unknown or out of range.
 * @example
 * ```ts
 * import { createToolRunner, defineTool } from 'sluice';
 * import { createBatchTool } from 'sluice/edge';
 * import * as z from 'zod';
 *
 * const parameters = z.object({ path: z.string() });
 * const read = defineTool({ name: 'read', description: 'Reads a note.', parameters, execute: ({ path }) => `text of ${path}` });
 * const runner = createToolRunner({ tools: [read, createBatchTool()] });
 * const tool_calls = ['a.md', 'b.md'].map((path) => ({ tool: 'read', parameters: { path } }));
 * const { results } = await runner.runAll([{ id: 'toolu_1', name: 'batch', input: { tool_calls } }]);
 * const [, first, second] = results[0]?.content.split('\n\n') ?? [];
 * first; // => '[1] read (toolu_1.1): ok\ntext of a.md'
 * second; // => '[2] read (toolu_1.2): ok\ntext of b.md'
 * ```
 */
export function createBatchTool(options: BatchToolOptions = {}): Tool<BatchToolInput, ToolRun> {
  return {
    ...checked('createBatchTool', options, BATCH_TOOL_DEFAULTS, { name: filled, description: filled, timeoutMs: positive }),
    parameters: batchToolSchema,
    runsTools: true,
    execute: ({ tool_calls }, { id, run }) =>
      run(tool_calls.map(({ tool, parameters }, i) => ({ id: `${id}.${String(i + 1)}`, name: tool, input: parameters }))),
    format: ({ results, summary: { total, successful, failed, durationMs } }) =>
      [
        `${String(total)} calls in ${String(Math.round(durationMs))} ms: ${String(successful)} ok, ${String(failed)} failed`,
        ...results.map(section),
      ].join('\n\n'),
  };
}

function section({ index, name, tool_use_id: id, is_error, content }: ToolResult): string {
  return `[${String(index + 1)}] ${name} (${id}): ${is_error ? 'failed' : 'ok'}\n${content}`;
}
