import type { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { DEFAULT_REQUEST_TIMEOUT_MSEC } from '@modelcontextprotocol/sdk/shared/protocol.js';
import type { CallToolResult, Tool } from '@modelcontextprotocol/sdk/types.js';
import { ErrorCode, McpError } from '@modelcontextprotocol/sdk/types.js';
import { FlowMcpCaller } from './support/mcp-calls.js';
import type { McpRequest } from './support/mcp-link.js';
import { listenForTools } from './support/mcp-link.js';
import { checkClient, MCP_RULES } from './support/mcp-options.js';
import type { McpCaller, McpCallerOptions } from './support/mcp-types.js';

export type { McpToolDefinition, McpToolsOptions } from './support/mcp-tools.js';
export { toolsOf } from './support/mcp-tools.js';
export type { McpCaller, McpCallerOptions, McpCallerSnapshot, McpCallOptions, McpResult, McpTool } from './support/mcp-types.js';

/** What {@link limitMcp} does when an option is left out; the rest is that of `policy`. */
const DEFAULTS = /* @__PURE__ */ (() => ({ ...MCP_RULES, maxSilenceMs: DEFAULT_REQUEST_TIMEOUT_MSEC }) as const)();

/** A server that never comes to its last page is asked no further; the client of version 2 stops there as well. */
const MAX_PAGES = 64;

/**
 * Calls the tools of an MCP server through its client (`@modelcontextprotocol/sdk` 1), exactly as `limitMcp` of `sluice/mcp` does for
 * version 2. The client's own error here is `McpError`.
 *
 * @beta
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range.
 * @example
 * ```ts
 * import { Client } from '@modelcontextprotocol/sdk/client/index.js';
 * import { InMemoryTransport } from '@modelcontextprotocol/sdk/inMemory.js';
 * import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
 * import { limitMcp } from 'sluice/mcp/v1';
 *
 * const [here, there] = InMemoryTransport.createLinkedPair();
 * const server = new McpServer({ name: 'clock', version: '1' });
 * server.registerTool('time', { annotations: { readOnlyHint: true } }, () => ({ content: [{ type: 'text', text: 'noon' }] }));
 * const client = new Client({ name: 'app', version: '1' });
 * await Promise.all([server.connect(there), client.connect(here)]);
 *
 * const caller = limitMcp(client, { readConcurrency: 4 });
 * (await caller.callToolAsync({ name: 'time' })).content; // => [{ type: 'text', text: 'noon' }]
 * await client.close();
 * ```
 */
export function limitMcp(client: Client, options: McpCallerOptions<Tool> = {}): McpCaller<CallToolResult, Tool> {
  checkClient(client);
  return new FlowMcpCaller<CallToolResult, Tool>(
    {
      client,
      silent: (timeout) => McpError.fromError(ErrorCode.RequestTimeout, 'Request timed out', { timeout }),
      // Without a schema of one's own, the result has the shape of today.
      call: async (call, request) => (await client.callTool(call, undefined, request)) as CallToolResult,
      list: (request) => allPages(client, request),
      onToolsChanged: (listener) => listenForTools(client, listener),
    },
    options,
    DEFAULTS.maxSilenceMs,
  );
}

async function allPages(client: Client, request: McpRequest): Promise<readonly Tool[]> {
  const tools: Tool[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < MAX_PAGES; page++) {
    // The client never stops listening to a signal, so every page has one of its own.
    const signal = AbortSignal.any([request.signal]);
    const { tools: found, nextCursor } = await client.listTools({ cursor }, { ...request, signal });
    tools.push(...found);
    if (nextCursor === undefined) break;
    cursor = nextCursor;
  }
  return tools;
}
