import type { Observable } from 'rxjs';
import { firstValueFrom, from, lastValueFrom, of, toArray } from 'rxjs';
import { describe, expect, it } from 'vitest';
import {
  batch,
  bulkheadMap,
  childOf,
  createBreaker,
  createIntake,
  createLimiter,
  divideAndConquer,
  fromHeaders,
  hedge,
  hedging,
  keyedLimiter,
  lruCache,
  mergeLanes,
  perDay,
  perMinute,
  policy,
  rateLimit,
  retryFailed,
  settleAll,
  slidingWindow,
} from '../operators/index.js';
import { limitFetch } from '../src/adapters/fetch.js';
import {
  answerCache,
  batchMap,
  chatCompletions,
  createAccount,
  createAgentTurn,
  createBatcher,
  createBudget,
  createEmbedder,
  createModelCaller,
  createStages,
  createToolRunner,
  defineTool,
  embeddings,
  lanes,
  robust,
  withJob,
} from '../src/index.js';
import { createMetrics } from '../src/metrics/index.js';

type Given = Readonly<Record<string, unknown>>;

/** What is made of options, and a use of it that comes by all of them. */
interface Subject {
  readonly options: Given;
  readonly make: (options: never) => (() => unknown) | undefined;
}

const LANES = [
  { name: 'user', maxQueued: 10, reserve: 0.1 },
  { name: 'normal', floor: 0.2 },
];
const RETRY = { maxAttempts: 2, delayMs: 1, maxMs: 2, jitter: 'none', maxShare: 0.5, maxThrottledMs: 10 };
const PRICE = { inputUsdPerMillion: 1, outputUsdPerMillion: 2 };
const chat = (): Response =>
  Response.json({
    choices: [{ index: 0, message: { role: 'assistant', content: 'yes' }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 3, completion_tokens: 1 },
  });
const BODY = { method: 'POST', body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hello' }] }) };

/** A schema, as a library makes it. */
class AnySchema {
  safeParse(data: unknown) {
    return { success: true, data };
  }
}

let failures = 0;
/** Fails every second time. */
const nowAndThen = async (value: readonly number[]): Promise<readonly number[]> => {
  if (failures++ % 2 === 0) throw Object.assign(new Error('busy'), { status: 503 });
  return value;
};
const items = () => from([1, 2, 3, 4]);
const all = (source: Observable<unknown>): Promise<readonly unknown[]> => lastValueFrom(source.pipe(toArray()));
const same = (texts: readonly number[]) => of(texts);

const subjects: Readonly<Record<string, Subject>> = {
  batch: {
    options: { maxSize: 2, maxWaitMs: 1 },
    make: (options) => {
      const operator = batch<number>(options);
      return () => all(items().pipe(operator));
    },
  },
  batchMap: {
    options: { maxSize: 2, concurrency: 2, repair: [retryFailed(RETRY as never)], deadlineMs: 1000 },
    make: (options) => {
      const operator = batchMap((texts: readonly number[]) => nowAndThen(texts), options);
      return () => all(items().pipe(operator));
    },
  },
  retryFailed: {
    options: RETRY,
    make: (options) => {
      const repair = retryFailed(options);
      return () => all(items().pipe(batchMap((texts: readonly number[]) => nowAndThen(texts), { repair })));
    },
  },
  robust: {
    options: { retry: RETRY, divide: { parts: 2, maxCalls: 10 } },
    make: (options) => {
      const repair = robust(options);
      return () => all(items().pipe(batchMap((texts: readonly number[]) => nowAndThen(texts), { repair })));
    },
  },
  divideAndConquer: {
    options: { parts: 2, maxCalls: 10 },
    make: (options) => {
      const repair = divideAndConquer(options);
      const work = (texts: readonly number[]) => {
        if (texts.length > 1) throw Object.assign(new Error('bad'), { status: 400 });
        return of(texts);
      };
      return () => all(items().pipe(batchMap(work, { repair, maxSize: 4 })));
    },
  },
  bulkheadMap: {
    options: { concurrency: 2, maxQueued: 10, overflow: 'error', perKey: 1, stopKey: true },
    make: (options) => {
      const operator = bulkheadMap((item: number) => of(item), { key: (item: number) => item % 2, ...(options as object) });
      return () => all(items().pipe(operator));
    },
  },
  rateLimit: {
    options: { maxQueued: 10, overflow: 'error' },
    make: (options) => {
      const operator = rateLimit<number>(createLimiter({ concurrency: 2 }), { tokens: 3 }, options);
      return () => all(items().pipe(operator));
    },
  },
  'rateLimit, cost': {
    options: { tokens: 3, requests: 2 },
    make: (cost) => {
      const operator = rateLimit<number>(createLimiter(), cost);
      return () => all(items().pipe(operator));
    },
  },
  settleAll: {
    options: { errors: 'settle', concurrency: 2 },
    make: (options) => {
      const settled = settleAll([1, 2], (item: number) => of(item), options);
      return () => all(settled);
    },
  },
  mergeLanes: {
    options: { maxSize: 2, maxQueued: 10 },
    make: (options) => {
      const merged = mergeLanes(
        [
          { name: 'a', source: of(1, 2) },
          { name: 'b', source: of(3) },
        ],
        options,
      );
      return () => all(merged);
    },
  },
  'mergeLanes, lanes': {
    options: {
      list: [
        { name: 'a', source: of(1, 2), maxWaitMs: 1 },
        { name: 'b', source: of(3), floor: 0.3 },
      ],
    },
    make: ({ list }: { list: never }) => {
      const merged = mergeLanes(list, { maxSize: 2 }) as Observable<unknown>;
      return () => all(merged);
    },
  },
  lanes: {
    options: { list: LANES, rest: { by: (item: number) => (item > 2 ? 'user' : 'normal'), key: (item: number) => item } },
    make: ({ list, rest }: { list: never; rest: never }) => {
      const queue = lanes<number>(list, rest);
      return () => all(items().pipe(batchMap(same, { queue, maxSize: 2 })));
    },
  },
  lruCache: {
    options: { ttlMs: 1000 },
    make: (options) => {
      const cache = lruCache(2, options);
      const batcher = createBatcher(same, { cache });
      return () => Promise.all([1, 2, 3].map((item) => batcher.loadAsync(item)));
    },
  },
  createBatcher: {
    options: { maxSize: 2, concurrency: 2, repair: [retryFailed(RETRY as never)] },
    make: (options) => {
      const batcher = createBatcher((texts: readonly number[]) => nowAndThen(texts), options);
      return () => Promise.allSettled([1, 2, 3].map((item) => batcher.loadAsync(item)));
    },
  },
  createIntake: {
    options: { maxQueued: 10, highWater: 5, lowWater: 2 },
    make: (options) => {
      const intake = createIntake<number>(options);
      return () => {
        void intake.offer(1);
        intake.close();
      };
    },
  },
  createBreaker: {
    options: { opens: { minCalls: 1, share: 0.5 }, closes: { probes: 1, share: 1 }, openMs: 10, name: 'b' },
    make: (options) => {
      const breaker = createBreaker(options);
      return async () => {
        for (let i = 0; i < 4; i++) await firstValueFrom(breaker.run(() => from(nowAndThen([1])))).catch(() => undefined);
        breaker.save();
      };
    },
  },
  createLimiter: {
    options: {
      concurrency: 2,
      rates: [perMinute('tokens', 6000), slidingWindow({ unit: 'requests', amount: 100, windowMs: 60_000 }), perDay('requests', 1000)],
      queue: lanes(LANES),
      learn: fromHeaders(),
      maxQueued: 10,
      restore: { at: 0, pausedForMs: 0, rates: [{ unit: 'tokens', windowMs: 60_000, isStrict: false, spent: [1] }] },
    },
    make: (options) => {
      const limiter = createLimiter(options);
      return async () => {
        await Promise.all([1, 2, 3].map(() => limiter.runAsync(() => of(1), { lane: 'normal', cost: { tokens: 3 } })));
        limiter.observe({ status: 200, headers: { 'x-ratelimit-limit-tokens': '600', 'x-ratelimit-remaining-tokens': '5' } });
        limiter.snapshot();
        limiter.save();
      };
    },
  },
  'createLimiter, job': {
    options: { lane: 'normal', key: 'k', id: 'i', cost: { tokens: 3, slots: 1 }, deadlineMs: 1000 },
    make: (job) => {
      const limiter = createLimiter({
        concurrency: 1,
        rates: [perMinute('tokens', 6000)],
        queue: lanes(LANES, { key: ({ key }: { key?: unknown }) => key }),
      });
      const held = limiter.tryAcquire();
      const asked = limiter.runAsync(() => of(1), job);
      return async () => {
        limiter.move('i', 'user');
        held?.release();
        await asked;
      };
    },
  },
  'createLimiter, setLimits': {
    options: { concurrency: 1, rates: [perMinute('pages', 60)] },
    make: (limits) => {
      const limiter = createLimiter();
      limiter.setLimits(limits);
      return () => limiter.runAsync(() => of(1), { cost: { pages: 1 } });
    },
  },
  'limiter.observe': {
    options: { status: 429, headers: { 'retry-after-ms': '1' } },
    make: (response) => {
      const limiter = createAccount();
      limiter.observe(response);
      return () => limiter.runAsync(() => of(1));
    },
  },
  keyedLimiter: {
    options: { concurrency: 2, rates: [perMinute('tokens', 6000)], maxKeys: 10, queue: lanes(LANES) },
    make: (options) => {
      const limiter = keyedLimiter(options);
      return () => Promise.all([1, 2].map((key) => limiter.runAsync(() => of(1), { key, lane: 'user', cost: { tokens: 3 } })));
    },
  },
  childOf: {
    options: { concurrency: 1, rates: [perMinute('tokens', 6000)], maxQueued: 10 },
    make: (options) => {
      const child = childOf(createLimiter({ concurrency: 4 }), options);
      return () => Promise.all([1, 2].map(() => child.runAsync(() => of(1), { cost: { tokens: 3 } })));
    },
  },
  createAccount: {
    options: {
      concurrency: 2,
      tokensPerMinute: 6000,
      requestsPerDay: 100,
      dayStartsAt: { timeZone: 'Europe/Berlin', hour: 3 },
      lanes: ['user', { name: 'normal', floor: 0.2 }],
      models: [
        { model: ['small', 'tiny'], requestsPerMinute: 60 },
        { model: 'large', concurrency: 1 },
      ],
      provider: {
        cacheReads: 'free',
        outputCharged: 'asGenerated',
        unusedOutput: 'returned',
        tokensCharged: 'sum',
        refusedInput: 'returned',
        failedInput: 'kept',
        name: 'own',
      },
      onRecord: () => undefined,
    },
    make: (options) => {
      const account = createAccount(options);
      const limited = limitFetch({ limiter: account, fetch: () => Promise.resolve(chat()) });
      return async () => {
        await Promise.all(
          ['small', 'large', 'other'].map((model) => account.runAsync(() => of(1), { model, lane: 'normal', cost: { tokens: 3 } })),
        );
        await (await limited('https://host/v1/chat/completions', BODY)).text();
        account.snapshot();
      };
    },
  },
  withJob: {
    options: { lane: 'user', key: 'k', name: 'n', traceId: 't' },
    make: (job) => {
      const account = createAccount({ onRecord: () => undefined });
      const limited = limitFetch({ limiter: account, fetch: () => Promise.resolve(chat()) });
      let go: () => void = () => undefined;
      const gate = new Promise<void>((resolve) => (go = resolve));
      const asked = withJob(job, async () => {
        await gate;
        return (await limited('https://host/v1/chat/completions', BODY)).text();
      });
      return () => {
        go();
        return asked;
      };
    },
  },
  policy: {
    options: { job: { lane: 'normal', cost: { tokens: 3 } }, retry: retryFailed(RETRY as never), timeoutMs: 1000, name: 'p' },
    make: (options) => {
      const limiter = createLimiter({ queue: lanes(LANES), rates: [perMinute('tokens', 6000)] });
      const run = policy({ ...(options as object), limiter, job: (options as { job: never }).job });
      return () => firstValueFrom(run(() => from(nowAndThen([1])))).catch(() => undefined);
    },
  },
  hedge: {
    options: { delayMs: 0, maxAttempts: 2, maxShare: 1, job: { lane: 'normal', cost: { tokens: 3 } } },
    make: (options) => {
      const limiter = createLimiter({ queue: lanes(LANES) });
      const hedged = hedge(() => from(new Promise((resolve) => setTimeout(resolve, 2))), { ...(options as object), limiter });
      return () => all(hedged);
    },
  },
  createBudget: {
    options: {
      limits: [
        { usd: 1, windowMs: 1000 },
        { tokens: 1000, model: 'm' },
      ],
      prices: { m: PRICE },
      warnAt: 0.5,
    },
    make: (options) => {
      const budget = createBudget(options);
      return () => {
        budget.reserve({ model: 'm', key: 'k', inputTokens: 5, outputTokens: 5 }).settle({ inputTokens: 3, outputTokens: 1 });
        budget.snapshot();
      };
    },
  },
  createMetrics: {
    options: { windowMs: 1000, maxLabels: 5 },
    make: (options) => {
      const metrics = createMetrics(options);
      return () => {
        metrics.sink({ type: 'accepted', operator: 'o', lane: 'l', queued: 1 });
        metrics.snapshot();
      };
    },
  },
  embeddings: {
    options: {
      baseUrl: 'https://host/v1',
      model: 'm',
      apiKey: 'k',
      headers: { 'x-a': 'b' },
      fetch: (_url: string, { body }: { body: string }) => {
        const { input } = JSON.parse(body) as { input: string[] };
        return Promise.resolve(Response.json({ data: input.map((_, index) => ({ index, embedding: [1] })), usage: { prompt_tokens: 2 } }));
      },
    },
    make: (options) => {
      const embedder = createEmbedder({ call: embeddings(options), maxSize: 2 });
      return () => Promise.all(['a', 'b', 'c'].map((text) => embedder.embedAsync(text)));
    },
  },
  createEmbedder: {
    options: { call: { embed: (texts: readonly string[]) => of(texts.map(() => [1])), model: 'm' }, maxSize: 2, lanes: [{ name: 'a' }] },
    make: (options) => {
      const embedder = createEmbedder(options);
      return () => Promise.all(['a', 'b', 'c'].map((text) => embedder.embedAsync(text)));
    },
  },
  createModelCaller: {
    options: {
      call: {
        send: () => Promise.resolve(1),
        stream: () => of(1),
        model: () => 'm',
        cost: () => 1,
        usage: () => ({ tokens: 1 }),
      },
      lanes: [{ name: 'user' }, { name: 'normal', maxQueued: 10 }],
      retry: RETRY,
      hedge: hedging({ delayMs: 1000 }),
      cache: answerCache({ key: (request: unknown) => JSON.stringify(request), ttlMs: 1000 }),
      fixAnswer: { rounds: 1, ask: (request: unknown) => request },
      parse: (text: string) => text,
    },
    make: (options) => {
      const models = createModelCaller(options) as { callAsync(request: unknown, options: object): Promise<unknown> };
      return async () => {
        for (const content of ['a', 'b', 'a']) await models.callAsync({ messages: [{ role: 'user', content }] }, { lane: 'user' });
      };
    },
  },
  chatCompletions: {
    options: {
      baseUrl: 'https://host/v1',
      model: 'm',
      apiKey: 'k',
      headers: { 'x-a': 'b' },
      fetch: () => Promise.resolve(chat()),
    },
    make: (options) => {
      const models = createModelCaller({ call: chatCompletions(options) });
      return () => models.callAsync({ messages: [{ role: 'user', content: 'a' }] });
    },
  },
  createToolRunner: {
    options: {
      tools: [
        { ...defineTool({ name: 't', description: 'd', parameters: new AnySchema() as never, execute: () => 'one', concurrency: 1 }) },
      ],
      retry: RETRY,
      maxResultChars: 100,
    },
    make: (options) => {
      const runner = createToolRunner(options) as { runAllAsync(calls: unknown): Promise<{ results: readonly { content: unknown }[] }> };
      return async () => {
        const { results } = await runner.runAllAsync([{ id: '1', name: 't', input: {} }]);
        expect(results[0]?.content).toBe('one');
      };
    },
  },
  createStages: {
    options: {
      stages: [{ name: 'answer', work: (question: string) => question, retry: RETRY, cost: { tokens: 3 }, timeoutMs: 1000 }],
      batches: { concurrency: 2, scheduling: 'priority', priority: () => 0, maxQueued: 5 },
    },
    make: ({ stages: list, ...rest }: { stages: never; batches: never }) => {
      const stages = createStages(list, rest) as { run(input: unknown): Observable<unknown> };
      return () => all(stages.run(['a', 'b']));
    },
  },
  createAgentTurn: {
    options: {
      model: () => of({ choices: [{ index: 0, delta: { content: 'yes' }, finish_reason: 'stop' }] }),
      maxSteps: 2,
    },
    make: (options) => {
      const turns = createAgentTurn(options) as { ask(text: string): Observable<unknown> };
      return () => all(turns.ask('hello'));
    },
  },
  limitFetch: {
    options: {
      job: { lane: 'normal', key: 'k', cost: { tokens: 3 } },
      retry: RETRY,
      timeoutMs: 1000,
      fetch: () => Promise.resolve(chat()),
    },
    make: (options) => {
      const limiter = createAccount();
      const limited = limitFetch({ ...(options as object), limiter });
      return async () => (await limited('https://host/v1/chat/completions', BODY)).text();
    },
  },
};

/** Records and lists of options, whatever is inside them: each read of one of their fields once `sealed` is kept. */
function watched<T>(value: T, seen: { isSealed: boolean; readonly reads: Set<string> }, path = ''): T {
  const isPlain =
    Array.isArray(value) || (typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype);
  // A rule that the library has made is no option: it is read where it is used.
  if (!isPlain || isRule(value)) return value;
  const copy: object = Array.isArray(value) ? [] : {};
  for (const [name, field] of Object.entries(value as object))
    Object.assign(copy, { [name]: watched(field as unknown, seen, `${path}.${name}`) });
  const note = (name: string | symbol): void => {
    if (seen.isSealed) seen.reads.add(`${path}.${String(name)}`);
  };
  return new Proxy(copy, {
    get: (target, name) => {
      note(name);
      return Reflect.get(target, name) as unknown;
    },
    has: (target, name) => {
      note(name);
      return Reflect.has(target, name);
    },
    ownKeys: (target) => {
      note('keys');
      return Reflect.ownKeys(target);
    },
  }) as T;
}

function isRule(value: unknown): boolean {
  return ['addTo', 'create', 'failed', 'meter'].some(
    (method) => typeof (value as Readonly<Record<string, unknown>>)[method] === 'function',
  );
}

describe('options', () => {
  it.each(Object.entries(subjects))('of %s are copied: no field of them is read after it was made', async (_name, { options, make }) => {
    const seen = { isSealed: false, reads: new Set<string>() };
    const use = make(watched(options, seen) as never);
    seen.isSealed = true;
    await use?.();
    expect([...seen.reads]).toEqual([]);
  });

  it('that are read later are seen', () => {
    const seen = { isSealed: false, reads: new Set<string>() };
    const options = watched({ counts: ['a'], opens: { share: 1 } }, seen);
    seen.isSealed = true;
    expect([options.counts.includes('b'), options.opens.share, { ...options }.opens]).toBeDefined();
    expect(seen.reads.size).toBeGreaterThan(3);
  });
});
