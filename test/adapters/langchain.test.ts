import { Embeddings } from '@langchain/core/embeddings';
import { AsyncCaller } from '@langchain/core/utils/async_caller';
import { ChatOpenAI, OpenAIEmbeddings } from '@langchain/openai';
import { BadRequestError, RateLimitError } from 'openai';
import { VirtualTimeScheduler } from 'rxjs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { FlowEvent } from '../../operators/index.js';
import {
  ClosedError,
  createAccount,
  createLimiter,
  divideAndConquer,
  FlowConfigError,
  fixed,
  graded,
  LaneUnknownError,
  natural,
  robust,
} from '../../operators/index.js';
import { providers } from '../../src/account/providers.js';
import { limitFetch } from '../../src/adapters/fetch.js';
import type { InnerEmbeddings } from '../../src/adapters/langchain/inner-embeddings.js';
import type { LimitEmbeddingsOptions, LimitedEmbeddings } from '../../src/adapters/langchain.js';
import { limitEmbeddings } from '../../src/adapters/langchain.js';
import type { ModelApi } from '../fakes/model-api.js';
import { startModelApi } from '../fakes/model-api.js';
import { vectorOf } from '../fakes/model-api-embeddings.js';
import { expectNoUnhandledRejections, settle } from '../support/rejections.js';

const LONG = { timeout: 20_000 };
const soon = { timeout: 10_000 };
const retry = { delayMs: 1, jitter: 'none' } as const;
const repair = robust({ retry });
/** Many chunks, 20 ms apart. */
const LONG_TEXT = 'word '.repeat(60);

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

type Fields = ConstructorParameters<typeof OpenAIEmbeddings>[0];

/** With LangChain's own six retries and two calls at a time. */
const openai = (fields: Fields = {}, fetch?: typeof globalThis.fetch): OpenAIEmbeddings =>
  new OpenAIEmbeddings({ apiKey: 'k', model: 'm', configuration: { baseURL: api.baseUrl, ...(fetch && { fetch }) }, ...fields });
const flow = ({ embeddings, ...options }: LimitEmbeddingsOptions & { readonly embeddings?: InnerEmbeddings } = {}): LimitedEmbeddings =>
  limitEmbeddings(embeddings ?? openai(), { repair, window: natural(), ...options });
const sizes = (): number[] => api.requests.map(({ body }) => (body as { input: unknown[] }).input.length);
/** Timers that are set. */
const pending = ({ actions }: VirtualTimeScheduler): number => actions.filter(({ closed }) => !closed).length;
const run = (scheduler: VirtualTimeScheduler, untilMs: number): void => {
  scheduler.maxFrames = untilMs;
  scheduler.flush();
};
const texts = (count: number, name = 'text'): string[] => Array.from({ length: count }, (_, i) => `${name} ${String(i)}`);

describe('limitEmbeddings', LONG, () => {
  expectNoUnhandledRejections();

  it('is one of LangChain, and sends the texts of all its callers together', async () => {
    const embeddings = flow({ maxSize: 4, concurrency: 1 });
    expect(embeddings).toBeInstanceOf(Embeddings);
    const [one, two, three] = await Promise.all([
      embeddings.embedDocuments(['a', 'b']),
      embeddings.embedDocuments(['c', 'd', 'e']),
      embeddings.embedDocuments(['f']),
    ]);
    expect(one).toEqual([vectorOf('a'), vectorOf('b')]);
    expect(two).toEqual([vectorOf('c'), vectorOf('d'), vectorOf('e')]);
    expect(three).toEqual([vectorOf('f')]);
    expect(sizes()).toEqual([4, 2]);
  });

  it('sends nothing for no texts, and equal texts under way once', async () => {
    const embeddings = flow();
    expect(await embeddings.embedDocuments([])).toEqual([]);
    expect(await embeddings.embedSettled([])).toEqual([]);
    expect(api.requests).toHaveLength(0);
    const [twice, other] = await Promise.all([embeddings.embedDocuments(['a', 'a']), embeddings.embedDocuments(['a'])]);
    expect([...twice, ...other]).toEqual([vectorOf('a'), vectorOf('a'), vectorOf('a')]);
    expect(sizes()).toEqual([1]);
  });

  it('is as large a batch as the embeddings can send, and no larger', async () => {
    const embeddings = flow({ embeddings: openai({ batchSize: 3 }) });
    await embeddings.embedDocuments(texts(7));
    expect(sizes().toSorted()).toEqual([1, 3, 3]);
    expect(() => flow({ embeddings: openai({ batchSize: 3 }), maxSize: 4 })).toThrow(
      'limitEmbeddings: expected `maxSize` to be at most 3, the `batchSize` of the embeddings, got `4` (number)',
    );
  });

  it('fails what got no vector alone: null, NaN, another length', async () => {
    const wrong: Readonly<Record<string, unknown>> = { b: null, d: [1, NaN], f: [1, 2, 3] };
    const of = (text: string) => (text in wrong ? wrong[text] : [1, 2]) as number[];
    const inner = {
      embedDocuments: (all: string[]) => Promise.resolve(all.map(of)),
      embedQuery: (text: string) => Promise.resolve(of(text)),
    };
    const embeddings = limitEmbeddings(inner, { repair: divideAndConquer() });
    const asked = ['a', 'b', 'c', 'd', 'e', 'f', 'g'];
    const settled = await embeddings.embedSettled(asked);
    expect(settled.map((one) => (one.status === 'fulfilled' ? one.value.length : (one.reason as Error).name))).toEqual(
      asked.map((text) => (text in wrong ? 'BatchShapeError' : 2)),
    );
    await expect(embeddings.embedQuery('b')).rejects.toThrow('no vector of finite numbers');
    expect(await embeddings.embedQuery('a')).toEqual([1, 2]);
  });

  it('keeps to the tokens of a call, and refuses a text that is too long unsent', async () => {
    const embeddings = flow({ countTokens: (text) => text.length, maxTokens: 10, maxTokensPerText: 8, concurrency: 1 });
    await embeddings.embedDocuments(['aaaaa', 'bbbbb', 'ccccc']);
    expect(sizes()).toEqual([2, 1]);
    const [long, short] = await embeddings.embedSettled(['x'.repeat(9), 'short']);
    expect(long).toMatchObject({ status: 'rejected', reason: { code: 'FLOW_ITEM_TOO_HEAVY' }, index: 0 });
    expect(short).toMatchObject({ status: 'fulfilled', value: vectorOf('short'), index: 1, id: '1' });
  });

  describe('a poisoned text', () => {
    it.each([true, false])('rejects only its own caller, with the error of OpenAI (the error names the text: %s)', async (namePoison) => {
      await start({ namePoison });
      const embeddings = flow();
      const bad = embeddings.embedDocuments(['before', 'POISON', 'after']);
      const good = embeddings.embedDocuments(texts(20));
      const question = embeddings.embedQuery('a question');
      await expect(bad).rejects.toBeInstanceOf(BadRequestError);
      await expect(bad).rejects.toMatchObject({ status: 400, message: expect.stringContaining('Invalid') as string });
      expect(await good).toEqual(texts(20).map((text) => vectorOf(text)));
      expect(await question).toEqual(vectorOf('a question'));
    });

    it('is one of the results of embedSettled', async () => {
      const settled = await flow().embedSettled(['before', 'POISON', 'after']);
      expect(settled.map(({ status, input, index }) => [status, input, index])).toEqual([
        ['fulfilled', 'before', 0],
        ['rejected', 'POISON', 1],
        ['fulfilled', 'after', 2],
      ]);
    });

    it('cancels the remaining texts of its own call', async () => {
      await start({ latencyMs: 50 });
      const embeddings = flow({ maxSize: 1, concurrency: 1 });
      await expect(embeddings.embedDocuments(['POISON', ...texts(50)])).rejects.toBeInstanceOf(BadRequestError);
      expect(embeddings.snapshot().queued).toBe(0);
      await embeddings.drain();
      expect(api.requests.length).toBeLessThan(5);
    });
  });

  describe('questions', () => {
    it('go before documents that wait', async () => {
      await start({ latencyMs: 100 });
      const embeddings = flow({ maxSize: 2, concurrency: 1 });
      const documents = embeddings.embedDocuments(texts(10));
      await expect.poll(() => api.requests.length, soon).toBeGreaterThan(0);
      const sent = api.requests.length;
      expect(await embeddings.embedQuery('why?')).toEqual(vectorOf('why?'));
      await documents;
      const inputs = api.requests.map(({ body }) => (body as { input: string[] }).input);
      expect(inputs).toHaveLength(6);
      expect(inputs.findIndex((input) => input.includes('why?'))).toBeLessThanOrEqual(sent);
    });

    it('travel in the lane they are told to, and in no other', async () => {
      const names = [{ name: 'live' }, { name: 'batch' }];
      const seen: FlowEvent[] = [];
      const embeddings = flow({ lanes: names, onEvent: (event) => seen.push(event) });
      await embeddings.embedQuery('a');
      await embeddings.embedQuery('b', { lane: 'batch' });
      await embeddings.embedDocuments(['c']);
      expect(seen.flatMap((event) => (event.type === 'accepted' ? [event.lane] : []))).toEqual(['live', 'batch', 'batch']);
      await expect(embeddings.embedQuery('c', { lane: 'fast' })).rejects.toBeInstanceOf(LaneUnknownError);
    });

    it('are asked as questions, one by one and under the same limits, when the model wants that', async () => {
      const asked: string[] = [];
      let running = 0;
      let most = 0;
      const busy = async (what: string): Promise<void> => {
        most = Math.max(most, ++running);
        asked.push(what);
        await new Promise((done) => setTimeout(done, 5));
        running--;
      };
      const inner = {
        embedQuery: async (text: string) => busy(`question ${text}`).then(() => [1]),
        embedDocuments: async (all: string[]) => busy(`documents ${all.join()}`).then(() => all.map(() => [2])),
      };
      const embeddings = flow({ embeddings: inner, queries: 'alone', concurrency: 1 });
      const [question, documents] = await Promise.all([
        Promise.all([embeddings.embedQuery('a'), embeddings.embedQuery('b'), embeddings.embedQuery('a')]),
        embeddings.embedDocuments(['a', 'c']),
      ]);
      expect(question).toEqual([[1], [1], [1]]);
      expect(documents).toEqual([[2], [2]]);
      expect(asked.toSorted()).toEqual(['documents a,c', 'question a', 'question b']);
      expect(most).toBe(1);
      expect(await embeddings.drain()).toEqual({ done: 0, aborted: 0, dropped: 0 });
      await expect(embeddings.embedQuery('late')).rejects.toBeInstanceOf(ClosedError);
      await expect(embeddings.embedDocuments(['late'])).rejects.toBeInstanceOf(ClosedError);
    });
  });

  describe('attempts', () => {
    it('are ours alone, with the retries of LangChain left on', async () => {
      const limiter = createLimiter({ concurrency: 4 });
      const failure = { status: 503, message: 'overloaded' };
      api.fail(failure, failure, failure, failure, failure, failure);
      const embeddings = flow({ embeddings: openai({ maxRetries: 6 }), limiter, repair: robust({ retry: { ...retry, maxAttempts: 3 } }) });
      await expect(embeddings.embedDocuments(['a'])).rejects.toMatchObject({ status: 503 });
      expect(api.requests).toHaveLength(3);
      expect(limiter.executing).toBe(0);
    });

    it('are retried when the server says so, and every other call waits with them', async () => {
      const embeddings = flow();
      api.fail({ status: 429, headers: { 'retry-after-ms': '150' }, message: 'slow down' });
      expect(await embeddings.embedQuery('again')).toEqual(vectorOf('again'));
      const [first, second] = api.requests;
      expect((second?.at ?? 0) - (first?.at ?? 0)).toBeGreaterThanOrEqual(140);
      expect(api.requests).toHaveLength(2);
    });

    it('end with the error of OpenAI', async () => {
      api.fail({ status: 429, headers: { 'retry-after-ms': '1' }, message: 'Too many of them.' });
      const failed = flow({ repair: divideAndConquer() }).embedQuery('once');
      await expect(failed).rejects.toBeInstanceOf(RateLimitError);
      await expect(failed).rejects.toMatchObject({ message: expect.stringContaining('Too many of them.') as string });
      expect(api.requests).toHaveLength(1);
    });

    it('end with an error that says what it is, for a text that is too long for the model', async () => {
      const tooLong = { status: 400, message: "This model's maximum context length is 8192 tokens.", code: 'context_length_exceeded' };
      api.fail(tooLong);
      await expect(flow({ repair: [] }).embedQuery('long')).rejects.toMatchObject({ name: 'ContextOverflowError' });
      expect(api.requests).toHaveLength(1);
    });
  });

  describe('a limiter', () => {
    it('is shared with another client, and the embeddings have no limit of their own', async () => {
      await start({ latencyMs: 20 });
      const limiter = createLimiter({ concurrency: 3 });
      const limited = limitFetch({ limiter });
      const embeddings = flow({ embeddings: openai({ maxConcurrency: 1 }), limiter, maxSize: 2 });
      const chat = async (content: string): Promise<unknown> => {
        const body = JSON.stringify({ model: 'm', messages: [{ role: 'user', content }] });
        return (await limited(`${api.baseUrl}/chat/completions`, { method: 'POST', body })).json();
      };
      await Promise.all([embeddings.embedDocuments(texts(12)), ...texts(6).map(chat)]);
      expect(api.requests).toHaveLength(12);
      expect(api.maxInFlight).toBe(3);
      expect(limiter.executing).toBe(0);
    });

    it('learns what a call has cost when the embeddings are made around the fetch', async () => {
      const limiter = createAccount({ tokensPerMinute: 600, headroom: 1, burstSeconds: 6000 });
      const make = (fetch: typeof globalThis.fetch) => openai({}, fetch);
      const embeddings = flow({ embeddings: make, limiter, countTokens: () => 1000 });
      await embeddings.embedDocuments(texts(10, 'text'));
      expect(api.tokensCharged).toBe(20);
      expect(60_000 - limiter.snapshot().tokens).toBeLessThan(1000);
      await flow({ limiter, countTokens: () => 1000 }).embedDocuments(texts(10, 'more'));
      expect(60_000 - limiter.snapshot().tokens).toBeGreaterThan(9000);
    });
  });

  describe('limits', () => {
    const tokensOf = (text: string): number => Math.ceil(text.length / 4);
    const spanMs = (): number => (api.requests.at(-1)?.at ?? 0) - (api.requests[0]?.at ?? 0);
    const never = () => new Promise<never>(() => undefined);
    const unanswered = { embedDocuments: never, embedQuery: never };

    it('keep documents and questions together to the requests per minute', async () => {
      await start({ requestsPerMinute: 600, burstSeconds: 0.2 });
      const embeddings = flow({ limiter: createAccount({ concurrency: 4, requestsPerMinute: 600, burstSeconds: 0.2 }), maxSize: 1 });
      await Promise.all([embeddings.embedDocuments(texts(4)), ...texts(2, 'why').map((text) => embeddings.embedQuery(text))]);
      // A busy machine is late with the first, and the next is refused.
      expect(api.requests.length - api.refused).toBe(6);
      expect(api.refused).toBeLessThan(3);
      // Nine a second, with the tenth that is left unused, of which one can be saved up.
      expect(spanMs()).toBeGreaterThanOrEqual(400);
    });

    it('keep to the tokens per minute', async () => {
      await start({ tokensPerMinute: 6000, burstSeconds: 0.4 });
      const embeddings = flow({
        limiter: createAccount({ concurrency: 4, tokensPerMinute: 6000, burstSeconds: 0.4 }),
        countTokens: tokensOf,
        maxTokens: 10,
      });
      const documents = texts(20).map((text) => text.padEnd(20, '.'));
      expect(await embeddings.embedDocuments(documents)).toEqual(documents.map((text) => vectorOf(text)));
      expect(api.tokensCharged).toBe(100);
      expect(api.refused).toBeLessThan(3);
      expect(Math.max(...sizes())).toBe(2);
      // 36 at once, the others at 90 a second.
      expect(spanMs()).toBeGreaterThanOrEqual(500);
    });

    it.each([
      [{}, 1],
      [{ burstSeconds: 5 }, 4],
    ])('send as much at once as they say: %o', async (burst, atOnce) => {
      let calls = 0;
      const embedDocuments = () => {
        calls++;
        return never();
      };
      const embeddings = flow({
        embeddings: { embedDocuments, embedQuery: never },
        limiter: createAccount({ requestsPerMinute: 60, concurrency: 10, burstSeconds: 2, ...burst }),
        maxSize: 1,
      });
      const given = embeddings.embedSettled(texts(10));
      await settle();
      expect(calls).toBe(atOnce);
      embeddings.close();
      await given;
    });

    it('cannot be combined with a limiter', () => {
      expect(() => flow({ limiter: createLimiter(), concurrency: 2 })).toThrow(
        'limitEmbeddings: `concurrency` cannot be combined with `limiter`. Set it on the limiter.',
      );
    });

    it('say when the provider wants a pause', async () => {
      const seen: FlowEvent[] = [];
      api.fail({ status: 429, headers: { 'retry-after-ms': '20' }, message: 'slow down' });
      await flow({ onEvent: (event) => seen.push(event) }).embedQuery('again');
      expect(seen).toContainEqual(expect.objectContaining({ type: 'throttled', operator: 'createLimiter', pauseMs: 20 }));
    });

    it('leave no timer when no call waits', async () => {
      const scheduler = new VirtualTimeScheduler();
      const embeddings = flow({
        limiter: createAccount({ requestsPerMinute: 60, tokensPerMinute: 6000, concurrency: 1, scheduler }),
        window: graded(0),
        scheduler,
      });
      const vectors = embeddings.embedDocuments(['a', 'b']);
      run(scheduler, 0);
      expect(await vectors).toHaveLength(2);
      expect(pending(scheduler)).toBe(0);
      const waiting = embeddings.embedSettled(['c']);
      run(scheduler, 0);
      expect([pending(scheduler), embeddings.snapshot()]).toEqual([1, { queued: 1, executing: 0 }]);
      embeddings.close();
      expect(await waiting).toMatchObject([{ reason: { code: 'FLOW_CLOSED' } }]);
      expect(pending(scheduler)).toBe(0);
    });

    it('do not wait, after the end, for a call that was given up and goes on', async () => {
      const scheduler = new VirtualTimeScheduler();
      const embeddings = flow({ embeddings: unanswered, scheduler });
      const given = embeddings.embedSettled(['a']);
      run(scheduler, 0);
      expect(embeddings.snapshot().executing).toBe(1);
      const drained = embeddings.drain({ timeoutMs: 100 });
      run(scheduler, 100);
      expect(await drained).toEqual({ done: 0, aborted: 1, dropped: 0 });
      expect(await given).toMatchObject([{ reason: { code: 'FLOW_CLOSED' } }]);
      expect(pending(scheduler)).toBe(0);
    });
  });

  describe('a refusal', () => {
    it.each([
      ['documents', false, 590],
      ['documents', true, 600],
      ['a question', false, 590],
      ['a question', true, 600],
    ])('of %s, where a refusal is free: %s, leaves %i of 600 tokens', async (what, isFree, left) => {
      const limiter = createAccount({ tokensPerMinute: 6, burstSeconds: 6000, headroom: 1, learn: false });
      const embeddings = flow({
        limiter,
        lanes: ['background'],
        countTokens: () => 10,
        provider: { ...providers.other, refusedInput: isFree ? 'returned' : 'kept' },
      });
      const refused = what === 'documents' ? embeddings.embedDocuments(['POISON']) : embeddings.embedQuery('POISON');
      await expect(refused).rejects.toBeInstanceOf(BadRequestError);
      expect(Math.round(limiter.snapshot().tokens)).toBe(left);
    });
  });

  describe('a signal', () => {
    const many = (fetch: typeof globalThis.fetch) => openai({}, fetch);

    it('closes the connection when the caller of the call has left', async () => {
      await start({ latencyMs: 10_000 });
      const limiter = createLimiter({ concurrency: 1 });
      const embeddings = flow({ embeddings: many, limiter });
      const controllers = [new AbortController(), new AbortController()];
      const reason = new DOMException('the user has left', 'AbortError');
      const calls = controllers.map(({ signal }, i) => embeddings.embedDocuments(texts(3, `caller ${String(i)}`), { signal }));
      await expect.poll(() => api.inFlight, soon).toBe(1);
      controllers[0]?.abort(reason);
      await expect(calls[0]).rejects.toBe(reason);
      expect(api.inFlight).toBe(1);
      controllers[1]?.abort(reason);
      await expect(calls[1]).rejects.toBe(reason);
      await expect.poll(() => api.aborted, soon).toBe(1);
      await expect.poll(() => limiter.executing, soon).toBe(0);
    });

    it('ends the wait at once also for embeddings that take none', async () => {
      await start({ latencyMs: 10_000 });
      const embeddings = flow();
      const controller = new AbortController();
      const call = embeddings.embedQuery('a', { signal: controller.signal });
      await expect.poll(() => api.inFlight, soon).toBe(1);
      controller.abort();
      await expect(call).rejects.toMatchObject({ name: 'AbortError' });
    });

    it('that aborts in the queue sends nothing and costs nothing', async () => {
      const limiter = createAccount({ concurrency: 1, requestsPerMinute: 60, tokensPerMinute: 60_000 });
      const embeddings = flow({ limiter });
      const busy = limiter.tryAcquire();
      const { requests, tokens } = limiter.snapshot();
      const controller = new AbortController();
      const waiting = embeddings.embedDocuments(['first', 'second'], { signal: controller.signal });
      await expect.poll(() => embeddings.snapshot().queued, soon).toBe(2);
      controller.abort();
      await expect(waiting).rejects.toMatchObject({ name: 'AbortError' });
      expect(embeddings.snapshot().queued).toBe(0);
      busy?.release();
      await embeddings.drain();
      expect(limiter.snapshot().requests).toBeGreaterThanOrEqual(requests);
      expect(limiter.snapshot().tokens).toBeGreaterThanOrEqual(tokens);
      expect(api.requests).toHaveLength(0);
    });
  });

  describe('an end', () => {
    it('by drain answers what was accepted and takes nothing new', async () => {
      const embeddings = flow({ window: fixed(60_000), lanes: ['all'] });
      const accepted = embeddings.embedDocuments(['a', 'b']);
      expect(await embeddings.drain()).toEqual({ done: 2, aborted: 0, dropped: 0 });
      expect(await accepted).toEqual([vectorOf('a'), vectorOf('b')]);
      await expect(embeddings.embedDocuments(['c'])).rejects.toBeInstanceOf(ClosedError);
      expect(embeddings.drain()).toBe(embeddings.drain());
    });

    it('by close gives up what waits', async () => {
      const embeddings = flow({ window: fixed(60_000), lanes: ['all'] });
      const given = embeddings.embedSettled(['a']);
      embeddings.close();
      expect(await given).toMatchObject([{ status: 'rejected', reason: { code: 'FLOW_CLOSED' } }]);
      expect(api.requests).toHaveLength(0);
    });

    it('comes with a signal, or with the block', async () => {
      const controller = new AbortController();
      const embeddings = flow().shutdownOn(controller.signal);
      controller.abort();
      await expect(embeddings.embedQuery('a')).rejects.toBeInstanceOf(ClosedError);
      let kept: LimitedEmbeddings;
      {
        await using scoped = flow();
        kept = scoped;
        void scoped.embedQuery('in the block');
      }
      expect(kept.snapshot()).toEqual({ queued: 0, executing: 0 });
      expect(api.completed).toBe(1);
    });

    it('need not come for what waits to be sent', async () => {
      const embeddings = flow({ window: fixed(60_000), lanes: ['all'] });
      const waiting = embeddings.embedDocuments(['a']);
      await expect.poll(() => embeddings.snapshot().queued, soon).toBe(1);
      embeddings.flush();
      expect(await waiting).toEqual([vectorOf('a')]);
    });
  });

  it('refuses what are no embeddings, where it is made', () => {
    expect(() => flow({ embeddings: {} as never })).toThrow(FlowConfigError);
    expect(() => flow({ embeddings: () => ({}) as never })).toThrow(/expected `embeddings` to be LangChain embeddings/);
    expect(() => flow({ embeddings: OpenAIEmbeddings as never })).toThrow('limitEmbeddings: `embeddings` threw');
  });
});

describe('a queued call that is aborted', LONG, () => {
  it('runs all the same later, by the caller of LangChain', async () => {
    let started = 0;
    const caller = new AsyncCaller({ maxConcurrency: 1 });
    let finish = (): void => undefined;
    const first = caller.call(() => new Promise<void>((done) => void (started++, (finish = done))));
    const controller = new AbortController();
    const second = caller.callWithOptions({ signal: controller.signal }, () => Promise.resolve(++started));
    controller.abort();
    await expect(second).rejects.toMatchObject({ name: 'AbortError' });
    expect(started).toBe(1);
    finish();
    await first;
    await expect.poll(() => started, soon).toBe(2);
  });

  it('is never sent, through limitFetch', async () => {
    const limiter = createAccount({ concurrency: 1, requestsPerMinute: 60 });
    const model = chat({ limiter });
    const busy = limiter.tryAcquire();
    const { requests } = limiter.snapshot();
    const controller = new AbortController();
    const waiting = model.invoke('waiting', { signal: controller.signal });
    await expect.poll(() => limiter.snapshot().queued, soon).toBe(1);
    controller.abort();
    await expect(waiting).rejects.toMatchObject({ name: 'AbortError' });
    busy?.release();
    await limiter.drain();
    expect(limiter.snapshot().requests).toBeGreaterThanOrEqual(requests);
    expect(api.requests).toHaveLength(0);
  });
});

const chat = (options: Parameters<typeof limitFetch>[0] = {}): ChatOpenAI =>
  new ChatOpenAI({
    apiKey: 'k',
    model: 'm',
    maxRetries: 0,
    configuration: { baseURL: api.baseUrl, fetch: limitFetch({ retry, ...options }) },
  });

describe('ChatOpenAI over limitFetch', LONG, () => {
  expectNoUnhandledRejections();

  it('answers, whole and as a stream, as many at a time as there are permits', async () => {
    await start({ chunks: 20, chunkGapMs: 2 });
    const limiter = createLimiter({ concurrency: 2 });
    const model = chat({ limiter });
    const read = async (text: string): Promise<string> => {
      let said = '';
      for await (const chunk of await model.stream(text)) said += chunk.text;
      return said;
    };
    const whole = texts(3, 'whole').map(async (text) => (await model.invoke(text)).text);
    const streamed = texts(3, 'streamed').map(read);
    expect(await Promise.all([...whole, ...streamed])).toEqual([...texts(3, 'whole'), ...texts(3, 'streamed')]);
    expect(api.maxInFlight).toBe(2);
    await expect.poll(() => limiter.executing, soon).toBe(0);
  });

  it('shares the limiter with embeddings', async () => {
    await start({ latencyMs: 20 });
    const limiter = createLimiter({ concurrency: 2 });
    const model = chat({ limiter });
    const embeddings = flow({ limiter, maxSize: 1 });
    await Promise.all([embeddings.embedDocuments(texts(4)), ...texts(4).map((text) => model.invoke(text))]);
    expect(api.requests).toHaveLength(8);
    expect(api.maxInFlight).toBe(2);
  });

  it('makes our attempts and no more', async () => {
    const failure = { status: 503, message: 'overloaded' };
    api.fail(...Array.from({ length: 9 }, () => failure));
    await expect(chat({ retry: { ...retry, maxAttempts: 3 } }).invoke('x')).rejects.toMatchObject({ status: 503 });
    expect(api.requests).toHaveLength(3);
  });

  it('waits as long as the server says', async () => {
    api.fail({ status: 429, headers: { 'retry-after-ms': '150' }, message: 'slow down' });
    expect((await chat().invoke('again')).text).toBe('again');
    const [first, second] = api.requests;
    expect((second?.at ?? 0) - (first?.at ?? 0)).toBeGreaterThanOrEqual(140);
  });

  it('fails with the error of OpenAI, and its neighbours do not', async () => {
    const model = chat({ limiter: createLimiter({ concurrency: 2 }) });
    const [good, bad, other] = await Promise.allSettled([model.invoke('good'), model.invoke('POISON'), model.invoke('other')]);
    expect([good.status, bad.status, other.status]).toEqual(['fulfilled', 'rejected', 'fulfilled']);
    expect(bad).toMatchObject({ reason: { status: 400, code: 'invalid_prompt' } });
    expect((bad as PromiseRejectedResult).reason).toBeInstanceOf(BadRequestError);
  });

  it('closes the connection when its signal aborts, or the loop is left', async () => {
    await start({ chunks: 60, chunkGapMs: 20 });
    const limiter = createLimiter({ concurrency: 1 });
    const model = chat({ limiter });
    for await (const chunk of await model.stream(LONG_TEXT)) if (chunk.text !== '') break;
    await expect.poll(() => api.aborted, soon).toBe(1);
    await expect.poll(() => limiter.executing, soon).toBe(0);
    const controller = new AbortController();
    const read = async (): Promise<void> => {
      for await (const chunk of await model.stream(LONG_TEXT, { signal: controller.signal })) if (chunk.text !== '') controller.abort();
    };
    await expect(read()).rejects.toThrow();
    await expect.poll(() => api.aborted, soon).toBe(2);
    await expect.poll(() => limiter.executing, soon).toBe(0);
  });
});
