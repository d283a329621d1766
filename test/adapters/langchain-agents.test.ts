import { AsyncLocalStorage } from 'node:async_hooks';
import { createRequire } from 'node:module';
import { RunnableBinding, RunnableLambda } from '@langchain/core/runnables';
import { ChatOpenAI } from '@langchain/openai';
import { AIMessage, createAgent, fakeModel, initChatModel, providerStrategy, tool, toolRetryMiddleware, toolStrategy } from 'langchain';
import { BadRequestError } from 'openai';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createAccount, createLimiter } from '../../operators/index.js';
import { providers } from '../../src/account/providers.js';
import { limitFetch } from '../../src/adapters/fetch.js';
import type { Middleware, ModelMiddlewareOptions, ToolMiddlewareOptions } from '../../src/adapters/langchain-agents.js';
import { createModelMiddleware, createToolMiddleware } from '../../src/adapters/langchain-agents.js';
import type { ModelApi } from '../fakes/model-api.js';
import { startModelApi } from '../fakes/model-api.js';
import { expectNoUnhandledRejections } from '../support/rejections.js';

const LONG = { timeout: 20_000 };
const soon = { timeout: 10_000 };
const retry = { delayMs: 1, jitter: 'none' } as const;
const ANY_SCHEMA = { type: 'object', properties: {} } as const;
const ANSWER = { title: 'answer', type: 'object', properties: { answer: { type: 'string' } } } as const;

let api: ModelApi;

const start = async (options: Parameters<typeof startModelApi>[0] = {}): Promise<void> => {
  await api.stop();
  api = await startModelApi(options);
};

beforeEach(async () => {
  api = await startModelApi();
});

afterEach(async () => {
  await api.stop();
});

/** With LangChain's own six retries. */
const openai = (fields: ConstructorParameters<typeof ChatOpenAI>[0] = {}): ChatOpenAI =>
  new ChatOpenAI({ apiKey: 'k', model: 'm', configuration: { baseURL: api.baseUrl }, ...(fields as object) });
const asking = (options: ModelMiddlewareOptions = {}, model = openai()) =>
  createAgent({ model, tools: [], middleware: [createModelMiddleware({ retry, ...options })] });
const say = (content: string) => ({ messages: [{ role: 'user' as const, content }] });

describe('createModelMiddleware', LONG, () => {
  expectNoUnhandledRejections();

  it('holds a permit for each call, under a limiter shared with another client', async () => {
    await start({ latencyMs: 20 });
    const limiter = createLimiter({ concurrency: 2 });
    const limited = limitFetch({ limiter });
    const agent = asking({ limiter });
    const other = async (content: string): Promise<unknown> => {
      const body = JSON.stringify({ model: 'm', messages: [{ role: 'user', content }] });
      return (await limited(`${api.baseUrl}/chat/completions`, { method: 'POST', body })).json();
    };
    const said = await Promise.all([
      ...[1, 2, 3, 4].map(async (i) => (await agent.invoke(say(`hello ${String(i)}`))).messages.at(-1)?.text),
      other('a'),
      other('b'),
    ]);
    expect(said.slice(0, 4)).toEqual(['hello 1', 'hello 2', 'hello 3', 'hello 4']);
    expect(api.requests).toHaveLength(6);
    expect(api.maxInFlight).toBe(2);
    expect(limiter.executing).toBe(0);
  });

  it('makes our attempts and no more, with the retries of LangChain left on', async () => {
    const failure = { status: 503, message: 'overloaded' };
    api.fail(...Array.from({ length: 9 }, () => failure));
    await expect(asking({ retry: { ...retry, maxAttempts: 3 } }).invoke(say('x'))).rejects.toMatchObject({ cause: { status: 503 } });
    expect(api.requests).toHaveLength(3);
  });

  it('does so for a model that is made by its name, too, and aborts that', async () => {
    const model = await initChatModel('m', { modelProvider: 'openai', apiKey: 'k', configuration: { baseURL: api.baseUrl } });
    const failure = { status: 503, message: 'overloaded' };
    api.fail(failure, failure, failure, failure);
    const agent = asking({ retry: { ...retry, maxAttempts: 2 }, timeoutMs: 200 }, model as never);
    await expect(agent.invoke(say('x'))).rejects.toMatchObject({ cause: { status: 503 } });
    expect(api.requests).toHaveLength(2);
    api.clear();
    api.fail('silent', 'silent');
    await expect(agent.invoke(say('x'))).rejects.toMatchObject({ cause: { code: 'FLOW_ATTEMPT_TIMEOUT' } });
    await expect.poll(() => api.aborted, soon).toBe(2);
    expect(api.requests).toHaveLength(2);
  });

  it('does so for a model inside something else, too, and aborts that', async () => {
    const pass = new RunnableLambda({ func: (input: unknown) => input });
    for (const model of [new RunnableBinding({ bound: openai(), config: {} }), pass.pipe(openai() as never)]) {
      const agent = asking({ retry: { ...retry, maxAttempts: 2 }, timeoutMs: 1000 }, model as never);
      api.clear();
      api.fail('silent');
      expect((await agent.invoke(say('x'))).messages.at(-1)?.text).toBe('x');
      await expect.poll(() => api.aborted, soon).toBe(1);
      api.clear();
      const failure = { status: 503, message: 'overloaded' };
      api.fail(failure, failure, failure, failure);
      await expect(agent.invoke(say('x'))).rejects.toMatchObject({ cause: { status: 503 } });
      expect(api.requests).toHaveLength(2);
    }
  });

  it('lets a model read what its class keeps private', async () => {
    class Private extends ChatOpenAI {
      readonly #profile = { structuredOutput: true };

      override get profile() {
        return this.#profile;
      }
    }
    const model = new Private({ apiKey: 'k', model: 'm', configuration: { baseURL: api.baseUrl } });
    const agent = createAgent({ model, tools: [], responseFormat: ANSWER, middleware: [createModelMiddleware()] });
    expect((await agent.invoke(say('{"answer":"4"}'))).structuredResponse).toEqual({ answer: '4' });
  });

  it('waits as long as the server says', async () => {
    api.fail({ status: 429, headers: { 'retry-after-ms': '150' }, message: 'slow down' });
    expect((await asking().invoke(say('again'))).messages.at(-1)?.text).toBe('again');
    const [first, second] = api.requests;
    expect(api.requests).toHaveLength(2);
    expect((second?.at ?? 0) - (first?.at ?? 0)).toBeGreaterThanOrEqual(140);
  });

  it('fails with the error of OpenAI as the cause, its name and its message, and its neighbours do not fail', async () => {
    const agent = asking({ limiter: createLimiter({ concurrency: 2 }) });
    const [good, bad, other] = await Promise.allSettled(['good', 'POISON', 'other'].map((text) => agent.invoke(say(text))));
    expect([good?.status, bad?.status, other?.status]).toEqual(['fulfilled', 'rejected', 'fulfilled']);
    const reason = (bad as PromiseRejectedResult).reason as Error;
    expect(reason.cause).toBeInstanceOf(BadRequestError);
    expect(reason.message).toBe((reason.cause as Error).message);
    expect(api.requests).toHaveLength(3);
  });

  it('pays what the answer says it has cost, and takes the longest answer it allows before', async () => {
    await start({ latencyMs: 50 });
    const limiter = createAccount({ tokensPerMinute: 600, headroom: 1, burstSeconds: 6000 });
    const call = asking({ limiter }, openai({ maxTokens: 5000 })).invoke(say('word '.repeat(40)));
    await expect.poll(() => api.requests.length, soon).toBe(1);
    const during = 60_000 - limiter.snapshot().tokens;
    await call;
    expect(during).toBeGreaterThan(5000);
    // OpenAI counts all that the answer may have, whatever it has.
    expect(60_000 - limiter.snapshot().tokens).toBeGreaterThan(4900);
    const settled = createAccount({ tokensPerMinute: 600, headroom: 1, burstSeconds: 6000 });
    const provider = { ...providers.openai, unusedOutput: 'returned' } as const;
    await asking({ limiter: settled, provider }, openai({ maxTokens: 5000 })).invoke(say('word '.repeat(40)));
    expect(60_000 - settled.snapshot().tokens).toBeLessThan(200);
  });

  it('pays what an answer says that is a structured response', async () => {
    const usage = { usage_metadata: { input_tokens: 10, output_tokens: 5, total_tokens: 15 } };
    const call = { name: 'answer', args: { answer: '4' }, id: '1' };
    const answers = [
      [providerStrategy(ANSWER), new AIMessage('{"answer":"4"}')],
      [toolStrategy(ANSWER), new AIMessage({ content: '', tool_calls: [call] })],
    ] as const;
    for (const [responseFormat, message] of answers) {
      const limiter = createAccount({ tokensPerMinute: 600, headroom: 1, burstSeconds: 6000 });
      const model = Object.assign(fakeModel().respond(Object.assign(message, usage)), { maxTokens: 5000 });
      const middleware = [createModelMiddleware({ limiter })];
      const agent = createAgent({ model, tools: [], responseFormat: responseFormat as never, middleware });
      expect((await agent.invoke(say('2 + 2?'))).structuredResponse).toEqual({ answer: '4' });
      expect(60_000 - limiter.snapshot().tokens).toBeLessThan(200);
    }
  });

  it('goes in the lane and for the cost it is told', async () => {
    const limiter = createAccount({ lanes: [{ name: 'live' }, { name: 'batch' }], requestsPerMinute: 600, burstSeconds: 60 });
    const lanes: string[] = [];
    const agent = asking({
      limiter,
      job: ({ messages }) => ({ lane: messages.length > 1 ? 'batch' : 'live', cost: { requests: 200 } }),
      onEvent: (event) => event.type === 'attemptStarted' && lanes.push(event.lane),
    });
    await agent.invoke(say('x'));
    expect(lanes).toEqual(['live']);
    expect(limiter.snapshot().requests).toBeLessThan(400);
  });

  it('reaches the server with an abort of the run, and with a timeout of its own', async () => {
    await start({ latencyMs: 10_000 });
    const limiter = createLimiter({ concurrency: 1 });
    const controller = new AbortController();
    const run = asking({ limiter }).invoke(say('x'), { signal: controller.signal });
    await expect.poll(() => api.inFlight, soon).toBe(1);
    controller.abort();
    await expect(run).rejects.toThrow();
    await expect.poll(() => api.aborted, soon).toBe(1);
    await expect.poll(() => limiter.executing, soon).toBe(0);
    const late = asking({ limiter, retry: false, timeoutMs: 50 }).invoke(say('x'));
    await expect(late).rejects.toMatchObject({ cause: { code: 'FLOW_ATTEMPT_TIMEOUT' } });
    await expect.poll(() => api.aborted, soon).toBe(2);
    await expect.poll(() => limiter.executing, soon).toBe(0);
  });

  it('sends nothing and takes no permit when the run is aborted in the queue', async () => {
    const limiter = createAccount({ concurrency: 1, requestsPerMinute: 60 });
    const busy = limiter.tryAcquire();
    const { requests } = limiter.snapshot();
    const controller = new AbortController();
    const run = asking({ limiter }).invoke(say('x'), { signal: controller.signal });
    await expect.poll(() => limiter.snapshot().queued, soon).toBe(1);
    controller.abort();
    await expect(run).rejects.toThrow();
    expect(limiter.snapshot().queued).toBe(0);
    busy?.release();
    await limiter.drain();
    expect(limiter.snapshot().requests).toBeGreaterThanOrEqual(requests);
    expect(api.requests).toHaveLength(0);
  });

  it('makes each attempt in the async context of its own caller, not of the caller that released the permit', async () => {
    const caller = new AsyncLocalStorage<string>();
    const seen: (readonly [string, string | undefined])[] = [];
    const fetch: typeof globalThis.fetch = async (url, init) => {
      const { messages } = JSON.parse(init?.body as string) as { messages: { content: string }[] };
      seen.push([messages[0]?.content ?? '', caller.getStore()]);
      return globalThis.fetch(url, init);
    };
    const model = openai({ configuration: { baseURL: api.baseUrl, fetch } });
    const agent = asking({ limiter: createLimiter({ concurrency: 1 }) }, model);
    api.fail({ status: 503, message: 'overloaded' });
    await Promise.all(['a', 'b', 'c'].map((name) => caller.run(name, () => agent.invoke(say(name)))));
    expect(seen).toHaveLength(4);
    for (const [asked, store] of seen) expect(store).toBe(asked);
  });

  it('streams as before', async () => {
    await start({ chunks: 5 });
    const limiter = createLimiter({ concurrency: 1 });
    let said = '';
    for await (const [chunk] of await asking({ limiter }).stream(say('one two three four'), { streamMode: 'messages' }))
      if (AIMessage.isInstance(chunk) || chunk.type === 'ai') said += chunk.text;
    expect(said).toBe('one two three four');
    expect(limiter.executing).toBe(0);
  });
});

interface LangGraph {
  readonly Command: new (resumed: { readonly resume: string }) => never;
  readonly MemorySaver: new () => never;
  readonly interrupt: (question: string) => unknown;
}

/** Tools that wait, and what of them ran at a time. */
function counted(...names: readonly string[]) {
  const running = new Map<string, number>();
  const most = new Map<string, number>();
  const count = (name: string, more: number): void => {
    const now = (running.get(name) ?? 0) + more;
    running.set(name, now);
    most.set(name, Math.max(most.get(name) ?? 0, now));
  };
  const tools = names.map((name) =>
    tool(
      async () => {
        for (const what of [name, 'all']) count(what, 1);
        await new Promise((done) => setTimeout(done, 10));
        for (const what of [name, 'all']) count(what, -1);
        return `${name} done`;
      },
      { name, description: name, schema: ANY_SCHEMA },
    ),
  );
  return { tools, most };
}

const callsOf = (names: readonly string[]) => names.map((name, i) => ({ name, args: {}, id: `${name}-${String(i)}` }));
const acting = (tools: ReturnType<typeof counted>['tools'], names: readonly string[], options?: ToolMiddlewareOptions) =>
  createAgent({
    model: fakeModel().respondWithTools(callsOf(names)).respond(new AIMessage('done')),
    tools,
    middleware: options ? [createToolMiddleware(options)] : [],
  });
const fifty = Array.from({ length: 50 }, (_, i) => (i % 2 === 0 ? 'search' : 'draw'));

describe('createToolMiddleware', LONG, () => {
  expectNoUnhandledRejections();

  it('starts as many calls as it is told, where an agent by itself starts fifty', async () => {
    const alone = counted('search', 'draw');
    await acting(alone.tools, fifty).invoke(say('go'));
    expect(alone.most.get('all')).toBe(50);

    const limited = counted('search', 'draw');
    const { messages } = await acting(limited.tools, fifty, { concurrency: 8, toolConcurrency: { draw: 2 } }).invoke(say('go'));
    expect(limited.most.get('all')).toBe(8);
    expect(limited.most.get('draw')).toBe(2);
    expect(messages.slice(2, 52).map(({ text }) => text)).toEqual(fifty.map((name) => `${name} done`));
    expect(messages.at(-1)?.text).toBe('done');
  });

  it('takes one limit for each tool, and five at a time of all by itself', async () => {
    const each = counted('search', 'draw');
    await acting(each.tools, fifty, { concurrency: Infinity, toolConcurrency: 3 }).invoke(say('go'));
    expect([...each.most]).toEqual(
      expect.arrayContaining([
        ['search', 3],
        ['draw', 3],
        ['all', 6],
      ]),
    );
    const all = counted('search', 'draw');
    await acting(all.tools, fifty, {}).invoke(say('go'));
    expect(all.most.get('all')).toBe(5);
  });

  it('shares its limits with all agents that have it, and a limiter with others', async () => {
    const { tools, most } = counted('search', 'draw');
    const lanes = [{ name: 'live' }, { name: 'batch' }];
    const limiter = createAccount({ concurrency: 3, lanes });
    const seen = new Set<string>();
    const middleware = createToolMiddleware({
      limiter,
      job: (name) => ({ lane: name === 'search' ? 'live' : 'batch' }),
      onEvent: (event) => event.type === 'attemptStarted' && seen.add(event.lane),
    });
    const agents = [1, 2].map(() =>
      createAgent({
        model: fakeModel()
          .respondWithTools(callsOf(fifty.slice(0, 10)))
          .respond(new AIMessage('done')),
        tools,
        middleware: [middleware],
      }),
    );
    await Promise.all(agents.map((agent) => agent.invoke(say('go'))));
    expect(most.get('all')).toBe(3);
    expect([...seen].toSorted()).toEqual(['batch', 'live']);
    expect(limiter.executing).toBe(0);
  });

  it('calls each tool in the context of the run that asked for it', async () => {
    const caller = new AsyncLocalStorage<string>();
    const seen: (string | undefined)[] = [];
    const search = tool(
      async () => {
        seen.push(caller.getStore());
        await new Promise((done) => setTimeout(done, 5));
        return 'found';
      },
      { name: 'search', description: '', schema: ANY_SCHEMA },
    );
    const middleware = [createToolMiddleware({ concurrency: 1 })];
    const run = async (name: string): Promise<void> => {
      const model = fakeModel()
        .respondWithTools(callsOf(['search', 'search']))
        .respond(new AIMessage('done'));
      await caller.run(name, () => createAgent({ model, tools: [search], middleware }).invoke(say('go')));
    };
    await Promise.all([run('a'), run('b')]);
    expect(seen.toSorted()).toEqual(['a', 'a', 'b', 'b']);
  });

  it('runs what a real model asks for', async () => {
    const { tools } = counted('search');
    const middleware = [createModelMiddleware({ retry }), createToolMiddleware({ toolConcurrency: 1 })];
    const agent = createAgent({ model: openai(), tools, middleware });
    const { messages } = await agent.invoke(say('CALL search {}'));
    expect(messages.map(({ type }) => type)).toEqual(['human', 'ai', 'tool', 'ai']);
    expect(messages[2]?.text).toBe('search done');
    expect(api.requests).toHaveLength(2);
  });

  it('tells the model of a call that fails, as an agent without it does, or ends the run', async () => {
    const broken = tool(() => Promise.reject(new Error('no such page')), { name: 'search', description: '', schema: ANY_SCHEMA });
    const { messages } = await acting([broken], ['search']).invoke(say('go'));
    expect(messages[2]).toMatchObject({ status: 'error', tool_call_id: 'search-0' });
    const told = await acting([broken], ['search'], {}).invoke(say('go'));
    expect(told.messages[2]).toMatchObject({ status: 'error', tool_call_id: 'search-0', content: 'Error: no such page' });
    expect(told.messages.at(-1)?.text).toBe('done');
    await expect(acting([broken], ['search'], { errors: 'throw' }).invoke(say('go'))).rejects.toThrow('no such page');
  });

  it('lets another middleware see the error and call again, with a permit for each attempt', async () => {
    let attempts = 0;
    const flaky = tool(() => (++attempts === 1 ? Promise.reject(new Error('not yet')) : 'found'), {
      name: 'search',
      description: '',
      schema: ANY_SCHEMA,
    });
    const started: string[] = [];
    const agent = createAgent({
      model: fakeModel()
        .respondWithTools(callsOf(['search']))
        .respond(new AIMessage('done')),
      tools: [flaky],
      middleware: [
        toolRetryMiddleware({ maxRetries: 1, initialDelayMs: 1 }) as unknown as Middleware,
        createToolMiddleware({ errors: 'throw', onEvent: ({ type }) => started.push(type) }),
      ],
    });
    const { messages } = await agent.invoke(say('go'));
    expect(messages[2]?.text).toBe('found');
    expect(started.filter((type) => type === 'attemptStarted')).toHaveLength(2);
  });

  it('leaves names of no tool and arguments of the wrong shape to LangChain', async () => {
    const schema = { type: 'object', properties: { word: { type: 'string' } }, required: ['word'] } as const;
    const strict = tool(({ word }: { word: string }) => word, { name: 'search', description: '', schema });
    const { messages } = await acting([strict] as never, ['search', 'unknown'], {}).invoke(say('go'));
    expect(messages[2]).toMatchObject({ status: 'error' });
    expect(messages[2]?.text).toContain('schema');
    expect(messages[3]?.text).toContain('unknown is not a valid tool');
    expect(messages.at(-1)?.text).toBe('done');
  });

  it('lets an interrupt through, and the call that goes on afterwards', async () => {
    // A package of LangChain's own; what it makes must be known to the very copy that runs the agent.
    const path = createRequire(import.meta.resolve('langchain'))
      .resolve('@langchain/langgraph')
      .replace(/\.cjs$/, '.js');
    const { Command, interrupt, MemorySaver } = (await import(path)) as LangGraph;
    const risky = tool(() => `the human said ${String(interrupt('may I?'))}`, { name: 'search', description: '', schema: ANY_SCHEMA });
    const agent = createAgent({
      model: fakeModel()
        .respondWithTools(callsOf(['search']))
        .respond(new AIMessage('done')),
      tools: [risky],
      checkpointer: new MemorySaver(),
      middleware: [createToolMiddleware({})],
    });
    const config = { configurable: { thread_id: '1' } };
    const paused = await agent.invoke(say('go'), config);
    expect(paused).toMatchObject({ __interrupt__: [{ value: 'may I?' }] });
    const { messages } = await agent.invoke(new Command({ resume: 'yes' }), config);
    expect(messages[2]?.text).toBe('the human said yes');
  });

  it('aborts a call that takes too long, and tells the model', async () => {
    const aborted: string[] = [];
    const slow = tool(
      (_args, { signal }: { signal?: AbortSignal }) =>
        new Promise<string>((_done, fail) => {
          signal?.addEventListener('abort', () => {
            aborted.push('slow');
            fail(new Error('stopped'));
          });
        }),
      { name: 'slow', description: '', schema: ANY_SCHEMA },
    );
    const limiter = createLimiter({ concurrency: 2 });
    const options = { limiter, timeoutMs: { slow: 30 } };
    const { messages } = await acting([slow] as never, ['slow'], options).invoke(say('go'));
    expect(messages[2]).toMatchObject({ status: 'error' });
    expect(messages[2]?.text).toContain('AttemptTimeoutError');
    expect(aborted).toEqual(['slow']);
    await expect.poll(() => limiter.executing, soon).toBe(0);
  });

  it('never starts what waits when the run is aborted, and aborts what runs', async () => {
    const controller = new AbortController();
    let started = 0;
    let aborted = 0;
    const slow = tool(
      (_args, { signal }: { signal?: AbortSignal }) => {
        started++;
        return new Promise<string>((_done, fail) => {
          signal?.addEventListener('abort', () => {
            aborted++;
            fail(new Error('stopped'));
          });
        });
      },
      { name: 'slow', description: '', schema: ANY_SCHEMA },
    );
    const limiter = createLimiter({ concurrency: 2 });
    const names = Array.from({ length: 10 }, () => 'slow');
    const run = acting([slow] as never, names, { limiter }).invoke(say('go'), { signal: controller.signal });
    await expect.poll(() => limiter.snapshot().queued, soon).toBe(8);
    controller.abort();
    await expect(run).rejects.toThrow();
    await expect.poll(() => limiter.executing, soon).toBe(0);
    expect(limiter.snapshot().queued).toBe(0);
    expect([started, aborted]).toEqual([2, 2]);
  });
});
