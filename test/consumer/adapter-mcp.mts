import type { CallToolResult, Client, Tool } from '@modelcontextprotocol/client';
import { createToolRunner } from 'sluice';
import { createLimiter } from 'sluice/operators';
import {
  limitMcp,
  type McpCaller,
  type McpCallerOptions,
  type McpCallerSnapshot,
  type McpCallOptions,
  type McpResult,
  type McpTool,
  type McpToolDefinition,
  type McpToolsOptions,
  toolsOf,
} from 'sluice/mcp';

const rules = { limiter: createLimiter({ concurrency: 2 }) };
const tools: readonly McpTool[] = [{ name: 'time', inputSchema: { type: 'object' }, annotations: { readOnlyHint: true } }];
const options: McpCallerOptions<Tool> = { ...rules, maxSilenceMs: 60_000, readConcurrency: 4 };
export const names = (own: McpCallerOptions): number => [...(own.tools ?? []), ...tools].length;

export async function call(client: Client): Promise<CallToolResult> {
  const caller: McpCaller<CallToolResult, Tool> = limitMcp(client, options);
  same<McpCallerSnapshot>()(caller.snapshot());
  const asked = { name: 'time' };
  const how: McpCallOptions = { onProgress: ({ progress }) => void progress.toFixed() };
  const prefix: McpToolsOptions = { prefix: 'clock_' };
  const definitions = await toolsOf(caller, prefix);
  same<readonly McpToolDefinition<CallToolResult>[]>()(definitions);
  const parameters = definitions[0]?.parameters;
  createToolRunner({ tools: definitions }).close();
  const result: McpResult = await caller.callToolAsync(asked, how);
  return parameters === undefined ? { content: [] } : { content: [], isError: result.isError === true };
}
