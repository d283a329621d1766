import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { z } from 'zod';

const URL_OF_SERVER = 'http://127.0.0.1/mcp';

/**
 * A client whose server has one tool, `ask`, in front of an API that refuses calls: what it answers to the text of a call is what the server answers, unless it
 * lets the call through.
 *
 * @param gate - sees the text of each call first
 * @param observe - sees all answers
 */
export async function clientBehind(
  gate: (text: string, signal: AbortSignal | null) => Promise<Response>,
  observe: (response: Response) => void,
) {
  const handler = createMcpHandler(() => {
    const server = new McpServer({ name: 'asking', version: '1' });
    const tool = { inputSchema: z.object({ text: z.string() }), annotations: { readOnlyHint: true } };
    server.registerTool('ask', tool, ({ text }) => ({ content: [{ type: 'text', text }] }));
    return server;
  });
  const fetch = async (url: URL | string, init: RequestInit = {}): Promise<Response> => {
    const { method, params } = JSON.parse(typeof init.body === 'string' ? init.body : '{}') as {
      readonly method?: string;
      readonly params?: { readonly arguments: { readonly text: string } };
    };
    if (method === 'tools/call') {
      const response = await gate(params?.arguments.text ?? '', init.signal ?? null);
      observe(response);
      if (!response.ok) return response;
    }
    return handler.fetch(new Request(url, init));
  };
  const client = new Client({ name: 'app', version: '1' });
  await client.connect(new StreamableHTTPClientTransport(new URL(URL_OF_SERVER), { fetch }));
  return client;
}
