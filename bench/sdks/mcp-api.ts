import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { McpServer as McpServer1 } from '@modelcontextprotocol/sdk/server/mcp.js';
import { WebStandardStreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { z } from 'zod';
import type { Refusal } from '../../test/fakes/failing-api.js';
import { serveMcp } from '../../test/fakes/mcp-http.js';
import type { Api, ApiOptions } from './api.js';

/** Waits, and ends early when the call is cancelled. Then says the text again. */
type Tool = (text: string, signal: AbortSignal) => Promise<{ content: { type: 'text'; text: string }[] }>;

/** Answers requests as the web has them. */
type Serve = (request: Request) => Promise<Response>;

/** Of which one says that it only reads. */
const TOOLS = { read: { annotations: { readOnlyHint: true } }, write: {} } as const;
const INFO = { name: 'echo', version: '1' };

/** Version 2 makes a server for each request, and learns from the closed connection that the client has left. */
export function serveV2(tool: Tool): Promise<Serve> {
  const handler = createMcpHandler(() => {
    const server = new McpServer(INFO);
    for (const [name, config] of Object.entries(TOOLS)) {
      server.registerTool(name, { ...config, inputSchema: z.object({ text: z.string() }) }, ({ text }, { mcpReq }) =>
        tool(text, mcpReq.signal),
      );
    }
    return server;
  });
  return Promise.resolve(handler.fetch);
}

/** Version 1 has a server for each session, and is told in a message of its own. */
export async function serveV1(tool: Tool): Promise<Serve> {
  const server = new McpServer1(INFO);
  for (const [name, config] of Object.entries(TOOLS)) {
    server.registerTool(name, { ...config, inputSchema: { text: z.string() } }, ({ text }, { signal }) => tool(text, signal));
  }
  const transport = new WebStandardStreamableHTTPServerTransport({ sessionIdGenerator: randomUUID });
  await server.connect(transport);
  return (request) => transport.handleRequest(request);
}

/** A server of tools over HTTP. What is counted and what fails are its tool calls. */
export async function startMcpApi(makeServe: (tool: Tool) => Promise<Serve>, { latencyMs = 0 }: ApiOptions = {}) {
  const told = { inFlight: 0, maxInFlight: 0, aborted: 0 };
  const serve = await makeServe(async (text, signal) => {
    told.maxInFlight = Math.max(told.maxInFlight, ++told.inFlight);
    try {
      if (latencyMs > 0) await sleep(latencyMs, undefined, { signal });
    } catch (error) {
      told.aborted++;
      throw error;
    } finally {
      told.inFlight--;
    }
    return { content: [{ type: 'text', text }] };
  });
  const http = await serveMcp(serve);
  return Object.assign(told, {
    url: new URL(http.url),
    arrivals: () => http.posts,
    fail: (...failures: readonly Refusal[]) => {
      http.fail(...failures);
    },
    stop: () => http.stop(),
  }) satisfies Api;
}

export type McpApi = Awaited<ReturnType<typeof startMcpApi>>;
