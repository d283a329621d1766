import type { CallToolResult, Client, Tool as McpToolOfClient } from '@modelcontextprotocol/client';
import type { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import type { CallToolResult as ResultV1, Tool as ToolV1 } from '@modelcontextprotocol/sdk/types.js';
import type { Observable } from 'rxjs';
import { describe, expectTypeOf, it } from 'vitest';
import type { McpCaller, McpCallOptions, McpToolDefinition } from '../../src/adapters/mcp.js';
import { limitMcp, toolsOf } from '../../src/adapters/mcp.js';
import { limitMcp as createMcpCallerV1, toolsOf as toolsOfV1 } from '../../src/adapters/mcp-v1.js';
import { createToolRunner } from '../../src/pipelines/create-tool-runner.js';
import type { Tool } from '../../src/pipelines/tools/tool-types.js';

declare const client: Client;
declare const clientV1: ClientV1;

describe('limitMcp', () => {
  it('has the results and tools of its client', () => {
    const caller = limitMcp(client);
    expectTypeOf(caller).toEqualTypeOf<McpCaller<CallToolResult, McpToolOfClient>>();
    expectTypeOf(caller.callTool({ name: 'a' })).toEqualTypeOf<Observable<CallToolResult>>();
    expectTypeOf(caller.listTools()).resolves.toEqualTypeOf<readonly McpToolOfClient[]>();
    const callerV1 = createMcpCallerV1(clientV1);
    expectTypeOf(callerV1.callToolAsync({ name: 'a', arguments: { n: 1 } })).resolves.toEqualTypeOf<ResultV1>();
    expectTypeOf(callerV1.listTools()).resolves.toEqualTypeOf<readonly ToolV1[]>();
  });

  it('takes the tools that its client lists', async () => {
    limitMcp(client, { tools: (await client.listTools()).tools, timeoutMs: 5 });
    createMcpCallerV1(clientV1, { tools: [] });
    // @ts-expect-error no list of tools
    limitMcp(client, { tools: 'look' });
    // @ts-expect-error not an option
    limitMcp(client, { timeout: 5 });
    // @ts-expect-error -- a name is no client
    limitMcp('files');
  });

  it('tells the types of a call', () => {
    const how: McpCallOptions = {
      onProgress: (progress) => {
        expectTypeOf(progress.total).toEqualTypeOf<number | undefined>();
      },
    };
    const caller = limitMcp(client);
    void caller.callTool({ name: 'a' }, how);
    // @ts-expect-error -- there is no name
    void caller.callTool({ arguments: {} });
    // @ts-expect-error -- that is the client's name for it
    void caller.callTool({ name: 'a' }, { timeout: 5 });
  });

  it('makes tools for a runner', async () => {
    const tools = await toolsOf(limitMcp(client));
    expectTypeOf(tools).toEqualTypeOf<readonly McpToolDefinition<CallToolResult>[]>();
    expectTypeOf(tools[0]!).toExtend<Tool<Record<string, unknown>, CallToolResult>>();
    createToolRunner({ tools: [...tools, ...(await toolsOfV1(createMcpCallerV1(clientV1), { prefix: 'b_' }))] });
  });
});
