import { firstValueFrom, lastValueFrom, NEVER, Observable, of, take, throwError, toArray } from 'rxjs';
import { afterEach, describe, expect, it } from 'vitest';
import type { AccountOptions, FlowEvent, Settled } from '../../operators/index.js';
import { createAccount, createLimiter, divideAndConquer, isFlowError, lanes, robust } from '../../operators/index.js';
import { providers } from '../../src/account/providers.js';
import { createEmbedder, type EmbedCall, type Embedder, type EmbedderOptions } from '../../src/pipelines/create-embedder.js';
import { type EmbeddingsOptions, embeddings } from '../../src/pipelines/embeddings-api.js';
import { ProviderError } from '../../src/pipelines/provider-error.js';
import { type FakeProvider, type FakeProviderOptions, startFakeProvider } from '../support/fake-provider.js';
import { expectNoUnhandledRejections, settle } from '../support/rejections.js';

const open: (() => void | Promise<void>)[] = [];
afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close();
});

async function provider(options: FakeProviderOptions = {}): Promise<FakeProvider> {
  const started = await startFakeProvider(options);
  open.push(() => started.close());
  return started;
}

/** An embedder whose retries do not wait. */
function embedder(baseUrl: string, options: Partial<EmbedderOptions> = {}, endpoint: Partial<EmbeddingsOptions> = {}): Embedder {
  const call = embeddings({ baseUrl, model: 'm', ...endpoint });
  const made = createEmbedder({ call, repair: robust({ retry: { delayMs: 1, maxAttempts: 4 } }), ...options });
  open.push(() => {
    made.close();
  });
  return made;
}

/** An embedder in front of a scripted `fetch`. */
function scripted(
  answer: (body: { input: string[] }, init: RequestInit) => Response | Promise<Response>,
  options: Partial<EmbedderOptions> = {},
): Embedder {
  const fetch: typeof globalThis.fetch = async (_url, init = {}) => answer(JSON.parse(init.body as string) as { input: string[] }, init);
  return embedder('http://127.0.0.1:9/v1/', { repair: divideAndConquer(), ...options }, { fetch });
}

const texts = (count: number): string[] => Array.from({ length: count }, (_, i) => `text number ${String(i)}`);
const inBatches = (calls: FakeProvider['calls']): number[] => calls.map((call) => call.inputs.length);

async function all(from: Embedder, input: Iterable<string>): Promise<Settled<string, Float32Array>[]> {
  const results = await lastValueFrom(from.embedFrom(input).pipe(toArray()));
  return results.sort((a, b) => a.index - b.index);
}

describe('createEmbedder', () => {
  it('gives each text its own vector, whichever texts share its call', async () => {
    const { baseUrl, calls } = await provider();
    const results = await all(embedder(baseUrl, { maxSize: 10 }), texts(35));
    expect(results.map((result) => result.status)).toEqual(Array.from({ length: 35 }, () => 'fulfilled'));
    expect(calls.length).toBe(4);
    const alone = await embedder(baseUrl).embedAsync('text number 17');
    expect(results[17]).toMatchObject({ index: 17, input: 'text number 17', value: alone });
  });

  it('keeps calls within their budgets of texts and of tokens', async () => {
    const { baseUrl, calls } = await provider();
    await all(embedder(baseUrl, { maxSize: 6, maxTokens: 40, countTokens: (text) => text.length }), [
      'a'.repeat(30),
      'b'.repeat(10),
      'c',
      ...texts(9).map((t) => t.slice(-2)),
    ]);
    expect(Math.max(...inBatches(calls))).toBeLessThanOrEqual(6);
    for (const { inputs } of calls) expect(inputs.join('').length).toBeLessThanOrEqual(40);
  });

  it('rejects unsent what is too long, empty or no text, and only that', async () => {
    const { baseUrl, calls } = await provider();
    const made = embedder(baseUrl, { maxTokensPerText: 20, countTokens: (text) => text.length });
    const results = await all(made, ['fine', 'x'.repeat(21), '', 5 as never]);
    expect(results.map((result) => (result.status === 'rejected' ? (result.reason as { code: string }).code : 'ok'))).toEqual([
      'ok',
      'FLOW_ITEM_TOO_HEAVY',
      'FLOW_CONFIG_INVALID',
      'FLOW_CONFIG_INVALID',
    ]);
    expect(calls.flatMap((call) => call.inputs)).toEqual(['fine']);
    await expect(made.embedAsync('')).rejects.toThrow('createEmbedder: expected `text` to be a non-empty string');
  });

  it('sends equal texts that are under way once, and again later', async () => {
    const { baseUrl, calls } = await provider();
    const made = embedder(baseUrl);
    const [one, two] = await Promise.all([made.embedAsync('same'), made.embedAsync('same')]);
    expect(one).toEqual(two);
    expect(calls.flatMap((call) => call.inputs)).toEqual(['same']);
    await made.embedAsync('same');
    expect(calls.length).toBe(2);
  });

  it.each([true, false])('cuts out the refused text, whether the provider names it (%s) or not', async (namePoison) => {
    const { baseUrl, calls } = await provider({ poison: (text) => text.endsWith(' 7'), namePoison });
    const made = embedder(baseUrl, { maxSize: 16 });
    const results = await all(made, texts(16));
    expect(results.filter((result) => result.status === 'fulfilled')).toHaveLength(15);
    const bad = results[7];
    expect(bad).toMatchObject({ status: 'rejected', input: 'text number 7' });
    expect(bad?.status === 'rejected' && bad.reason).toBeInstanceOf(ProviderError);
    expect(calls.length).toBe(namePoison ? 2 : 9);
    expect(made.snapshot()).toMatchObject({ fulfilled: 15, rejected: 1, calls: calls.length, queued: 0, executing: 0 });
  });

  it('waits out a 429, tries again after failures and cut sockets, and loses nothing', async () => {
    const answers = [{ status: 429, message: 'slow down', retryAfterSeconds: 0.05 }, { status: 503, message: 'busy' }, 'cut'] as const;
    const { baseUrl } = await provider({ answer: ({ index }) => answers[index] });
    const made = embedder(baseUrl, { maxSize: 8, concurrency: 2 });
    const results = await all(made, texts(40));
    expect(results.every((result) => result.status === 'fulfilled')).toBe(true);
    expect(made.snapshot()).toMatchObject({ throttled: 1, retries: 3, fulfilled: 40, rejected: 0 });
  });

  it('sends a question before the background that was there first', async () => {
    const { baseUrl, calls } = await provider({ delayMs: 15 });
    const made = embedder(baseUrl, { maxSize: 5, concurrency: 1 });
    const background = all(made, texts(30));
    await expect.poll(() => calls.length).toBeGreaterThan(0);
    const sent = calls.length;
    await made.embedAsync('question', { lane: 'user' });
    expect(calls.findIndex((call) => call.inputs.includes('question'))).toBeLessThanOrEqual(sent + 1);
    expect(calls.find((call) => call.inputs.includes('question'))?.inputs).toEqual(['question']);
    expect(await background).toHaveLength(30);
  });

  it('reads no further ahead than a few batches, and closes its source when the consumer leaves', async () => {
    const { baseUrl } = await provider();
    let read = 0;
    let closed = false;
    const endless = function* (): Generator<string> {
      try {
        for (;;) yield `text ${String(read++)}`;
      } finally {
        closed = true;
      }
    };
    const some = await lastValueFrom(embedder(baseUrl, { maxSize: 4, concurrency: 2 }).embedFrom(endless()).pipe(take(10), toArray()));
    expect(some).toHaveLength(10);
    expect(read).toBeLessThanOrEqual(10 + 2 * 4 * 2);
    expect(closed).toBe(true);
  });

  it('aborts the call when the last of its texts is given up', async () => {
    let signal: AbortSignal | null | undefined;
    const never = scripted((_body, init) => {
      signal = init.signal;
      return new Promise<Response>(() => undefined);
    });
    const controller = new AbortController();
    const first = never.embedAsync('a', { signal: controller.signal });
    const second = never.embed('a').subscribe({ error: () => undefined });
    await expect.poll(() => signal).toBeDefined();
    controller.abort();
    await expect(first).rejects.toMatchObject({ name: 'AbortError' });
    expect(signal?.aborted).toBe(false);
    second.unsubscribe();
    expect(signal?.aborted).toBe(true);
  });

  it('puts vectors in order by their index, and takes plain arrays as well', async () => {
    const made = scripted(({ input }) =>
      Response.json({ data: input.map((text, index) => ({ index, embedding: [text.length] })).reverse() }),
    );
    const results = await all(made, ['a', 'bbb', 'cc']);
    expect(results.map((result) => result.status === 'fulfilled' && [...result.value])).toEqual([[1], [3], [2]]);
  });

  it.each([
    ['too few vectors', [{ index: 0, embedding: [1] }]],
    [
      'an index twice',
      [
        { index: 0, embedding: [1] },
        { index: 0, embedding: [2] },
      ],
    ],
    ['no vectors', 'nothing'],
    ['no base64', [0, 1].map((index) => ({ index, embedding: '*' }))],
    ['invalid entries', [null, null]],
  ])('fails the batch on an answer with %s, and shifts nothing', async (_name, data) => {
    const results = await all(
      scripted(() => Response.json({ data })),
      ['a', 'b'],
    );
    expect(results.map((result) => result.status === 'rejected' && isFlowError(result.reason, 'FLOW_BATCH_SHAPE'))).toEqual([true, true]);
  });

  it.each(['<h1>Please log in</h1>', 'null'])('does not take a batch apart because of an answer that is no answer: %s', async (page) => {
    let calls = 0;
    const made = scripted(() => {
      calls++;
      return new Response(page);
    });
    const results = await all(made, ['a', 'b']);
    expect(results.map((result) => result.status === 'rejected' && isFlowError(result.reason, 'FLOW_BATCH_SHAPE'))).toEqual([true, true]);
    expect(calls).toBe(1);
  });

  it('tells status and type of the page of a proxy, and nothing of its text', async () => {
    const made = scripted(() => new Response('<h1>Bad gateway</h1>', { status: 401 }));
    await expect(made.embedAsync('a')).rejects.toMatchObject({
      name: 'ProviderError',
      status: 401,
      message: '401 the body is a page (text/plain)',
    });
  });

  it('sends the key and keeps it out of errors and events', async () => {
    const { baseUrl, calls } = await provider({ apiKey: 'right' });
    const events: FlowEvent[] = [];
    const error: unknown = await embedder(baseUrl, { onEvent: (event) => events.push(event) }, { apiKey: 'wrong-key' })
      .embedAsync('secret text')
      .catch((e: unknown) => e);
    expect(calls[0]?.authorization).toBe('Bearer wrong-key');
    expect(error).toMatchObject({ status: 401 });
    expect(String(error) + JSON.stringify(error) + JSON.stringify(events)).not.toMatch(/wrong-key|secret text/);
    expect(events.map((event) => event.type)).toContain('attemptEnded');
  });

  it('shares a limiter, and never sends more than its rate', async () => {
    const server = await provider({ delayMs: 10 });
    const { baseUrl, calls } = server;
    const limiter = createLimiter({ concurrency: 1, queue: lanes([{ name: 'user' }, { name: 'normal' }, { name: 'background' }]) });
    const [a, b] = [embedder(baseUrl, { limiter, maxSize: 4 }), embedder(baseUrl, { limiter, maxSize: 4 })];
    await Promise.all([all(a, texts(8)), all(b, texts(8))]);
    expect(calls.length).toBe(4);
    expect(server.maxOpen).toBe(1);
    expect(limiter.snapshot()).toMatchObject({ executing: 0, queued: 0 });
  });

  it('settles what was accepted before it drains, and rejects what comes after', async () => {
    const { baseUrl } = await provider({ delayMs: 5 });
    const made = embedder(baseUrl);
    const accepted = made.embedAsync('a');
    await made.drain();
    expect(await accepted).toHaveLength(16);
    await expect(made.embedAsync('b')).rejects.toMatchObject({ code: 'FLOW_CLOSED' });
    await expect(firstValueFrom(made.embed('b'))).rejects.toMatchObject({ code: 'FLOW_CLOSED' });
  });

  it('rejects what has not settled when it is closed', async () => {
    const made = scripted(() => new Promise<Response>(() => undefined));
    const waiting = made.embedAsync('a');
    made.close();
    await expect(waiting).rejects.toMatchObject({ code: 'FLOW_CLOSED' });
  });

  it.each<[keyof EmbedderOptions, unknown[]]>([
    ['model', ['', null, 5]],
    ['maxSize', [0, -1, 1.5, NaN, null, '10']],
    ['maxTokens', [0, -1, NaN, null, '10']],
    ['maxTokensPerText', [0, -1, NaN, null, '10']],
    ['concurrency', [0, -1, 1.5, NaN, null, '4']],
    ['provider', [0, null, 'openai']],
    ['maxQueued', [0, -1, NaN, null]],
    ['countTokens', [5, null, 'length']],
    ['lanes', [null, [], 'user']],
    ['timeoutMs', [0, -1, NaN, null]],
  ])('names the option `%s` when it is unusable', (option, values) => {
    for (const value of values) {
      const options = { call: () => NEVER, [option]: value } as never;
      expect(() => createEmbedder(options), String(value)).toThrow(`createEmbedder: expected \`${option}\` to be `);
    }
  });

  it.each<[keyof EmbeddingsOptions, unknown[]]>([
    ['baseUrl', ['', 'localhost:80', 'ftp://x', null, 5]],
    ['model', ['', null, 5]],
    ['dimensions', [0, 1.5, NaN, null, '10']],
    ['fetch', [5, null]],
  ])('names the option `%s` of an address when it is unusable', (option, values) => {
    for (const value of values) {
      const options = { baseUrl: 'http://127.0.0.1:9/v1', model: 'm', [option]: value } as never;
      expect(() => embeddings(options), String(value)).toThrow(`embeddings: expected \`${option}\` to be `);
    }
  });

  it('refuses slots beside a shared limiter, and options it does not know', () => {
    const options = { call: () => NEVER };
    expect(() => createEmbedder({ ...options, limiter: createLimiter(), concurrency: 2 })).toThrow(
      'createEmbedder: `concurrency` cannot be combined with `limiter`. Set it on the limiter.',
    );
    for (const rate of ['requestsPerMinute', 'tokensPerMinute', 'requestsPerDay', 'burstSeconds', 'rpm']) {
      expect(() => createEmbedder({ ...options, [rate]: 2 })).toThrow(
        `createEmbedder: unknown option \`${rate}\`. Use \`limiter: createAccount({ … })\`.`,
      );
    }
    expect(() => createEmbedder({ ...options, budget: {} } as never)).toThrow('Use `limiter: createAccount({ budget })`.');
    expect(() => createEmbedder({ ...options, batchSize: 2 } as never)).toThrow(
      'createEmbedder: unknown option `batchSize`. Use `maxSize`.',
    );
  });
});

describe('a client of your own', () => {
  expectNoUnhandledRejections();

  const over = (call: EmbedCall, options: Partial<EmbedderOptions> = {}): Embedder => {
    const made = createEmbedder({ call, repair: robust({ retry: { delayMs: 1 } }), ...options });
    open.push(() => {
      made.close();
    });
    return made;
  };
  const lengths: EmbedCall = (input) => of(input.map((text) => [text.length, 0.5]));

  it.each<[string, EmbedCall]>([
    ['an Observable', lengths],
    ['a promise', (input) => Promise.resolve(input.map((text) => Float32Array.of(text.length, 0.5)))],
    [
      'what is heard as a promise is, whatever its `then` answers itself',
      (input) =>
        ({
          then(answered: (vectors: readonly (readonly number[])[]) => void) {
            answered(input.map((text) => [text.length, 0.5]));
          },
        }) as never,
    ],
    [
      'an Observable, its last value',
      (input) =>
        of(
          [],
          [[9]],
          input.map((text) => Float64Array.of(text.length, 0.5)),
        ),
    ],
  ])('answers %s', async (_name, call) => {
    const made = over(call, { maxSize: 2 });
    const results = await all(made, ['a', 'bb', 'ccc']);
    expect(results.map((result) => result.status === 'fulfilled' && result.value)).toEqual(
      [1, 2, 3].map((length) => Float32Array.of(length, 0.5)),
    );
    expect(made.snapshot()).toMatchObject({ fulfilled: 3, calls: 2 });
  });

  it('is told what a call needs to know, and tells what it has cost', async () => {
    const limiter = createAccount({ tokensPerMinute: 100, headroom: 1, burstSeconds: 60, learn: false, lanes: ['default'] });
    const made = over(
      (input, context) => {
        expect([context.signal.aborted, context.attempt, context.lane]).toEqual([false, 1, 'default']);
        context.settle({ inputTokens: 3 });
        return lengths(input, context);
      },
      { limiter, lanes: ['default'], countTokens: () => 50 },
    );
    await made.embedAsync('a');
    expect(Math.round(limiter.snapshot().tokens)).toBe(97);
    limiter.close();
  });

  it.each<[string, unknown]>([
    ['too few vectors', [[1]]],
    ['too many vectors', [[1], [2], [3]]],
    ['no list', { data: [[1], [2]] }],
    ['nothing', undefined],
    ['texts', ['1', '2']],
  ])('fails the batch on an answer with %s, and shifts nothing', async (_name, answer) => {
    for (const input of [of(answer), Promise.resolve(answer)]) {
      const results = await all(
        over(() => input as never),
        ['a', 'b'],
      );
      expect(results.map((result) => result.status === 'rejected' && isFlowError(result.reason, 'FLOW_BATCH_SHAPE'))).toEqual([true, true]);
    }
  });

  it('hands out the errors of the client, and cuts out the text that is at fault', async () => {
    const refusal = Object.assign(new Error('refused'), { status: 400 });
    const call: EmbedCall = (input, context) => (input.includes('bad') ? throwError(() => refusal) : lengths(input, context));
    const results = await all(over(call), ['a', 'b', 'bad', 'c']);
    expect(results.map((result) => (result.status === 'rejected' ? result.reason : 'ok'))).toEqual(['ok', 'ok', refusal, 'ok']);
  });

  it('that throws at once is tried again like one that fails later', async () => {
    let calls = 0;
    const made = over((input, context) => {
      if (++calls < 3) throw Object.assign(new Error('busy'), { status: 503 });
      return lengths(input, context);
    });
    expect(await made.embedAsync('abc')).toEqual(Float32Array.of(3, 0.5));
    expect(calls).toBe(3);
  });

  it('is left when the last text of a call is given up', async () => {
    let signal: AbortSignal | undefined;
    let left = 0;
    const made = over(
      (_input, context) =>
        new Observable(() => {
          signal = context.signal;
          return () => left++;
        }),
    );
    const leaving = made.embed('a').subscribe();
    await expect.poll(() => signal).toBeDefined();
    leaving.unsubscribe();
    expect([signal?.aborted, left]).toEqual([true, 1]);
  });

  it('that answers a promise keeps its permit until that is settled', async () => {
    let answer: (vectors: number[][]) => void = () => undefined;
    const limiter = createLimiter({ concurrency: 1 });
    const made = over(() => new Promise<number[][]>((resolve) => (answer = resolve)), { limiter, lanes: ['default'] });
    const leaving = made.embed('a').subscribe();
    await expect.poll(() => limiter.executing).toBe(1);
    leaving.unsubscribe();
    expect(limiter.executing).toBe(1);
    answer([[1]]);
    await expect.poll(() => limiter.executing).toBe(0);
  });

  it.each([
    ['an Observable', (error: Error) => throwError(() => error)],
    ['a promise', (error: Error) => Promise.reject(error)],
  ])('pays nothing for a refusal when that is free: %s', async (_name, failed) => {
    const limiter = createAccount({ tokensPerMinute: 100, headroom: 1, burstSeconds: 60, lanes: ['default'] });
    const options = {
      limiter,
      countTokens: () => 10,
      repair: divideAndConquer(),
      lanes: ['default'],
    } as const;
    const refusal = (statusCode: number) => Object.assign(new Error('refused'), { statusCode });
    await expect(over(() => failed(refusal(422)), options).embedAsync('a')).rejects.toThrow('refused');
    expect(Math.round(limiter.snapshot().tokens)).toBe(100);
    await expect(over(() => failed(refusal(500)), options).embedAsync('a')).rejects.toThrow('refused');
    expect(Math.round(limiter.snapshot().tokens)).toBe(90);
    limiter.close();
  });

  it.each(['baseUrl', 'apiKey', 'headers', 'fetch', 'dimensions'])('is not together with `%s`, which is not shown', (option) => {
    const refused = () => createEmbedder({ call: () => NEVER, [option]: 'a secret' });
    expect(refused).toThrow(`createEmbedder: unknown option \`${option}\`. Use \`call: embeddings({ baseUrl, model, … })\`.`);
  });
});

describe('what the provider allows', () => {
  it('sends as much at once as `burstSeconds` says', async () => {
    const sent = async (burst: AccountOptions): Promise<number> => {
      let calls = 0;
      const never = () => new Promise<Response>(() => calls++);
      const made = scripted(never, {
        maxSize: 1,
        limiter: createAccount({ concurrency: 10, requestsPerMinute: 60, burstSeconds: 2, ...burst }),
      });
      for (const text of texts(10)) void made.embedAsync(text, { lane: 'background' });
      await settle();
      return calls;
    };
    // One a second, a tenth of it left unused, for 2 seconds and for 5.
    expect(await sent({})).toBe(1);
    expect(await sent({ burstSeconds: 5 })).toBe(4);
  });

  it.each([
    [400, providers.other, 0],
    [400, { ...providers.other, refusedInput: 'kept' } as const, 10],
    [413, providers.openai, 0],
    [422, providers.other, 0],
    [401, providers.other, 0],
    [500, providers.other, 10],
    [500, { ...providers.other, failedInput: 'returned' } as const, 0],
  ])('after a %i, by the rules %j, %i tokens are charged', async (status, provider, charged) => {
    const limiter = createAccount({ tokensPerMinute: 100, headroom: 1, burstSeconds: 60 });
    const { tokens } = limiter.snapshot();
    const made = scripted(() => new Response('no', { status }), { limiter, provider, countTokens: () => 10 });
    await expect(made.embedAsync('a')).rejects.toBeInstanceOf(ProviderError);
    expect(Math.round(tokens - limiter.snapshot().tokens)).toBe(charged);
    limiter.close();
  });
});

describe('an empty text', () => {
  expectNoUnhandledRejections();

  it('is refused, without an unhandled rejection', async () => {
    const made = scripted(() => new Response());
    void made.embedAsync('');
    await settle();
    await expect(made.embedAsync('')).rejects.toMatchObject({ code: 'FLOW_CONFIG_INVALID' });
  });
});

describe('embedFrom and the end', () => {
  it('looks at the options before it reads', () => {
    const made = scripted(() => new Response());
    expect(() => made.embedFrom(texts(1), { lane: 'nope' })).toThrow(/lane `nope` is not one of `user`, `normal`, `background`/);
  });

  it('reads no further once the embedder was closed', async () => {
    const made = scripted(() => new Response());
    made.close();
    let read = 0;
    const endless = function* () {
      for (;;) yield `text ${String(read++)}`;
    };
    const results = await all(made, endless());
    expect(results.map((result) => result.status === 'rejected' && isFlowError(result.reason, 'FLOW_CLOSED'))).toEqual([true]);
    expect(read).toBe(1);
  });

  it('hands out what was accepted before a drain, and reads no further', async () => {
    let answer: (() => void) | undefined;
    const asked = new Promise<void>((resolve) => {
      answer = resolve;
    });
    const made = scripted(async ({ input }) => {
      await asked;
      return Response.json({ data: input.map((_, index) => ({ index, embedding: [1] })) });
    });
    const endless = async function* () {
      yield 'accepted';
      await settle();
      void made.drain();
      answer?.();
      for (let i = 0; ; i++) yield `late ${String(i)}`;
    };
    const results = await lastValueFrom(made.embedFrom(endless()).pipe(toArray()));
    expect(results.map(({ input, status }) => [input, status]).sort()).toEqual([
      ['accepted', 'fulfilled'],
      ['late 0', 'rejected'],
    ]);
  });
});

describe('what embeddings is given', () => {
  it.each([
    [{ apiKey: 5 }, /^embeddings: expected `apiKey` to be a string, got `5`/],
    [{ headers: 'a: b' }, /^embeddings: expected `headers` to be an object, got /],
    [{ headers: null }, /^embeddings: expected `headers` to be an object, got `null`/],
  ])('is refused by name: %o', (options, message) => {
    expect(() => embeddings({ baseUrl: 'http://127.0.0.1:9/v1', model: 'm', ...(options as object) })).toThrow(message);
  });
});

describe('an invalid vector', () => {
  const base64 = (...numbers: number[]): string => Buffer.from(Float32Array.from(numbers).buffer).toString('base64');
  /** What becomes of each text when the provider answers these, over HTTP and over a client. */
  const both = (embeddings: readonly unknown[]) => {
    const answer = embeddings.map((embedding, index) => ({ index, embedding }));
    const overHttp = scripted(() => Response.json({ data: answer }), { maxSize: 100 });
    const isText = embeddings.some((one) => typeof one === 'string');
    const overClient = createEmbedder({ call: () => Promise.resolve(embeddings as number[][]), repair: divideAndConquer() });
    open.push(() => {
      overClient.close();
    });
    return Promise.all((isText ? [overHttp] : [overHttp, overClient]).map((one) => all(one, texts(embeddings.length))));
  };
  const seen = (results: Settled<string, Float32Array>[]) =>
    results.map((one) => (one.status === 'fulfilled' ? [...one.value] : (one.reason as Error).name));

  it.each([
    ['null', null],
    ['null among its numbers', [1, null]],
    ['a text among its numbers', [1, 'x']],
    ['no number at all', []],
    ['what is too large for 32 bits', [1, 1e300]],
    ['a nested list', [[1, 2]]],
    ['a shorter one', [1]],
    ['a longer one', [1, 2, 3]],
    ['base64 with NaN in it', base64(1, NaN)],
    ['base64 with Infinity in it', base64(1, Infinity)],
    ['base64 of another length', base64(1)],
    ['base64 cut in a number', base64(1, 2).slice(0, 8)],
    ['invalid base64', '%%%'],
  ])('%s fails its own text with BatchShapeError, and its neighbours keep their vectors', async (_what, wrong) => {
    for (const results of await both([[1, 0], wrong, [2, 0], [3, 0]]))
      expect(seen(results)).toEqual([[1, 0], 'BatchShapeError', [2, 0], [3, 0]]);
  });

  it('is not sent again, nor split', async () => {
    let calls = 0;
    const answer = () => {
      calls++;
      return Response.json({
        data: [
          { index: 0, embedding: [1] },
          { index: 1, embedding: [null] },
        ],
      });
    };
    const results = await all(scripted(answer, { repair: robust({ retry: { delayMs: 1 } }) }), texts(2));
    expect([seen(results), calls]).toEqual([[[1], 'BatchShapeError'], 1]);
  });

  it('is a vector of another length than those of the calls before', async () => {
    const lengths = [2, 2, 3, 2];
    const one = embedder(
      'http://127.0.0.1:9',
      {},
      {
        fetch: () =>
          Promise.resolve(Response.json({ data: [{ index: 0, embedding: Array.from({ length: lengths.shift() ?? 0 }, () => 1) }] })),
      },
    );
    const answers: unknown[] = [];
    for (const text of ['a', 'b', 'c', 'd'])
      answers.push(
        await one.embedAsync(text).then(
          ({ length }) => length,
          (error: unknown) => (error as Error).message,
        ),
      );
    expect(answers).toEqual([2, 2, expect.stringContaining('answered with a vector of 3 numbers, others have 2'), 2]);
  });

  it('finds out that the first one was wrong', async () => {
    const lengths = [1, 2, 2, 2];
    const one = embedder(
      'http://127.0.0.1:9',
      {},
      {
        fetch: () =>
          Promise.resolve(Response.json({ data: [{ index: 0, embedding: Array.from({ length: lengths.shift() ?? 0 }, () => 1) }] })),
      },
    );
    const answers: unknown[] = [];
    for (const text of ['a', 'b', 'c', 'd'])
      answers.push(
        await one.embedAsync(text).then(
          ({ length }) => length,
          (error: unknown) => (error as Error).name,
        ),
      );
    expect(answers).toEqual([1, 'BatchShapeError', 2, 2]);
  });

  it('may be an error of the client, for its text alone', async () => {
    const refused = new Error('refused');
    const one = createEmbedder({ call: (items) => of(items.map((text) => (text === 'b' ? refused : [1]))) });
    open.push(() => {
      one.close();
    });
    const results = await all(one, ['a', 'b', 'c']);
    expect(results.map((each) => (each.status === 'fulfilled' ? each.value.length : each.reason))).toEqual([1, refused, 1]);
  });
});
