import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import Anthropic from '@anthropic-ai/sdk';
import { ChatOpenAI } from '@langchain/openai';
import { Client as Mcp, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { Client as Mcp1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as HttpTransport1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { Model } from '@openai/agents';
import { Agent, OpenAIProvider, Runner } from '@openai/agents';
import type { LanguageModel } from 'ai';
import { generateText, streamText } from 'ai';
import { createAgent } from 'langchain';
import OpenAI from 'openai';
import type { Limiter } from '../../operators/options/limiter.js';
import { limitLanguageModel } from '../../src/adapters/ai-sdk.js';
import { limitAnthropic } from '../../src/adapters/anthropic.js';
import { limitFetch } from '../../src/adapters/fetch.js';
import { createModelMiddleware } from '../../src/adapters/langchain-agents.js';
import { limitMcp } from '../../src/adapters/mcp.js';
import { limitMcp as createMcp1Caller } from '../../src/adapters/mcp-v1.js';
import { limitOpenAI } from '../../src/adapters/openai.js';
import { limitModel } from '../../src/adapters/openai-agents.js';
import type { ModelApi } from '../../test/fakes/model-api.js';
import { startModelApi } from '../../test/fakes/model-api.js';
import type { ApiOptions, Client, Sdk, Session } from './api.js';
import { CHUNKS } from './api.js';
import type { McpApi } from './mcp-api.js';
import { serveV1, serveV2, startMcpApi } from './mcp-api.js';

const KEY = { apiKey: 'secret' };
const MODEL = { model: 'm' };

const asked = (text: string) => ({ ...MODEL, messages: [{ role: 'user' as const, content: text }] });

async function readAll(stream: AsyncIterable<unknown>): Promise<void> {
  for await (const _part of stream);
}

/** An SDK for models; `make` is told a limiter when it is to keep to one. */
function ofModels(name: string, make: (api: ModelApi, limiter?: Limiter) => Client): Required<Sdk> {
  const open = async (options: ApiOptions, limiter?: Limiter): Promise<Session> => {
    const api = await startModelApi({ ...options, chunks: CHUNKS });
    const arrivals = (): readonly number[] => api.requests.map(({ at }) => at);
    return { isOfModel: true, api: Object.assign(api, { arrivals }), close: () => api.stop(), ...make(api, limiter) };
  };
  return { name, alone: open, limited: open };
}

/** A client of MCP; `connect` gives what calls a tool, and what ends the connection. */
function ofTools(
  name: string,
  serve: Parameters<typeof startMcpApi>[0],
  connect: (api: McpApi, limiter?: Limiter) => Promise<Client & Pick<Session, 'close'>>,
): Sdk {
  const open = async (options: ApiOptions, limiter?: Limiter): Promise<Session> => {
    const api = await startMcpApi(serve, options);
    const { close, ...client } = await connect(api, limiter);
    return {
      isOfModel: false,
      api,
      ...client,
      close: async () => {
        await close();
        await api.stop();
      },
    };
  };
  return { name, alone: open, limited: open };
}

const overFetch = ofModels('`fetch`', ({ baseUrl }, limiter) => {
  const send = limiter ? limitFetch({ limiter }) : fetch;
  const post = async (body: object, signal: AbortSignal): Promise<void> => {
    const response = await send(`${baseUrl}/chat/completions`, { method: 'POST', body: JSON.stringify(body), signal });
    await response.text();
    if (!response.ok) throw new Error(String(response.status));
  };
  return {
    call: (text, signal) => post(asked(text), signal),
    stream: (text, signal) => post({ ...asked(text), stream: true }, signal),
  };
});

const openai = ofModels('`openai`', ({ baseUrl }, limiter) => {
  const client = new OpenAI({ ...KEY, baseURL: baseUrl });
  const { completions } = (limiter ? limitOpenAI(client, { limiter }) : client).chat;
  return {
    call: (text, signal) => completions.create(asked(text), { signal }),
    stream: async (text, signal) => readAll(await completions.create({ ...asked(text), stream: true }, { signal })),
  };
});

const anthropic = ofModels('`@anthropic-ai/sdk`', ({ url }, limiter) => {
  const client = new Anthropic({ ...KEY, baseURL: url });
  const { messages } = limiter ? limitAnthropic(client, { limiter }) : client;
  return {
    call: (text, signal) => messages.create({ ...asked(text), max_tokens: 100 }, { signal }),
    stream: async (text, signal) => readAll(await messages.create({ ...asked(text), max_tokens: 100, stream: true }, { signal })),
  };
});

const ai = ofModels('`ai`', ({ baseUrl }, limiter) => {
  const plain = createOpenAICompatible({ name: 'local', baseURL: baseUrl })('m');
  const model: LanguageModel = limiter ? limitLanguageModel(plain, { limiter }) : plain;
  return {
    call: (prompt, abortSignal) => generateText({ model, prompt, abortSignal }),
    stream: (prompt, abortSignal) => readAll(streamText({ model, prompt, abortSignal }).textStream),
  };
});

const langchain = (name: string, own: { readonly maxConcurrency?: number } = {}): Required<Sdk> =>
  ofModels(name, ({ baseUrl }, limiter) => {
    const model = new ChatOpenAI({
      ...KEY,
      ...MODEL,
      ...own,
      ...(limiter && { maxRetries: 0 }),
      configuration: { baseURL: baseUrl, ...(limiter && { fetch: limitFetch({ limiter }) }) },
    });
    return {
      call: (text, signal) => model.invoke(text, { signal }),
      stream: async (text, signal) => readAll(await model.stream(text, { signal })),
    };
  });

const langchainAgent = ofModels('`langchain`, `createAgent`', ({ baseUrl }, limiter) => {
  const model = new ChatOpenAI({ ...KEY, ...MODEL, configuration: { baseURL: baseUrl } });
  const agent = createAgent({ model, tools: [], middleware: limiter ? [createModelMiddleware({ limiter })] : [] });
  return { call: (text, signal) => agent.invoke({ messages: [{ role: 'user', content: text }] }, { signal }) };
});

const agents = ofModels('`@openai/agents`', ({ baseUrl }, limiter) => {
  const provider = new OpenAIProvider({ ...KEY, baseURL: baseUrl });
  const limited = (model: Model): Model => (limiter ? limitModel(model, { limiter }) : model);
  const modelProvider = { getModel: async (): Promise<Model> => limited(await provider.getModel('m')) };
  const runner = new Runner({ modelProvider, tracingDisabled: true });
  const agent = new Agent({ name: 'Echo', model: 'm' });
  return {
    call: (text, signal) => runner.run(agent, text, { signal }),
    stream: async (text, signal) => {
      const run = await runner.run(agent, text, { stream: true, signal });
      await readAll(run);
      await run.completed;
    },
  };
});

const INFO = { name: 'bench', version: '1' };

const mcp = (name: string, tool: 'read' | 'write', options: { readonly isObserved?: boolean } = {}): Sdk =>
  ofTools(name, serveV2, async ({ url }, limiter) => {
    const client = new Mcp(INFO, { versionNegotiation: { mode: { pin: '2026-07-28' } } });
    const observed: typeof fetch = async (input, init) => {
      const response = await fetch(input, init);
      limiter?.observe(response);
      return response;
    };
    await client.connect(new StreamableHTTPClientTransport(url, { fetch: options.isObserved ? observed : fetch }));
    const caller = limiter && limitMcp(client, { limiter });
    return {
      call: (text, signal) => {
        const params = { name: tool, arguments: { text } };
        return caller ? caller.callToolAsync(params, { signal }) : client.callTool(params, { signal });
      },
      close: () => client.close(),
    };
  });

const mcp1 = ofTools('MCP 1', serveV1, async ({ url }, limiter) => {
  const client = new Mcp1(INFO);
  await client.connect(new HttpTransport1(url));
  const caller = limiter && createMcp1Caller(client, { limiter });
  return {
    call: (text, signal) => {
      const params = { name: 'read', arguments: { text } };
      return caller ? caller.callToolAsync(params, { signal }) : client.callTool(params, undefined, { signal });
    },
    close: () => client.close(),
  };
});

export const SDKS: readonly Sdk[] = [
  overFetch,
  openai,
  anthropic,
  ai,
  langchain('`@langchain/openai`'),
  { ...langchain('the same, `maxConcurrency: 2`', { maxConcurrency: 2 }), limited: undefined },
  langchainAgent,
  agents,
  mcp('MCP 2, tool that only reads', 'read'),
  { ...mcp('the same, `observe` in its `fetch`', 'read', { isObserved: true }), alone: undefined },
  mcp('MCP 2, another tool', 'write'),
  mcp1,
];

/** Whose versions are told with the numbers. */
export const PACKAGES: readonly string[] = [
  'openai',
  '@anthropic-ai/sdk',
  'ai',
  '@ai-sdk/openai-compatible',
  '@langchain/core',
  '@langchain/openai',
  'langchain',
  '@openai/agents',
  '@modelcontextprotocol/client',
  '@modelcontextprotocol/server',
  '@modelcontextprotocol/sdk',
];
