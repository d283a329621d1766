import { FlowToolRunner } from './tools/flow-tool-runner.js';
import type { ToolRunner, ToolRunnerOptions } from './tools/runner-types.js';

export { TOOL_RUNNER_DEFAULTS } from './defaults.js';
export type {
  RunToolsArguments,
  RunToolsOptions,
  ToolLoad,
  ToolRunner,
  ToolRunnerOptions,
  ToolRunnerSnapshot,
} from './tools/runner-types.js';

/**
 * Tool calls in, tool results out: what a model asks for is checked, allowed, limited, timed, tried again where that does no harm, and
 * answered, each call by its own id.
 *
 * - **Emits when** a call is over: one result each, a success or a failure the model can act on (`unknown_tool` with the tools there are,
 *   `invalid_arguments` with what is wrong and where, `permission_denied`, `timeout`, `failed` with the tool's message, …).
 * - **Starts when** there is a slot of all and a slot of its tool: calls of a tool in their order, tools beside each other.
 * - **Asks** the `guard` before every attempt, with the slot in hand and the very arguments that are executed, frozen: nothing can change
 *   between its yes and the tool.
 * - **Tries again** only tools that say that it does no harm (`idempotent`, `readOnly`, or their own `retry`), only failures that may pass, and
 *   holds no slot while it waits.
 * - **Holds at most** `maxQueued` calls of each tool that wait, and those under way.
 * - **Completes when** every call has its result.
 * - **On unsubscribe** what waits is gone, the signals of what runs abort, nothing is emitted.
 *
 * @beta
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option or a tool is unknown or out of range.
 * @example
 * ```ts
 * import { createToolRunner, defineTool } from 'sluice';
 * import * as z from 'zod';
 *
 * const notes = new Map([['a.md', 'otters hold hands']]);
 * const read = defineTool({
 *   name: 'read',
 *   description: 'Reads a note.',
 *   parameters: z.object({ path: z.string() }),
 *   readOnly: true,
 *   execute: ({ path }) => notes.get(path) ?? Promise.reject(new Error('no such note')),
 * });
 * const runner = createToolRunner({ tools: [read], guard: ({ input }) => (input as { path: string }).path.endsWith('.md') });
 * const { results, summary } = await runner.runAllAsync([
 *   { id: 'toolu_1', name: 'read', input: { path: 'a.md' } },
 *   { id: 'toolu_2', name: 'read', input: { path: '.env' } },
 *   { id: 'toolu_3', name: 'write', input: {} },
 * ]);
 * results.map((result) => (result.is_error ? result.error.code : result.content)); // => ['otters hold hands', 'permission_denied', 'unknown_tool']
 * summary.failed; // => 2
 * ```
 */
export function createToolRunner<X = unknown>(options: ToolRunnerOptions<X>): ToolRunner<X> {
  return new FlowToolRunner(options);
}
