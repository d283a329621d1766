import { check } from '../../../operators/build.js';
import { FlowConfigError } from '../../../operators/index.js';
import type { ToolProtocol } from './tool-formats.js';
import type { AnyTool } from './tool-types.js';

/** A JSON Schema of the arguments of a tool, which are always an object. */
export type ToolJsonSchema = { type: 'object'; [keyword: string]: unknown };

/** What a request says about a tool that the model may call, by protocol. */
export interface ToolDefinitions {
  readonly chat: { type: 'function'; function: { name: string; description: string; parameters: ToolJsonSchema } };
  readonly responses: { type: 'function'; name: string; description: string; parameters: ToolJsonSchema; strict: boolean };
  readonly anthropic: { name: string; description: string; input_schema: ToolJsonSchema };
  readonly 'ag-ui': { name: string; description: string; parameters: ToolJsonSchema };
}

const NAME = 'toToolDefinitions';
/** What all providers read. */
const TARGET = { target: 'draft-2020-12' } as const;

/**
 * What a request says about the tools that a model may call, in the shape of its protocol: pass it as `tools`. The types fit the clients of the
 * protocols (`openai`, `@anthropic-ai/sdk`, `@ag-ui/client`) and `createModelCaller` as they are. Fields with a default value are optional for
 * the model. In the Responses API `slidingWindow` is false, because a strict schema has no optional fields.
 *
 * @beta
 * @param tools - `runner.tools`, the `tools` of an agent turn's context, or tools made with `defineTool`
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) for an unknown protocol, or when neither `jsonSchema` nor the `parameters` of a tool give the JSON Schema of an object
 * @example
 * ```ts
 * import { defineTool, toToolDefinitions } from 'sluice';
 * import * as z from 'zod';
 *
 * const read = defineTool({
 *   name: 'read',
 *   description: 'Reads a file.',
 *   parameters: z.object({ path: z.string() }),
 *   execute: ({ path }) => `text of ${path}`,
 * });
 * const [definition] = toToolDefinitions([read], 'chat');
 * definition?.function.name; // => 'read'
 * definition?.function.parameters.required; // => ['path']
 * ```
 * @see {@link toToolResults} for what goes back after the calls.
 */
export function toToolDefinitions<P extends ToolProtocol>(tools: readonly AnyTool[], protocol: P): ToolDefinitions[P][] {
  if (!Array.isArray(tools)) throw new FlowConfigError(NAME, 'tools', 'a list of tools', tools);
  const write = writers[check.oneOf(...PROTOCOLS)(NAME, 'protocol', protocol) as P];
  return (tools as readonly AnyTool[]).map((tool, i) => write(tool, objectSchema(`tools[${String(i)}]`, tool)));
}

const writers: { readonly [P in ToolProtocol]: (tool: AnyTool, schema: ToolJsonSchema) => ToolDefinitions[P] } = {
  chat: ({ name, description }, parameters) => ({ type: 'function', function: { name, description, parameters } }),
  responses: ({ name, description }, parameters) => ({ type: 'function', name, description, parameters, strict: false }),
  anthropic: ({ name, description }, input_schema) => ({ name, description, input_schema }),
  'ag-ui': ({ name, description }, parameters) => ({ name, description, parameters }),
};

const PROTOCOLS = Object.keys(writers) as ToolProtocol[];

/** Where schemas say it: Standard JSON Schema, and the tools of an MCP server. */
interface Described {
  readonly inputSchema?: unknown;
  readonly '~standard'?: { readonly jsonSchema?: { readonly input?: (options: typeof TARGET) => unknown } };
}

function schemaIn({ jsonSchema, parameters }: AnyTool): unknown {
  if (jsonSchema !== undefined) return jsonSchema;
  const { inputSchema, '~standard': standard } = parameters as Described;
  return inputSchema ?? standard?.jsonSchema?.input?.(TARGET);
}

function objectSchema(at: string, tool: AnyTool): ToolJsonSchema {
  const isGiven = (Object(tool) as AnyTool).jsonSchema !== undefined;
  const option = `${at}.${isGiven ? 'jsonSchema' : 'parameters'}`;
  const wanted = isGiven
    ? 'the JSON Schema of an object'
    : 'a schema that gives the JSON Schema of an object; the field `jsonSchema` of the tool can give it instead';
  let schema: unknown;
  try {
    schema = schemaIn(tool);
  } catch (error) {
    throw new FlowConfigError(NAME, option, wanted, error, `an error: ${(error as Partial<Error> | null)?.message ?? String(error)}`);
  }
  const { $schema: _, ...keywords } = Object(schema) as Readonly<Record<string, unknown>>;
  if (keywords['type'] === 'object') return { ...keywords, type: 'object' };
  if (isGiven) throw new FlowConfigError(NAME, option, wanted, schema);
  throw new FlowConfigError(NAME, option, wanted, schema, schema === undefined ? 'none' : 'another one');
}
