/* eslint-disable @typescript-eslint/no-deprecated -- only the low-level `Server` can page its tools and fail as it is told */
import { randomUUID } from 'node:crypto';
import { Client, ProtocolError, SdkError, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as HttpV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { InMemoryTransport as MemoryV1 } from '@modelcontextprotocol/sdk/inMemory.js';
import { Server as ServerV1 } from '@modelcontextprotocol/sdk/server/index.js';
import { WebStandardStreamableHTTPServerTransport as ServerHttpV1 } from '@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js';
import { CallToolRequestSchema, ListToolsRequestSchema, McpError } from '@modelcontextprotocol/sdk/types.js';
import {
  createMcpHandler,
  InMemoryTransport,
  ProtocolError as ProtocolErrorOfServer,
  Server,
  WebStandardStreamableHTTPServerTransport,
} from '@modelcontextprotocol/server';
import { limitMcp } from '../../src/adapters/mcp.js';
import { limitMcp as createMcpCallerV1 } from '../../src/adapters/mcp-v1.js';
import type { McpCaller, McpCallerOptions } from '../../src/adapters/support/mcp-types.js';
import { McpBrain } from './mcp-brain.js';
import type { McpHttpServer } from './mcp-http.js';
import { serveMcp } from './mcp-http.js';

/** What a client has under way, from its insides. */
export interface ClientInside {
  readonly _timeoutInfo: ReadonlyMap<number, unknown>;
  readonly _progressHandlers: ReadonlyMap<number, unknown>;
  readonly _responseHandlers: ReadonlyMap<number, unknown>;
  fallbackNotificationHandler?: (notification: never) => Promise<void>;
}

/** A server and a client that is connected to it. */
export interface McpWorld {
  readonly brain: McpBrain;
  readonly client: ClientInside;
  readonly http: McpHttpServer | undefined;
  caller(options?: McpCallerOptions<never>): McpCaller;
  /** Errors of the client: `timeout` its own, `refusal` what the server answered. */
  readonly timeout: ErrorClassOf;
  readonly refusal: ErrorClassOf;
  /** The server says that its tools have changed; undefined where no client hears of it. */
  readonly tellChange: (() => Promise<void>) | undefined;
  close(): Promise<void>;
}

type ErrorClassOf = new (...args: never[]) => Error;
type OpenWorld = (fetch?: typeof globalThis.fetch) => Promise<McpWorld>;

const NAMED = { name: 'test', version: '1' };
const CAPABILITIES = { capabilities: { tools: { listChanged: true } } };

function serverOf(brain: McpBrain): Server {
  const server = new Server(NAMED, CAPABILITIES);
  server.setRequestHandler('tools/list', ({ params }) => brain.list(params?.cursor));
  server.setRequestHandler('tools/call', ({ params }, { mcpReq }) => {
    const progressToken = mcpReq._meta?.progressToken;
    return brain.call(params.name, params.arguments ?? {}, {
      signal: mcpReq.signal,
      progress: async (progress) => {
        if (progressToken !== undefined) await mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress } });
      },
      fail: (code, message) => ProtocolErrorOfServer.fromError(code, message),
    });
  });
  return server;
}

function serverV1Of(brain: McpBrain): ServerV1 {
  const server = new ServerV1(NAMED, CAPABILITIES);
  server.setRequestHandler(ListToolsRequestSchema, ({ params }) => brain.list(params?.cursor));
  server.setRequestHandler(CallToolRequestSchema, ({ params }, { signal, sendNotification, _meta }) => {
    const progressToken = _meta?.progressToken;
    return brain.call(params.name, params.arguments ?? {}, {
      signal,
      progress: async (progress) => {
        if (progressToken !== undefined) await sendNotification({ method: 'notifications/progress', params: { progressToken, progress } });
      },
      fail: (code, message) => new McpError(code, message),
    });
  });
  return server;
}

function worldOf(brain: McpBrain, client: Client, rest: Pick<McpWorld, 'http' | 'tellChange' | 'close'>): McpWorld {
  return {
    ...rest,
    brain,
    client: client as unknown as ClientInside,
    caller: (options = {}) => limitMcp(client, options),
    timeout: SdkError,
    refusal: ProtocolError,
  };
}

function worldV1Of(brain: McpBrain, client: ClientV1, rest: Pick<McpWorld, 'http' | 'tellChange' | 'close'>): McpWorld {
  return {
    ...rest,
    brain,
    client: client as unknown as ClientInside,
    caller: (options = {}) => createMcpCallerV1(client, options),
    timeout: McpError,
    refusal: McpError,
  };
}

export const inMemory: Readonly<Record<string, OpenWorld>> = {
  'client 2, in memory': async () => {
    const brain = new McpBrain();
    const [server, client] = [serverOf(brain), new Client(NAMED)];
    const [here, there] = InMemoryTransport.createLinkedPair();
    await Promise.all([server.connect(there), client.connect(here)]);
    return worldOf(brain, client, { http: undefined, tellChange: () => server.sendToolListChanged(), close: () => client.close() });
  },
  'sdk 1, in memory': async () => {
    const brain = new McpBrain();
    const [server, client] = [serverV1Of(brain), new ClientV1(NAMED)];
    const [here, there] = MemoryV1.createLinkedPair();
    await Promise.all([server.connect(there), client.connect(here)]);
    return worldV1Of(brain, client, { http: undefined, tellChange: () => server.sendToolListChanged(), close: () => client.close() });
  },
};

export const overHttp: Readonly<Record<string, OpenWorld>> = {
  'client 2, HTTP': async (fetch = globalThis.fetch) => {
    const brain = new McpBrain();
    const [server, client] = [serverOf(brain), new Client(NAMED)];
    const transport = new WebStandardStreamableHTTPServerTransport({ sessionIdGenerator: randomUUID });
    await server.connect(transport);
    const http = await serveMcp((request) => transport.handleRequest(request));
    await client.connect(new StreamableHTTPClientTransport(new URL(http.url), { fetch }));
    const close = async (): Promise<void> => {
      await client.close();
      await server.close();
      await http.stop();
    };
    return worldOf(brain, client, { http, tellChange: () => server.sendToolListChanged(), close });
  },
  'client 2, HTTP of 2026': async (fetch = globalThis.fetch) => {
    const brain = new McpBrain();
    const client = new Client(NAMED, { versionNegotiation: { mode: 'auto' } });
    const handler = createMcpHandler(() => serverOf(brain));
    const http = await serveMcp((request) => handler.fetch(request));
    await client.connect(new StreamableHTTPClientTransport(new URL(http.url), { fetch }));
    const close = async (): Promise<void> => {
      await client.close();
      await handler.close();
      await http.stop();
    };
    return worldOf(brain, client, { http, tellChange: undefined, close });
  },
  'sdk 1, HTTP': async (fetch = globalThis.fetch) => {
    const brain = new McpBrain();
    const [server, client] = [serverV1Of(brain), new ClientV1(NAMED)];
    const transport = new ServerHttpV1({ sessionIdGenerator: randomUUID });
    await server.connect(transport);
    const http = await serveMcp((request) => transport.handleRequest(request));
    await client.connect(new HttpV1(new URL(http.url), { fetch }));
    const close = async (): Promise<void> => {
      await client.close();
      await server.close();
      await http.stop();
    };
    return worldV1Of(brain, client, { http, tellChange: () => server.sendToolListChanged(), close });
  },
};
