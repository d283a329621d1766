import { randomUUID } from 'node:crypto';
import { lastValueFrom, NEVER, of, toArray } from 'rxjs';

/** An ordinary job of one pipeline, and the operators that its work passes through. */
export interface Job {
  /** The exported function that makes the pipeline. */
  readonly pipeline: string;
  /** Its page, from `docs/`. */
  readonly page: string;
  readonly title: string;
  /** Operators that the pipeline imports from `operators/index.ts`. */
  readonly madeOf?: readonly string[];
  /** Operators whose form for authors, in `operators/build.ts`, the pipeline imports: that form, by the operator. */
  readonly built?: Readonly<Record<string, string>>;
  /** Operators that another operator calls for the pipeline: that other one, by the operator. */
  readonly inside?: Readonly<Record<string, string>>;
  /** Loads the pipeline and does the job. */
  readonly run: () => Promise<unknown>;
  readonly answer: unknown;
}

const RETRIES = { retryFailed: 'check.retries' } as const;
const atOnce = { delayMs: 0, jitter: 'none' } as const;

const failure = (status: number): Error => Object.assign(new Error(`status ${String(status)}`), { status });

/** Fails the first time for a reason that may pass. */
function afterRefusal<A extends readonly unknown[], R>(work: (...args: A) => R): (...args: A) => Promise<R> {
  let calls = 0;
  return async (...args) => {
    if (++calls === 1) throw failure(503);
    return work(...args);
  };
}

/** The same for what answers over HTTP. */
function fetchAfterRefusal(answer: (body: string) => Response): typeof fetch {
  let calls = 0;
  return async (input, init) => {
    if (++calls === 1) return new Response('busy', { status: 503 });
    const { body } = init ?? {};
    return answer(typeof body === 'string' ? body : await new Request(input, init).text());
  };
}

/** Vectors of texts, unless one of them is bad. */
function vectorsOf(texts: readonly string[]): number[][] {
  if (texts.includes('bad')) throw failure(400);
  return texts.map(({ length }) => [length]);
}

function streamOf<T>(values: readonly T[]): ReadableStream<T> {
  return new ReadableStream({
    start: (controller) => {
      for (const value of values) controller.enqueue(value);
      controller.close();
    },
  });
}

/** What came of each, and nothing about why. */
async function settled(results: Iterable<PromiseLike<ArrayLike<number>>>): Promise<unknown[]> {
  return (await Promise.allSettled(results)).map((result) => (result.status === 'fulfilled' ? Array.from(result.value) : 'rejected'));
}

const DELTAS = ['Hel', 'lo'].map((delta) => ({ type: 'TEXT_MESSAGE_CONTENT', messageId: 'm', delta }));

const anyInput = { safeParse: (data: unknown) => ({ success: true as const, data }) };

async function mcpClient() {
  const { Client, InMemoryTransport } = await import('@modelcontextprotocol/client');
  const { McpServer } = await import('@modelcontextprotocol/server');
  const [here, there] = InMemoryTransport.createLinkedPair();
  const server = new McpServer({ name: 'clock', version: '1' });
  server.registerTool('time', { annotations: { readOnlyHint: true } }, () => ({ content: [{ type: 'text', text: 'noon' }] }));
  const client = new Client({ name: 'app', version: '1' });
  await Promise.all([server.connect(there), client.connect(here)]);
  return client;
}

export const JOBS: readonly Job[] = [
  {
    pipeline: 'createAccount',
    page: 'values.md#createaccount',
    title: 'grants a permit',
    madeOf: ['createAccount'],
    inside: {
      createLimiter: 'createAccount',
      fromHeaders: 'createAccount',
      lanes: 'createAccount',
      perDay: 'createAccount',
      perMinute: 'createAccount',
    },
    run: async () => {
      const { createAccount } = await import('../../src/account/create-account.js');
      const account = createAccount({ requestsPerMinute: 600, requestsPerDay: 1000 });
      return account.runAsync(() => Promise.resolve('granted'));
    },
    answer: 'granted',
  },
  {
    pipeline: 'createEmbedder',
    page: 'pipelines/create-embedder.md',
    title: 'isolates a bad text',
    madeOf: ['classifyByStatus', 'createBatcher', 'graded', 'lanes', 'robust', 'sequentialSearch'],
    run: async () => {
      const { createEmbedder } = await import('../../src/pipelines/create-embedder.js');
      const embedder = createEmbedder({ call: afterRefusal(vectorsOf), random: () => 0 });
      return settled(['a', 'bad', 'text'].map((text) => embedder.embedAsync(text)));
    },
    answer: [[1], 'rejected', [4]],
  },
  {
    pipeline: 'createEmbedder',
    page: 'pipelines/create-embedder.md',
    title: 'reads an iterable',
    madeOf: ['loadFrom'],
    run: async () => {
      const { createEmbedder } = await import('../../src/pipelines/create-embedder.js');
      const embedder = createEmbedder({ call: async (texts) => vectorsOf(texts) });
      const results = await lastValueFrom(embedder.embedFrom(['a', 'text']).pipe(toArray()));
      return results.map((result) => (result.status === 'fulfilled' ? [...result.value] : result.reason));
    },
    answer: [[1], [4]],
  },
  {
    pipeline: 'embeddings',
    page: 'pipelines/create-embedder.md',
    title: 'embeds after a refusal',
    madeOf: ['classifyError'],
    run: async () => {
      const { createEmbedder } = await import('../../src/pipelines/create-embedder.js');
      const { embeddings } = await import('../../src/pipelines/embeddings-api.js');
      const fetch = fetchAfterRefusal(() => Response.json({ data: [{ index: 0, embedding: [1] }], usage: { total_tokens: 1 } }));
      const embedder = createEmbedder({ call: embeddings({ baseUrl: 'http://127.0.0.1:9/v1', model: 'm', fetch }), random: () => 0 });
      return [...(await embedder.embedAsync('a'))];
    },
    answer: [1],
  },
  {
    pipeline: 'createModelCaller',
    page: 'pipelines/create-model-caller.md',
    title: 'answers after a refusal',
    madeOf: ['classifyError', 'createLimiter', 'lanes', 'policy'],
    built: RETRIES,
    run: async () => {
      const { createModelCaller } = await import('../../src/pipelines/create-model-caller.js');
      const models = createModelCaller({ call: afterRefusal((question: string) => `${question}!`), retry: atOnce });
      return models.callAsync('why');
    },
    answer: 'why!',
  },
  {
    pipeline: 'createModelCaller',
    page: 'pipelines/create-model-caller.md',
    title: 'streams an answer',
    madeOf: ['fromStream'],
    run: async () => {
      const { createModelCaller } = await import('../../src/pipelines/create-model-caller.js');
      const models = createModelCaller({
        call: {
          send: async (question: string) => question,
          stream: async function* (question: string) {
            yield question;
            yield '!';
          },
        },
      });
      return lastValueFrom(models.stream('why').pipe(toArray()));
    },
    answer: ['why', '!'],
  },
  {
    pipeline: 'createModelCaller',
    page: 'pipelines/create-model-caller.md',
    title: 'keeps to its own slots',
    madeOf: ['childOf', 'fromHeaders'],
    run: async () => {
      const { createAccount } = await import('../../src/account/create-account.js');
      const { createModelCaller } = await import('../../src/pipelines/create-model-caller.js');
      const call = async (question: string): Promise<string> => `${question}!`;
      return createModelCaller({ call, limiter: createAccount({ concurrency: 4 }), concurrency: 2 }).callAsync('why');
    },
    answer: 'why!',
  },
  {
    pipeline: 'callAll',
    page: 'pipelines/create-model-caller.md',
    title: 'answers two questions',
    madeOf: ['settleAll'],
    run: async () => {
      const { callAll, createModelCaller } = await import('../../src/pipelines/create-model-caller.js');
      const models = createModelCaller({ call: async (question: string) => question.length });
      return lastValueFrom(callAll(models, { short: 'why?', long: 'why not?' }));
    },
    answer: { short: 4, long: 8 },
  },
  {
    pipeline: 'createToolRunner',
    page: 'pipelines/create-tool-runner.md',
    title: 'repeats a tool call',
    madeOf: ['childOf', 'classifyError', 'createLimiter', 'lanes', 'policy'],
    built: RETRIES,
    run: async () => {
      const { createToolRunner } = await import('../../src/pipelines/create-tool-runner.js');
      const execute = afterRefusal((word: unknown) => `about ${String(word)}`);
      const search = { name: 'search', description: 'Looks a word up.', parameters: anyInput, idempotent: true, execute };
      const runner = createToolRunner({ tools: [search], retry: atOnce });
      const { results } = await runner.runAllAsync([{ id: '1', name: 'search', input: 'otters' }]);
      return results.map((result) => (result.is_error ? result.error : result.content));
    },
    answer: ['about otters'],
  },
  {
    pipeline: 'createToolRunner',
    page: 'pipelines/create-tool-runner.md',
    title: 'reads a streaming tool',
    madeOf: ['fromStream'],
    run: async () => {
      const { createToolRunner } = await import('../../src/pipelines/create-tool-runner.js');
      const execute = () => streamOf(['half', 'done']);
      const runner = createToolRunner({ tools: [{ name: 'write', description: 'Writes.', parameters: anyInput, execute }] });
      const { results } = await runner.runAllAsync([{ id: '1', name: 'write', input: {} }]);
      return results.map((result) => (result.is_error ? result.error : result.content));
    },
    answer: ['done'],
  },
  {
    pipeline: 'createAgentTurn',
    page: 'pipelines/create-agent-turn.md',
    title: 'shows an answer',
    madeOf: ['fromStream', 'switchLatest', 'toStore'],
    run: async () => {
      const { createAgentTurn } = await import('../../src/frontend/create-agent-turn.js');
      const turns = createAgentTurn({
        model: async function* () {
          yield 'Because.';
        },
      });
      const store = turns.store();
      return new Promise((answered) => {
        const leave = store.subscribe(() => {
          const { status, messages } = store.getSnapshot();
          if (status === 'running') return;
          leave();
          answered(messages.map(({ content }) => content));
        });
        turns.ask('Why?').subscribe();
      });
    },
    answer: ['Why?', 'Because.'],
  },
  {
    pipeline: 'createStages',
    page: 'pipelines/create-stages.md',
    title: 'repeats a stage',
    madeOf: ['childOf', 'classifyError', 'createLimiter', 'policy', 'ranked'],
    built: RETRIES,
    run: async () => {
      const { createStages } = await import('../../src/pipelines/create-stages.js');
      const work = afterRefusal((document: string) => document.length);
      const stages = createStages([{ name: 'count', concurrency: 2, retry: atOnce, work }]);
      const results = await lastValueFrom(stages.run(['text']).pipe(toArray()));
      return results.map((result) => (result.type === 'item' && result.status === 'fulfilled' ? result.value : result.status));
    },
    answer: [4, 'fulfilled'],
  },
  {
    pipeline: 'useFlow',
    page: 'react.md',
    title: 'renders a value',
    madeOf: ['toStore'],
    run: async () => {
      const { createElement } = await import('react');
      const { renderToString } = await import('react-dom/server');
      const { useFlow } = await import('../../src/frontend/react.js');
      return renderToString(
        createElement(() =>
          createElement(
            'p',
            null,
            useFlow(() => NEVER, 'first'),
          ),
        ),
      );
    },
    answer: '<p>first</p>',
  },
  {
    pipeline: 'fromEventStream',
    page: 'adapters/fetch.md',
    title: 'connects again',
    madeOf: ['classifyError', 'fromStream', 'policy'],
    built: RETRIES,
    run: async () => {
      const { fromEventStream } = await import('../../src/adapters/fetch.js');
      const headers = { 'content-type': 'text/event-stream' };
      const fetch = fetchAfterRefusal(() => new Response('data: hello\n\n', { headers }));
      const events = await lastValueFrom(fromEventStream('http://127.0.0.1:9/events', { fetch, reconnect: atOnce }).pipe(toArray()));
      return events.map(({ data }) => data);
    },
    answer: ['hello'],
  },
  {
    pipeline: 'limitFetch',
    page: 'adapters/fetch.md',
    title: 'fetches again',
    madeOf: ['classifyError', 'policy'],
    built: RETRIES,
    run: async () => {
      const { createAccount } = await import('../../src/account/create-account.js');
      const { limitFetch } = await import('../../src/adapters/fetch.js');
      const fetch = fetchAfterRefusal(() => new Response('hello'));
      const response = await limitFetch({ limiter: createAccount(), fetch, retry: atOnce })('http://127.0.0.1:9/');
      return response.text();
    },
    answer: 'hello',
  },
  {
    pipeline: 'limitFetch',
    page: 'adapters/fetch.md',
    title: 'nests two limiters',
    madeOf: ['heldBy'],
    run: async () => {
      const { createAccount } = await import('../../src/account/create-account.js');
      const { limitFetch } = await import('../../src/adapters/fetch.js');
      const inner = limitFetch({ limiter: createAccount(), fetch: async () => new Response('hello') });
      const outer = limitFetch({ limiter: createAccount(), fetch: (input, init) => inner(input, init) });
      return (await outer('http://127.0.0.1:9/')).text();
    },
    answer: 'hello',
  },
  {
    pipeline: 'localStore',
    page: 'guides/many-processes.md',
    title: 'grants a shared permit',
    madeOf: ['memoryStore', 'sharedStore'],
    run: async () => {
      const { createLimiter, tokenBucket } = await import('../../operators/index.js');
      const { localStore } = await import('../../src/shared/local-store.js');
      const rates = localStore({ name: randomUUID() }).share([tokenBucket({ unit: 'requests', amount: 100, windowMs: 1000 })]);
      return createLimiter({ rates }).runAsync(() => 'granted', { deadlineMs: 2000 });
    },
    answer: 'granted',
  },
  {
    pipeline: 'limitMcp',
    page: 'adapters/mcp.md',
    title: 'calls a tool',
    madeOf: ['createLimiter', 'policy'],
    run: async () => {
      const { limitMcp } = await import('../../src/adapters/mcp.js');
      const client = await mcpClient();
      const { content } = await limitMcp(client).callToolAsync({ name: 'time' });
      await client.close();
      return content;
    },
    answer: [{ type: 'text', text: 'noon' }],
  },
  {
    pipeline: 'limitMcp',
    page: 'adapters/mcp.md',
    title: 'shares a limiter',
    madeOf: ['childOf'],
    run: async () => {
      const { createAccount } = await import('../../src/account/create-account.js');
      const { limitMcp } = await import('../../src/adapters/mcp.js');
      const client = await mcpClient();
      const { content } = await limitMcp(client, { limiter: createAccount() }).callToolAsync({ name: 'time' });
      await client.close();
      return content;
    },
    answer: [{ type: 'text', text: 'noon' }],
  },
  {
    pipeline: 'createToolMiddleware',
    page: 'adapters/langchain.md',
    title: 'runs a tool',
    madeOf: ['childOf', 'createLimiter', 'policy'],
    run: async () => {
      const { AIMessage, createAgent, fakeModel, tool } = await import('langchain');
      const { createToolMiddleware } = await import('../../src/adapters/langchain-agents.js');
      const search = tool(({ word }: { word: string }) => `about ${word}`, { name: 'search', schema: { type: 'object' } });
      const model = fakeModel()
        .respondWithTools([{ name: 'search', args: { word: 'otters' }, id: '1' }])
        .respond(new AIMessage('done'));
      const middleware = [createToolMiddleware({ toolConcurrency: { search: 1 }, errors: 'throw' })];
      const { messages } = await createAgent({ model, tools: [search], middleware }).invoke({ messages: 'Look it up' });
      return messages.slice(2).map(({ text }) => text);
    },
    answer: ['about otters', 'done'],
  },
  {
    pipeline: 'limitEmbeddings',
    page: 'adapters/langchain.md',
    title: 'isolates a bad document',
    madeOf: [...['classifyError', 'createAccount', 'createBatcher', 'graded'], ...['lanes', 'robust', 'sequentialSearch']],
    run: async () => {
      const { Embeddings } = await import('@langchain/core/embeddings');
      const { limitEmbeddings } = await import('../../src/adapters/langchain.js');
      const embedDocuments = afterRefusal(vectorsOf);
      const inner = new (class extends Embeddings {
        override embedDocuments = embedDocuments;
        override embedQuery = async (text: string): Promise<number[]> => [text.length];
      })({});
      const results = await limitEmbeddings(inner, { random: () => 0 }).embedSettled(['a', 'bad', 'text']);
      return results.map((result) => (result.status === 'fulfilled' ? result.value : result.status));
    },
    answer: [[1], 'rejected', [4]],
  },
  {
    pipeline: 'embedSettled',
    page: 'adapters/ai-sdk.md',
    title: 'isolates a bad value',
    madeOf: ['classifyError', 'createBatcher', 'divideAndConquer', 'lanes', 'natural', 'retryFailed'],
    run: async () => {
      const { createOpenAICompatible } = await import('@ai-sdk/openai-compatible');
      const { createAccount } = await import('../../src/account/create-account.js');
      const { embedSettled } = await import('../../src/adapters/ai-sdk.js');
      const fetch = fetchAfterRefusal((body) => {
        const { input } = JSON.parse(body) as { input: string[] };
        if (input.includes('bad')) return Response.json({ error: { message: 'refused' } }, { status: 400 });
        return Response.json({ data: input.map((text) => ({ embedding: [text.length] })) });
      });
      const model = createOpenAICompatible({ name: 'p', baseURL: 'http://127.0.0.1:9/v1', fetch }).embeddingModel('m');
      const how = { limiter: createAccount(), job: { lane: 'user' }, retry: atOnce };
      const results = await embedSettled({ model, values: ['a', 'bad', 'text'], ...how });
      return results.map((result) => (result.status === 'fulfilled' ? result.value : result.status));
    },
    answer: [[1], 'rejected', [4]],
  },
  {
    pipeline: 'flowTransport',
    page: 'adapters/ai-sdk.md',
    title: 'merges two deltas',
    madeOf: ['coalesce'],
    run: async () => {
      const { flowTransport } = await import('../../src/adapters/ai-sdk.js');
      const chunks = ['Hel', 'lo'].map((delta) => ({ type: 'text-delta', id: 't', delta }) as const);
      const sendMessages = async () => streamOf(chunks);
      const transport = flowTransport({ sendMessages, reconnectToStream: async () => null });
      const trigger = 'submit-message' as const;
      const about = { chatId: 'c', messages: [], trigger, messageId: undefined, abortSignal: undefined };
      const { value } = await (await transport.sendMessages(about)).getReader().read();
      return value;
    },
    answer: { type: 'text-delta', id: 't', delta: 'Hello' },
  },
  {
    pipeline: 'coalesceEvents',
    page: 'adapters/ag-ui.md',
    title: 'merges two deltas',
    madeOf: ['coalesce'],
    run: async () => {
      const { coalesceEvents } = await import('../../src/adapters/ag-ui.js');
      return lastValueFrom(of(...DELTAS).pipe(coalesceEvents(), toArray()));
    },
    answer: [{ type: 'TEXT_MESSAGE_CONTENT', messageId: 'm', delta: 'Hello' }],
  },
  {
    pipeline: 'flowStream',
    page: 'adapters/tanstack-ai.md',
    title: 'merges two deltas',
    madeOf: ['coalesce'],
    run: async () => {
      const { flowStream } = await import('../../src/adapters/tanstack-ai.js');
      async function* answer(_messages: readonly unknown[]) {
        yield* DELTAS;
      }
      const seen: unknown[] = [];
      for await (const event of flowStream(answer)([])) seen.push(event);
      return seen;
    },
    answer: [{ type: 'TEXT_MESSAGE_CONTENT', messageId: 'm', delta: 'Hello' }],
  },
];

/** Operators that no pipeline is made of: the page, from `docs/`, whose code uses each. */
export const FOR_USERS: Readonly<Record<string, string>> = {
  adaptiveLimit: 'pipelines/create-tool-runner.md',
  backpressure: 'operators/backpressure.md',
  batch: 'operators/batch.md',
  batchMap: 'guides/first-steps.md',
  batchMapFrom: 'operators/batch-map-from.md',
  bulkheadMap: 'guides/ordering.md',
  byCost: 'values.md#bycost',
  conflateWhileBusy: 'operators/conflate-while-busy.md',
  createBreaker: 'operators/create-breaker.md',
  createIntake: 'operators/create-intake.md',
  fixed: 'guides/migrating-from-dataloader.md',
  hedge: 'operators/hedge.md',
  hedging: 'values.md#hedging',
  inputOrder: 'guides/ordering.md',
  keyedLimiter: 'operators/create-limiter.md',
  lruCache: 'pipelines/create-embedder.md',
  mergeLanes: 'operators/merge-lanes.md',
  orderPerKey: 'guides/ordering.md',
  partitionSettled: 'operators/settle-all.md',
  rateLimit: 'operators/rate-limit.md',
  resequence: 'guides/ordering.md',
  roundRobin: 'values.md#roundrobin',
  shared: 'values.md#shared',
  slidingWindow: 'operators/create-limiter.md',
  speculate: 'operators/speculate.md',
  splitItem: 'operators/batch-map.md',
  strictWithFloor: 'values.md#strictwithfloor',
  toAsyncIterable: 'operators/to-async-iterable.md',
  toReadableStream: 'operators/to-readable-stream.md',
  tokenBucket: 'guides/migrating-from-bottleneck.md',
  unwrap: 'operators/unwrap.md',
  weighted: 'operators/merge-lanes.md',
};
