/* eslint-disable @typescript-eslint/no-deprecated -- only the low-level `Server` can fail as it is told */
import { Client, InMemoryTransport, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { InMemoryTransport as MemoryV1 } from '@modelcontextprotocol/sdk/inMemory.js';
import { Server as ServerV1 } from '@modelcontextprotocol/sdk/server/index.js';
import * as v1 from '@modelcontextprotocol/sdk/types.js';
import { createMcpHandler, inputRequired, Server } from '@modelcontextprotocol/server';
import { VirtualTimeScheduler } from 'rxjs';
import { describe, expect, it, vi } from 'vitest';
import { limitMcp } from '../../src/adapters/mcp.js';
import { limitMcp as createMcpCallerV1 } from '../../src/adapters/mcp-v1.js';
import type { McpCaller, McpCallerOptions } from '../../src/adapters/support/mcp-types.js';
import { serveMcp } from '../fakes/mcp-http.js';
import { expectNoUnhandledRejections } from '../support/rejections.js';

const POLL = { timeout: 10_000, interval: 2 };
const NAMED = { name: 'test', version: '1' };
const TOOLS = [{ name: 'look', inputSchema: { type: 'object' as const }, annotations: { readOnlyHint: true } }];
const ELICIT = { message: 'Which one?', requestedSchema: { type: 'object' as const, properties: { name: { type: 'string' as const } } } };
const SAMPLE = { messages: [{ role: 'user' as const, content: { type: 'text' as const, text: 'x' } }], maxTokens: 9 };
const CAPABILITIES = { capabilities: { elicitation: {}, sampling: {}, roots: {} } };

type Question = 'elicitation' | 'sampling' | 'roots';

/** What a server and the user of a client do. */
class Play {
  calls = 0;
  asked = 0;
  /** Answers what was asked. */
  answer: () => void = () => undefined;
  /** Answers the call. */
  finish: () => void = () => undefined;
  constructor(readonly question: Question) {}

  readonly user = async <A>(answer: A): Promise<A> => {
    this.asked++;
    await new Promise<void>((resolve) => (this.answer = resolve));
    return answer;
  };
  readonly rest = async () => {
    await new Promise<void>((resolve) => (this.finish = resolve));
    return { content: [{ type: 'text' as const, text: 'done' }] };
  };
}

interface World {
  caller(options: McpCallerOptions<never>): McpCaller;
  close(): Promise<void>;
}

const ANSWERS = {
  elicitation: { action: 'accept', content: { name: 'x' } },
  sampling: { role: 'assistant', model: 'm', content: { type: 'text', text: 'x' } },
  roots: { roots: [] },
} as const;

function clientOf(play: Play, options = {}): Client {
  const client = new Client(NAMED, { ...CAPABILITIES, ...options });
  client.setRequestHandler('elicitation/create', () => play.user(ANSWERS.elicitation));
  client.setRequestHandler('sampling/createMessage', () => play.user(ANSWERS.sampling));
  client.setRequestHandler('roots/list', () => play.user({ ...ANSWERS.roots, roots: [] }));
  return client;
}

const WORLDS: Readonly<Record<string, (play: Play) => Promise<World>>> = {
  'client 2': async (play) => {
    const server = new Server(NAMED, { capabilities: { tools: {} } });
    server.setRequestHandler('tools/list', () => ({ tools: TOOLS }));
    server.setRequestHandler('tools/call', async () => {
      play.calls++;
      if (play.question === 'elicitation') await server.elicitInput(ELICIT, { timeout: 1e9 });
      if (play.question === 'sampling') await server.createMessage(SAMPLE, { timeout: 1e9 });
      if (play.question === 'roots') await server.listRoots(undefined, { timeout: 1e9 });
      return play.rest();
    });
    const client = clientOf(play);
    const [here, there] = InMemoryTransport.createLinkedPair();
    await Promise.all([server.connect(there), client.connect(here)]);
    return { caller: (options) => limitMcp(client, options), close: () => client.close() };
  },
  'client 2, HTTP of 2026': async (play) => {
    const handler = createMcpHandler(() => {
      const server = new Server(NAMED, { capabilities: { tools: {} } });
      server.setRequestHandler('tools/list', () => ({ tools: TOOLS }));
      server.setRequestHandler('tools/call', async (_, { mcpReq }) => {
        if (mcpReq.inputResponses !== undefined) return play.rest();
        play.calls++;
        const { elicit, createMessage, listRoots } = inputRequired;
        const asks = { elicitation: () => elicit(ELICIT), sampling: () => createMessage(SAMPLE), roots: () => listRoots() };
        return inputRequired({ inputRequests: { it: asks[play.question]() } });
      });
      return server;
    });
    const http = await serveMcp((request) => handler.fetch(request));
    const client = clientOf(play, { versionNegotiation: { mode: 'auto' } });
    await client.connect(new StreamableHTTPClientTransport(new URL(http.url)));
    const close = async (): Promise<void> => {
      await client.close();
      await handler.close();
      await http.stop();
    };
    return { caller: (options) => limitMcp(client, options), close };
  },
  'sdk 1': async (play) => {
    const server = new ServerV1(NAMED, { capabilities: { tools: {} } });
    server.setRequestHandler(v1.ListToolsRequestSchema, () => ({ tools: TOOLS }));
    server.setRequestHandler(v1.CallToolRequestSchema, async () => {
      play.calls++;
      if (play.question === 'elicitation') await server.elicitInput(ELICIT, { timeout: 1e9 });
      if (play.question === 'sampling') await server.createMessage(SAMPLE, { timeout: 1e9 });
      if (play.question === 'roots') await server.listRoots(undefined, { timeout: 1e9 });
      return play.rest();
    });
    const client = new ClientV1(NAMED, CAPABILITIES);
    client.setRequestHandler(v1.ElicitRequestSchema, () => play.user(ANSWERS.elicitation));
    client.setRequestHandler(v1.CreateMessageRequestSchema, () => play.user(ANSWERS.sampling));
    client.setRequestHandler(v1.ListRootsRequestSchema, () => play.user({ roots: [] }));
    const [here, there] = MemoryV1.createLinkedPair();
    await Promise.all([server.connect(there), client.connect(here)]);
    return { caller: (options) => createMcpCallerV1(client, options), close: () => client.close() };
  },
};

/** Virtual time: what a caller waits for passes when it is told to. */
class Time extends VirtualTimeScheduler {
  pass(ms: number): void {
    this.maxFrames = this.frame + ms;
    this.schedule(() => undefined, ms);
    this.flush();
  }
}

const QUESTIONS = ['elicitation', 'sampling', 'roots'] as const;
const rows = Object.keys(WORLDS).flatMap((world) => QUESTIONS.map((question) => [world, question] as const));

describe.each(rows)('%s: a tool that asks for %s', (name, question) => {
  expectNoUnhandledRejections();

  const open = async (options: McpCallerOptions<never> = {}) => {
    const play = new Play(question);
    const time = new Time();
    const world = await (WORLDS[name] as (typeof WORLDS)[string])(play);
    const caller = world.caller({ scheduler: time, retry: { delayMs: 0 }, maxSilenceMs: 1000, ...options });
    await caller.listTools();
    const kept: { text?: unknown; error?: Error } = {};
    const over = caller.callToolAsync({ name: 'look' }).then(
      ({ content }) => (kept.text = content[0]?.text),
      (error: unknown) => (kept.error = error as Error),
    );
    await vi.waitFor(() => {
      expect(play.asked).toBe(1);
    }, POLL);
    return { play, time, world, caller, kept, over };
  };

  it('is not silent while the question has no answer', async () => {
    const { play, time, world, kept, over } = await open();
    time.pass(3_600_000);
    expect(kept).toEqual({});
    const { finish } = play;
    play.answer();
    await vi.waitFor(() => {
      expect(play.finish).not.toBe(finish);
    }, POLL);
    time.pass(900);
    play.finish();
    await over;
    expect(kept).toEqual({ text: 'done' });
    expect([play.calls, play.asked]).toEqual([1, 1]);
    await world.close();
  });

  it('is silent again after the answer, and called again only when no person was asked', async () => {
    const { play, time, world, caller, kept, over } = await open({ retry: { delayMs: 0, maxAttempts: 2 } });
    const { finish } = play;
    play.answer();
    await vi.waitFor(() => {
      expect(play.finish).not.toBe(finish);
    }, POLL);
    time.pass(1001);
    if (question === 'roots') {
      await vi.waitFor(() => {
        time.pass(1);
        expect(play.asked).toBe(2);
      }, POLL);
      caller.close();
      await over;
    } else {
      await over;
      expect(kept.error?.message).toContain('Request timed out');
      time.pass(60_000);
      expect([play.calls, play.asked]).toEqual([1, 1]);
    }
    await world.close();
  });

  it('is not called again after the longest attempt either, when a person was asked', async () => {
    const { play, time, world, caller, kept, over } = await open({ timeoutMs: 5000 });
    time.pass(5001);
    if (question === 'roots') caller.close();
    await over;
    expect(kept.error?.name).toBe(question === 'roots' ? 'ClosedError' : 'AttemptTimeoutError');
    play.answer();
    await world.close();
  });
});
