// Real work through the operators of an installed package, whichever way it was loaded; see check-node.mjs.
import assert from 'node:assert/strict';
import { ReadableStream } from 'node:stream/web';

/** Each job takes what the entry points export and rejects when the package does something else than it promises. */
const jobs = {
  async batch({ rxjs: { from, lastValueFrom, toArray }, operators: { batch } }) {
    const batches = await lastValueFrom(from(numbers(10)).pipe(batch({ maxSize: 4 }), toArray()));
    assert.deepEqual(batches, [numbers(4), [4, 5, 6, 7], [8, 9]]);
  },

  async batchMap({ rxjs: { from, lastValueFrom, toArray }, operators: { batchMap, inputOrder, robust } }) {
    const double = async (items) => {
      if (items.includes(13)) throw Object.assign(new Error('one of them is bad'), { status: 400 });
      return items.map((item) => item * 2);
    };
    const options = { maxSize: 8, order: inputOrder(), repair: robust({ retry: { delayMs: 1 } }), weigh: () => 1 };
    const settled = await lastValueFrom(from(numbers(40)).pipe(batchMap(double, options), toArray()));
    assert.equal(settled.length, 40);
    assert.deepEqual(indexesOf(settled, 'rejected'), [13]);
    assert.deepEqual(
      valuesOf(settled),
      without(numbers(40), 13).map((item) => item * 2),
    );
  },

  async batchMapFrom({ rxjs: { lastValueFrom, toArray }, operators: { batchMapFrom, inputOrder, unwrap } }) {
    const pulled = batchMapFrom(new ReadableStream({ start: fill(20) }), async (items) => items.map(String), { order: inputOrder() });
    assert.deepEqual(await lastValueFrom(pulled.pipe(unwrap('all'))), numbers(20).map(String));
    assert.equal((await lastValueFrom(pulledFrom(batchMapFrom).pipe(toArray()))).length, 5);
  },

  async bulkheadMap({ rxjs: { from, lastValueFrom, toArray }, operators: { bulkheadMap, inputOrder } }) {
    let most = 0;
    let running = 0;
    const work = async (item) => {
      running += 1;
      most = Math.max(most, running);
      await later(1);
      running -= 1;
      return item;
    };
    const options = { key: (item) => item % 3, perKey: 1, concurrency: 2, order: inputOrder(), errors: 'propagate' };
    assert.deepEqual(await lastValueFrom(from(numbers(12)).pipe(bulkheadMap(work, options), toArray())), numbers(12));
    assert.equal(most, 2);
  },

  async createBatcher({ operators: { createBatcher, isFlowError } }) {
    const calls = [];
    const batcher = createBatcher(
      async (items) => {
        calls.push(items);
        return items.map((item) => item.length);
      },
      { dedupe: (item) => item },
    );
    const loads = ['a', 'bb', 'a'].map((item) => batcher.loadAsync(item));
    assert.deepEqual(await Promise.all(loads), [1, 2, 1]);
    assert.deepEqual(calls, [['a', 'bb']]);
    await batcher[Symbol.asyncDispose]();
    await assert.rejects(batcher.loadAsync('c'), (error) => isFlowError(error, 'FLOW_CLOSED'));
  },

  async createLimiter({ rxjs: { from, lastValueFrom, toArray }, operators: { createLimiter, batchMap, lanes, perMinute } }) {
    const rates = [perMinute('requests', 60_000)];
    const limiter = createLimiter({ concurrency: 2, rates, queue: lanes([{ name: 'high' }, { name: 'low' }]) });
    const held = limiter.tryAcquire({ lane: 'low' });
    const answers = await lastValueFrom(
      from(numbers(6)).pipe(
        batchMap(async (items) => items, { limiter, maxSize: 1, queue: lanes([{ name: 'high' }], { by: () => 'high' }) }),
        toArray(),
      ),
    );
    assert.equal(answers.length, 6);
    assert.equal(limiter.snapshot().executing, 1);
    held.release();
    assert.equal(await limiter.runAsync(async ({ signal }) => signal.aborted), false);
    await limiter.drain();
    assert.equal(limiter.snapshot().executing, 0);
  },

  async repairs({ rxjs: { lastValueFrom, toArray }, operators: { batchMapFrom, inputOrder, robust } }) {
    const work = async (items) => {
      if (items.some((item) => item === 5 || item === 11)) throw Object.assign(new Error('bad item'), { status: 422 });
      return items;
    };
    const options = { repair: robust({ retry: { delayMs: 1 } }), order: inputOrder() };
    const settled = await lastValueFrom(batchMapFrom(numbers(16), work, options).pipe(toArray()));
    assert.deepEqual(indexesOf(settled, 'rejected'), [5, 11]);
  },

  classifyError({ operators: { classifyError } }) {
    const throttled = classifyError({ status: 429, headers: { 'retry-after': '2' } }, { aborted: false, attempt: 1, size: 1 });
    assert.deepEqual([throttled.class, throttled.retryAfterMs], ['throttled', 2000]);
  },

  async build({ rxjs: { lastValueFrom }, build: { ShutdownHandle, check, streamOf }, operators: { policy } }) {
    class Handle extends ShutdownHandle {
      shutdown = this.shutdownOf({ operator: 'smoke', scheduler: undefined, stop: () => this.shutdown.finish(), abort() {} });
    }
    assert.deepEqual(await new Handle().drain(), { done: 0, aborted: 0, dropped: 0 });
    assert.throws(() => check.count('smoke', 'maxSize', 0), { code: 'FLOW_CONFIG_INVALID' });
    assert.equal(await lastValueFrom(streamOf(policy({ operator: 'smoke' })(() => 'answer'))), 'answer');
  },

  async fromStream({ rxjs: { lastValueFrom, take, toArray }, operators: { fromStream } }) {
    let aborted = 0;
    const chunks = fromStream((signal) => {
      signal.addEventListener('abort', () => (aborted += 1));
      return new ReadableStream({ start: (controller) => controller.enqueue('one') });
    });
    assert.deepEqual(await lastValueFrom(chunks.pipe(take(1), toArray())), ['one']);
    assert.equal(aborted, 1);
  },

  createBreaker({ rxjs: { of, throwError }, operators: { createBreaker, BreakerOpenError } }) {
    const breaker = createBreaker({ opens: { minCalls: 1 } });
    const ends = [];
    for (const work of [() => throwError(() => ({ status: 503 })), () => of('never')])
      breaker.run(work).subscribe({ next: (value) => ends.push(value), error: (error) => ends.push(error) });
    assert.equal(ends.length, 2);
    assert.ok(ends[1] instanceof BreakerOpenError);
  },

  async policy({ rxjs: { lastValueFrom }, operators: { policy, createLimiter, retryFailed } }) {
    const limiter = createLimiter({ concurrency: 1 });
    const careful = policy({ limiter, retry: retryFailed({ delayMs: 1 }) });
    const answer = careful(({ attempt }) => (attempt < 3 ? Promise.reject({ status: 503 }) : Promise.resolve(`attempt ${attempt}`)));
    assert.equal(await lastValueFrom(answer), 'attempt 3');
    assert.equal(limiter.executing, 0);
  },

  async hedge({ rxjs: { lastValueFrom, of, NEVER }, operators: { hedge } }) {
    const attempt = (index) => (index === 0 ? NEVER : of(`attempt ${index}`));
    assert.equal(await lastValueFrom(hedge(attempt, { delayMs: 1 })), 'attempt 1');
  },

  async mergeLanes({ rxjs: { from, lastValueFrom, toArray }, operators: { mergeLanes } }) {
    const lanes = ['urgent', 'rest'].map((name) => ({ name, source: from([`${name} 1`, `${name} 2`]), maxWaitMs: 1 }));
    const merged = await lastValueFrom(mergeLanes(lanes, { maxSize: 3 }).pipe(toArray()));
    assert.deepEqual(merged.flatMap(({ items }) => items).sort(), ['rest 1', 'rest 2', 'urgent 1', 'urgent 2']);
  },

  async settleAll({ rxjs: { lastValueFrom }, operators: { settleAll, GuardRefusedError } }) {
    const guard = (item) => item !== 2 || 'not two';
    const settled = await lastValueFrom(settleAll(numbers(4), async (item) => item, { guard, concurrency: 2 }));
    assert.deepEqual(valuesOf(settled), [0, 1, 3]);
    assert.ok(settled[2].reason instanceof GuardRefusedError);
  },

  async speculate({ rxjs: { lastValueFrom, of, timer, map, toArray }, operators: { speculate } }) {
    const runs = [];
    const options = {
      predict: of('weather'),
      confirm: timer(2).pipe(map(() => 'weather')),
      match: (predicted, confirmed) => predicted === confirmed,
    };
    const run = (call, { isSpeculative }) => {
      runs.push(isSpeculative);
      return of(`answer to ${call}`);
    };
    assert.deepEqual(await lastValueFrom(speculate(run, options).pipe(toArray())), ['answer to weather']);
    assert.deepEqual(runs, [true]);
  },

  async switchLatest({ rxjs: { from, lastValueFrom, toArray }, operators: { switchLatest } }) {
    const aborted = [];
    const project = async (item, { signal }) => {
      signal.addEventListener('abort', () => aborted.push(item));
      await later(2);
      return item;
    };
    assert.deepEqual(await lastValueFrom(from(numbers(3)).pipe(switchLatest(project), toArray())), [2]);
    assert.deepEqual(aborted, [0, 1]);
  },

  errors({ operators: { batch, isFlowError, FlowConfigError } }) {
    const error = caught(() => batch({ maxSize: 0 }));
    assert.ok(error instanceof FlowConfigError && isFlowError(error, 'FLOW_CONFIG_INVALID'));
    assert.match(error.message, /^batch: expected `maxSize` to be /);
  },

  metrics({ metrics: { createMetrics, logFields } }) {
    const metrics = createMetrics();
    metrics.sink({ type: 'drained', operator: 'createEmbedder', instance: 'documents' });
    assert.equal(metrics.snapshot().flow.calls, 0);
    assert.equal(logFields({ type: 'drained', operator: 'createEmbedder', instance: 'documents' }).event, 'drained');
  },

  interop({ rxjs: { of }, interop: { fromSubscribable } }) {
    const seen = [];
    fromSubscribable(() => of(1, 2)).subscribe((value) => seen.push(value));
    assert.deepEqual(seen, [1, 2]);
  },

  marbles({ rxjs: { delay }, marbles: { draw, leakCheck, virtualTime } }) {
    const drawing = draw({
      inputs: { source: '-a-|' },
      build: ({ input }) => input('source').pipe(delay(1)),
      operator: 'delay',
      title: 'late',
      label: 'delay',
    });
    assert.match(drawing, /delay/);
    const leaks = leakCheck();
    leaks.verify();
    leaks[Symbol.dispose]();
    const passed = virtualTime((clock) => {
      clock.advance(1000);
      return clock.now();
    });
    assert.equal(passed, 1000);
  },

  async adapters({ fetch: { limitFetch }, openai: { limitOpenAI }, operators: { createLimiter }, ...modules }) {
    const limiter = createLimiter({ concurrency: 1 });
    const { readable, writable } = new globalThis.TransformStream();
    const limited = limitFetch({ limiter, fetch: async () => new globalThis.Response(readable) });
    const response = await limited('http://127.0.0.1/v1/sums', { method: 'POST', body: '{}' });
    assert.equal(limiter.executing, 1);
    const writer = writable.getWriter();
    writer.write(new globalThis.TextEncoder().encode('{"answer":4}')).then(() => writer.close());
    assert.deepEqual(await response.json(), { answer: 4 });
    assert.equal(limiter.executing, 0);
    assert.throws(() => limitOpenAI({}), { code: 'FLOW_CONFIG_INVALID' });
    const { aiSdk, anthropic, langchain, langchainAgents, mcp, mcpV1, openaiAgents } = modules;
    const made = [anthropic.createAnthropicMiddleware, langchainAgents.createModelMiddleware];
    for (const make of made) assert.ok(make({ limiter }));
    assert.equal(aiSdk.limitLanguageModel({ modelId: 'm', doGenerate: () => undefined }, { limiter }).modelId, 'm');
    for (const { limitMcp } of [mcp, mcpV1]) assert.throws(() => limitMcp({}, null), { code: 'FLOW_CONFIG_INVALID' });
    assert.throws(() => langchain.limitEmbeddings({}), { code: 'FLOW_CONFIG_INVALID' });
    assert.throws(() => openaiAgents.limitModel({}), { code: 'FLOW_CONFIG_INVALID' });
  },

  edge({ edge: { parseConfig } }) {
    assert.deepEqual(parseConfig('limits: { concurrency: 2 }').value?.limits, { concurrency: 2 });
    assert.equal(parseConfig('limits: { concurrency: 0 }').value, undefined);
  },

  async tokenizers({ root: { estimateTokens }, tokenizers: { createGptTokenCounter } }) {
    const count = await createGptTokenCounter();
    assert.equal(count('Four score and seven years ago'), 6);
    assert.ok(estimateTokens('Four score and seven years ago') >= 6);
  },

  async createEmbedder({ rxjs: { lastValueFrom }, root: { createEmbedder, embeddings } }) {
    const fetch = async (_url, { body }) => {
      const { input } = JSON.parse(body);
      return globalThis.Response.json({
        data: input.map((text, index) => ({ index, embedding: [text.length, 1] })),
        usage: { prompt_tokens: 1 },
      });
    };
    const embedder = createEmbedder({ call: embeddings({ baseUrl: 'http://127.0.0.1/v1', model: 'small', fetch }) });
    assert.deepEqual([...(await lastValueFrom(embedder.embed('four')))], [4, 1]);
    await embedder.drain();
  },
};

/** Runs every job; rejects with the name of the first that fails. */
export async function smoke(modules) {
  for (const [name, job] of Object.entries(jobs)) {
    try {
      await job(modules);
    } catch (error) {
      throw new Error(`${name}: ${error.message}`, { cause: error });
    }
  }
  return Object.keys(jobs).length;
}

function numbers(count) {
  return Array.from({ length: count }, (_, index) => index);
}

function fill(count) {
  return (controller) => {
    for (const item of numbers(count)) controller.enqueue(item);
    controller.close();
  };
}

function pulledFrom(batchMapFrom) {
  return batchMapFrom(asyncNumbers(5), async (items) => items);
}

async function* asyncNumbers(count) {
  for (const item of numbers(count)) yield item;
}

function without(items, left) {
  return items.filter((item) => item !== left);
}

function valuesOf(settled) {
  return settled.filter(({ status }) => status === 'fulfilled').map(({ value }) => value);
}

function indexesOf(settled, wanted) {
  return settled
    .filter(({ status }) => status === wanted)
    .map(({ index }) => index)
    .sort((a, b) => a - b);
}

function later(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

function caught(action) {
  try {
    action();
  } catch (error) {
    return error;
  }
  throw new Error('expected an error');
}
