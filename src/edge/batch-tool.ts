import { map } from 'rxjs';
import * as z from 'zod';
import { check } from '../../operators/build.js';
import { FlowConfigError } from '../../operators/index.js';
import { failed, runOf } from '../pipelines/tools/tool-results.js';
import type { Tool, ToolCall, ToolFailure, ToolResult, ToolRun } from '../pipelines/tools/tool-types.js';
import { schema } from './zod.js';

export const BATCH_TOOL_DEFAULTS = {
  name: 'batch',
  /** Of a batch with the other defaults. */
  description: /* @__PURE__ */ describe(10, []),
  maxCalls: 10,
  disallow: [] as readonly string[],
  timeoutMs: Infinity,
} as const;

/** What a model says to call several tools at once, at most ten of them. */
export const batchToolSchema = /* @__PURE__ */ schema(() => schemaOf(BATCH_TOOL_DEFAULTS.maxCalls));

function schemaOf(maxCalls: number) {
  const calls = z
    .array(
      z.object({
        tool: z.string().min(1).describe('Name of the tool'),
        parameters: z.record(z.string(), z.unknown()).describe('Arguments of the tool'),
      }),
    )
    .min(1);
  const bounded = maxCalls === Infinity ? calls : calls.max(maxCalls);
  return z.object({ tool_calls: bounded.describe('Calls that do not depend on each other') });
}

export type BatchToolInput = z.infer<typeof batchToolSchema>;

/** @beta */
export interface BatchToolOptions {
  /** @defaultValue 'batch' */
  readonly name?: string;
  /** What the model reads about it. @defaultValue a description of what it does, when to use it, and what may not be in it */
  readonly description?: string;
  /** Most calls in one batch: a longer one is refused as a whole. @defaultValue 10 */
  readonly maxCalls?: number;
  /** Names of tools that may not be called in a batch: such a call is answered with `permission_denied`, and the others are made. @defaultValue none */
  readonly disallow?: readonly string[];
  /** Longest time for all calls of a batch, in ms. @defaultValue Infinity: each call has its own limit */
  readonly timeoutMs?: number;
}

/**
 * A tool with which a model makes several calls in one, for models that make one call at a time. Its calls run in the same runner: under
 * the same limits, each past the same guard, and aborted with it. It takes no slot itself, so that it cannot be in its own way.
 *
 * The model reads every result, whole, under its number, its tool and its id. `value` of the result is a `ToolRun`: the results of the calls
 * and their summary. Ids are those of the batch call with the number of the call behind it: `toolu_1.2`.
 *
 * @beta
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
 * const { results } = await runner.runAllAsync([{ id: 'toolu_1', name: 'batch', input: { tool_calls } }]);
 * const [, first, second] = results[0]?.content.split('\n\n') ?? [];
 * first; // => '[1] read (toolu_1.1): ok\ntext of a.md'
 * second; // => '[2] read (toolu_1.2): ok\ntext of b.md'
 * ```
 */
export function createBatchTool(options: BatchToolOptions = {}): Tool<BatchToolInput, ToolRun> {
  const { maxCalls, disallow, ...given } = check.options(NAME, options, BATCH_TOOL_DEFAULTS, {
    name: check.nonEmpty,
    description: check.nonEmpty,
    maxCalls: check.count,
    disallow: names,
    timeoutMs: check.positive,
  });
  return {
    ...given,
    description: options.description ?? describe(maxCalls, disallow),
    parameters: schemaOf(maxCalls),
    runsTools: true,
    execute: ({ tool_calls }, { id, run }) => {
      const calls = tool_calls.map(({ tool, parameters }, i) => ({ id: `${id}.${String(i + 1)}`, name: tool, input: parameters }));
      const made = calls.filter(({ name }) => !disallow.includes(name));
      return run(made).pipe(map((ran) => (made.length === calls.length ? ran : withRefused(calls, ran))));
    },
    format: ({ results, summary: { total, successful, failed, durationMs } }) =>
      [
        `${String(total)} calls in ${String(Math.round(durationMs))} ms: ${String(successful)} ok, ${String(failed)} failed`,
        ...results.map(section),
      ].join('\n\n'),
  };
}

const NAME = 'createBatchTool';

function names(operator: string, option: string, value: readonly string[]): readonly string[] {
  if (Array.isArray(value) && value.every((name) => typeof name === 'string' && name !== '')) return [...(value as readonly string[])];
  throw new FlowConfigError(operator, option, 'an array of non-empty strings', value);
}

function describe(maxCalls: number, disallow: readonly string[]): string {
  const upTo = maxCalls === Infinity ? 'several' : `up to ${String(maxCalls)}`;
  const not = ['itself', ...disallow.map((name) => `\`${name}\``)].join(', ');
  return `Makes ${upTo} tool calls side by side. Use it for calls that do not need each other's results, such as reading several files. Every call has its own result; one that fails does not stop the others. It cannot call ${not}.`;
}

/** Every call at its place: those that were made, and those that may not be in a batch. */
function withRefused(calls: readonly ToolCall[], { results, summary }: ToolRun): ToolRun {
  let next = 0;
  const all = calls.map((call, index): ToolResult => {
    const result = results[next];
    if (result?.tool_use_id !== call.id) return refusal(call, index);
    next++;
    return { ...result, index };
  });
  return runOf(all, summary.durationMs);
}

function refusal(call: ToolCall, index: number): ToolFailure {
  const message = `\`${call.name}\` cannot be called in a batch; call it directly`;
  return failed({ call, index, attempts: 0, durationMs: 0 }, { code: 'permission_denied', message });
}

function section({ index, name, tool_use_id: id, is_error, content }: ToolResult): string {
  return `[${String(index + 1)}] ${name} (${id}): ${is_error ? 'failed' : 'ok'}\n${content}`;
}
