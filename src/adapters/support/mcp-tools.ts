import { map } from 'rxjs';
import { check } from '../../../operators/build.js';
import type { SchemaAnswer, Tool } from '../../pipelines/tools/tool-types.js';
import type { McpCaller, McpResult, McpTool } from './mcp-types.js';

type Arguments = Record<string, unknown>;

/**
 * A tool of a server, for `createToolRunner`.
 * @stable
 */
export interface McpToolDefinition<R extends McpResult> extends Tool<Arguments, R> {
  readonly parameters: McpParameters;
}

/** Lets every object pass: the server checks the arguments itself. */
export interface McpParameters {
  readonly '~standard': { readonly validate: (input: unknown) => SchemaAnswer<Arguments> };
  /** JSON Schema of the arguments, as the server gave it: for the tool definition that a model reads. */
  readonly inputSchema: object;
}

/** @stable */
export interface McpToolsOptions {
  /** Put in front of every name, so that tools of several servers have different ones. @defaultValue none */
  readonly prefix?: string;
}

const NAME = 'toolsOf';

/**
 * The tools of a server as a runner takes them, beside your own: `createToolRunner({ tools: [...await toolsOf(caller), ...others] })`.
 *
 * - **Calls** go through the caller: its lanes, its retries, its time limits. The runner neither retries nor applies time limits.
 * - **A result with `isError`** is a failed call: the model gets its text.
 * - **`content`** for the model is the text of the result, with `[image]` or the like for what is no text; `value` is the result as it came.
 *
 * Give the runner a `concurrency` that is large enough, or calls that wait for their turn at a server take its slots.
 *
 * @stable
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`), as a rejection, when an option is unknown or out of range; else what `listTools` rejects with.
 * @example
 * ```ts
 * import { Client, InMemoryTransport } from '@modelcontextprotocol/client';
 * import { McpServer } from '@modelcontextprotocol/server';
 * import { createToolRunner } from 'sluice';
 * import { limitMcp, toolsOf } from 'sluice/mcp';
 *
 * const [here, there] = InMemoryTransport.createLinkedPair();
 * const server = new McpServer({ name: 'clock', version: '1' });
 * server.registerTool('time', { annotations: { readOnlyHint: true } }, () => ({ content: [{ type: 'text', text: 'noon' }] }));
 * const client = new Client({ name: 'app', version: '1' });
 * await Promise.all([server.connect(there), client.connect(here)]);
 *
 * const tools = await toolsOf(limitMcp(client), { prefix: 'clock_' });
 * const runner = createToolRunner({ tools, concurrency: Infinity });
 * const { results } = await runner.runAllAsync([{ id: 'toolu_1', name: 'clock_time', input: {} }]);
 * results[0]?.content; // => 'noon'
 * await client.close();
 * ```
 */
export async function toolsOf<R extends McpResult>(
  caller: McpCaller<R>,
  options: McpToolsOptions = {},
): Promise<readonly McpToolDefinition<R>[]> {
  check.onlyKnown(NAME, options, ['prefix']);
  const { prefix } = options;
  const inFront = prefix === undefined ? '' : check.nonEmpty(NAME, 'prefix', prefix);
  return (await caller.listTools()).map((tool) => definition(caller, tool, inFront));
}

function definition<R extends McpResult>(caller: McpCaller<R>, tool: McpTool, prefix: string): McpToolDefinition<R> {
  const { name, title, description, annotations, inputSchema } = tool;
  return {
    name: prefix + name,
    description: description || title || name,
    parameters: { '~standard': { validate: anyObject }, inputSchema },
    readOnly: annotations?.readOnlyHint === true,
    idempotent: annotations?.readOnlyHint === true || annotations?.idempotentHint === true,
    // The caller does both.
    retry: false,
    timeoutMs: Infinity,
    execute: (args, { signal }) => caller.callTool({ name, arguments: args }, { signal }).pipe(map(succeeded)),
    format: textOf,
  };
}

function anyObject(input: unknown): SchemaAnswer<Arguments> {
  if (typeof input === 'object' && input !== null && !Array.isArray(input)) return { value: input as Arguments };
  return { issues: [{ message: 'expected an object' }] };
}

function succeeded<R extends McpResult>(result: R): R {
  if (result.isError === true) throw new Error(textOf(result), { cause: result });
  return result;
}

function textOf({ content, structuredContent }: McpResult): string {
  if (content.length === 0 && structuredContent !== undefined) return JSON.stringify(structuredContent);
  return content.map(({ type, text }) => (typeof text === 'string' ? text : `[${type}]`)).join('\n');
}
