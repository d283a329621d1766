import type { CallToolResult, Client, Tool } from '@modelcontextprotocol/client';
import { DEFAULT_REQUEST_TIMEOUT_MSEC, SdkError, SdkErrorCode } from '@modelcontextprotocol/client';
import { FlowMcpCaller } from './support/mcp-calls.js';
import { listenForTools } from './support/mcp-link.js';
import { checkClient, MCP_RULES } from './support/mcp-options.js';
import type { McpCaller, McpCallerOptions } from './support/mcp-types.js';

export type { McpToolDefinition, McpToolsOptions } from './support/mcp-tools.js';
export { toolsOf } from './support/mcp-tools.js';
export type { McpCaller, McpCallerOptions, McpCallerSnapshot, McpCallOptions, McpResult, McpTool } from './support/mcp-types.js';

/** What {@link limitMcp} does when an option is left out; the rest is that of `policy`. */
const DEFAULTS = /* @__PURE__ */ (() => ({ ...MCP_RULES, maxSilenceMs: DEFAULT_REQUEST_TIMEOUT_MSEC }) as const)();

/**
 * Calls the tools of an MCP server through its client (`@modelcontextprotocol/client` 2): read-only tools beside each other, all others one
 * after the other, with retries where they do no harm. For version 1 of the SDK take `sluice/mcp/v1`.
 *
 * - **Order:** the first call waits until the server has said what its tools are (unless `tools` does). Then a tool with `readOnlyHint` waits
 *   for one of `readConcurrency` places, every other one for one of `writeConcurrency`. Under a shared `limiter` each attempt counts there, too.
 * - **Timeout:** the silence is counted from when a call is sent. Progress, and a request of the server (elicitation, sampling, roots), begin it anew; while
 *   such a request waits for its answer it is not counted. A call during which the server asked the user is not made again.
 * - **Tries again** tools with `readOnlyHint` or `idempotentHint` after what may pass: timeouts, broken connections, errors inside the server.
 *   Any other tool may have done its work by then, and is only sent again when the server refused it (429) or was never reached.
 * - **Emits** the result, also one with `isError`: the tool ran, and says so.
 * - **Errors** with the client's own error (`SdkError`, `ProtocolError`), with the reason of the signal that ended the call, or with
 *   `DeadlineError`, `AttemptTimeoutError`, `BreakerOpenError`, `OverflowError`, `RateLimitError`, `ClosedError`.
 * - **On unsubscribe** what waits is never sent, and the server is told to cancel what runs; an abort is never taken for a timeout.
 * - **Listens** for changed tools with the client's `fallbackNotificationHandler`, which it calls on. A client with a handler of its own for
 *   that (`listChanged`) keeps it: call `refreshTools` there.
 *
 * @stable
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when an option is unknown or out of range.
 * @example
 * ```ts
 * import { Client, InMemoryTransport } from '@modelcontextprotocol/client';
 * import { McpServer } from '@modelcontextprotocol/server';
 * import { limitMcp } from 'sluice/mcp';
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
      silent: (timeout) => new SdkError(SdkErrorCode.RequestTimeout, 'Request timed out', { timeout }),
      call: (call, request) => client.callTool(call, request),
      // Walks the pages itself. What it remembers may be older than the change that made us ask.
      list: async (request) => (await client.listTools(undefined, { ...request, cacheMode: 'refresh' })).tools,
      onToolsChanged: (listener) => listenForTools(client, listener),
    },
    options,
    DEFAULTS.maxSilenceMs,
  );
}
