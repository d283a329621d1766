import { createHash } from 'node:crypto';
import { cp, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import OpenAI from 'openai';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import type { ChatOptions, ChatRuntime, LogEntry, ModelServer } from '../../examples/model-server/index.mjs';
import { startModelServer } from '../../examples/model-server/index.mjs';
import { fakeRuntime, hang, CHAT_MODEL as model, moody } from '../support/fake-chat.js';
import { clientOf, EXAMPLE, fakeEngine, hasChatModel, isOwnFile, refusal, serverFor } from '../support/model-server.js';

type Create = OpenAI.Chat.ChatCompletionCreateParamsNonStreaming;

const INSTALL =
  'model server: the chat model is not installed. Run `npm ci --prefix examples/model-server/chat` in the root of the repository ' +
  '(about 410 MB). Then start the server with `chat: true` or `serve.mjs --chat`.';

const PATIENT = { timeout: 10_000, interval: 5 };

async function chatServer(runtime: ChatRuntime, chat: ChatOptions = {}, options: Parameters<typeof serverFor>[0] = {}) {
  const server = await serverFor({ ...options, chat: { ...chat, runtime } });
  const { completions } = clientOf(server).chat;
  const ask = (content: string, rest: Partial<Create> = {}, signal?: AbortSignal) =>
    completions.create({ model, messages: [{ role: 'user', content }], ...rest }, { signal });
  const stream = (content: string, rest: Partial<OpenAI.Chat.ChatCompletionCreateParamsStreaming> = {}, signal?: AbortSignal) =>
    completions.create({ model, messages: [{ role: 'user', content }], ...rest, stream: true }, { signal });
  return { server, completions, ask, stream };
}

function post(server: ModelServer, body: unknown): Promise<Response> {
  return fetch(`${server.baseUrl}/chat/completions`, { method: 'POST', body: JSON.stringify(body) });
}

async function all<T>(stream: AsyncIterable<T>): Promise<T[]> {
  const items: T[] = [];
  for await (const item of stream) items.push(item);
  return items;
}

function idle(server: ModelServer): Promise<void> {
  return vi.waitFor(() => {
    expect(server.stats().chat).toMatchObject({ queued: 0, busySequences: 0 });
  }, PATIENT);
}

describe('answers', () => {
  it('answers the openai package, whole and streamed, beside the embeddings', async () => {
    const runtime = fakeRuntime();
    const { server, completions, ask, stream } = await chatServer(runtime);
    const { data } = await clientOf(server).models.list();
    expect(data.map(({ id }) => id)).toEqual(['all-MiniLM-L6-v2', model]);
    expect(data[1]).toMatchObject({ owned_by: 'test', runtime: 'fake', context_window: 50 });
    expect(await clientOf(server).models.retrieve(model)).toEqual(data[1]);

    const whole = await ask('one two three');
    expect(whole).toMatchObject({
      object: 'chat.completion',
      model,
      choices: [{ index: 0, message: { role: 'assistant', content: 'one two three' }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 3, completion_tokens: 3, total_tokens: 6 },
    });
    const cut = await ask('one two three', { max_tokens: 2 });
    expect(cut.choices[0]).toMatchObject({ message: { content: 'one two' }, finish_reason: 'length' });

    const chunks = await all(await stream('one two three', { stream_options: { include_usage: true } }));
    expect(chunks.map(({ choices }) => choices[0]?.delta)).toEqual([
      { role: 'assistant', content: '' },
      { content: 'one' },
      { content: ' two' },
      { content: ' three' },
      {},
      undefined,
    ]);
    expect(chunks.map(({ choices }) => choices[0]?.finish_reason)).toEqual([null, null, null, null, 'stop', undefined]);
    expect(chunks.map(({ usage }) => usage?.total_tokens)).toEqual([undefined, undefined, undefined, undefined, undefined, 6]);
    expect(new Set(chunks.map(({ id }) => id)).size).toBe(1);

    const defaults = { maxTokens: 47, temperature: 0, topP: undefined, seed: undefined, stop: [] };
    expect(runtime.started.map(({ job }) => job)).toMatchObject([defaults, { maxTokens: 2 }, defaults]);
    const sampling = { temperature: 0.5, top_p: 0.9, seed: 7 };
    await completions.create({
      model,
      messages: [
        { role: 'developer', content: 'be brief' },
        {
          role: 'user',
          content: [
            { type: 'text', text: 'hello ' },
            { type: 'text', text: 'there' },
          ],
        },
      ],
      max_completion_tokens: 9,
      ...sampling,
      stop: 'x',
      n: 1,
      tools: [],
      frequency_penalty: null,
    });
    expect(runtime.started.at(-1)).toMatchObject({
      prompt: 'be brief hello there',
      job: { maxTokens: 9, temperature: 0.5, topP: 0.9, seed: 7, stop: ['x'] },
    });
    expect(server.stats().chat).toEqual({
      runtime: 'fake',
      answered: { texts: 4, promptTokens: 13, completionTokens: 12 },
      queued: 0,
      busySequences: 0,
      sequences: 2,
    });
    await server.close();
    expect(runtime.closed).toBe(true);
  });

  it('sends events as they are made, and usage only when it is asked for', async () => {
    const { server } = await chatServer(fakeRuntime());
    const response = await post(server, { model, messages: [{ role: 'user', content: 'hi' }], stream: true });
    expect(response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8');
    const text = await response.text();
    const events = text.split('\n\n');
    expect(events.slice(-2)).toEqual(['data: [DONE]', '']);
    expect(events).toHaveLength(5);
    expect(text).not.toContain('usage');
  });

  it('says what broke by a status before the first text, and by an event after it', async () => {
    const log: LogEntry[] = [];
    const { server, ask, stream } = await chatServer(fakeRuntime(moody), { sequences: 1 }, { log: (entry) => log.push(entry) });
    expect(await refusal(ask('break soon'))).toMatchObject({ status: 500, type: 'server_error' });
    expect(await refusal(stream('break soon'))).toMatchObject({ status: 500, type: 'server_error' });
    const seen: string[] = [];
    const late = async () => {
      for await (const { choices } of await stream('break late')) seen.push(choices[0]?.delta.content ?? '');
    };
    const error = await refusal(late());
    expect(error).toMatchObject({ type: 'server_error' });
    expect(error.message).toContain('had an error while processing');
    expect(error.message).not.toContain('broken');
    expect(seen).toEqual(['', 'first']);
    expect((await ask('well again')).choices[0]?.message.content).toBe('well again');
    expect(server.stats().statuses).toEqual({ 500: 2, 200: 2 });
    expect(log.filter(({ type }) => type === 'internalError')).toHaveLength(3);
  });
});

describe('refusals', () => {
  it('names what is wrong with a request and generates nothing', async () => {
    const runtime = fakeRuntime();
    const { server, ask } = await chatServer(runtime, { maxCompletionTokens: 40 });
    const messages = [{ role: 'user', content: 'hi' }];
    const cases: [body: unknown, param: string | null, problem: RegExp][] = [
      [[], null, /expected an object/],
      [{ messages }, 'model', /must provide a model/],
      [{ model }, 'messages', /messages are missing/],
      [{ model, messages: 'hi' }, 'messages', /expected an array of messages, got string/],
      [{ model, messages: [] }, 'messages', /at least one message/],
      [{ model, messages: ['hi'] }, 'messages[0]', /expected an object, got string/],
      [{ model, messages: [...messages, { role: 'tool', content: 'x' }] }, 'messages[1].role', /system, developer, user, assistant/],
      [{ model, messages: [{ role: 'user' }] }, 'messages[0].content', /a string or an array of text parts, got undefined/],
      [{ model, messages: [{ role: 'user', content: [{ type: 'image_url' }] }] }, 'messages[0].content[0]', /reads nothing else/],
      [{ model, messages, max_tokens: 0 }, 'max_tokens', /expected a number from 1 to 40, got 0/],
      [{ model, messages, max_tokens: 1.5 }, 'max_tokens', /expected a whole number from 1 to 40/],
      [{ model, messages, max_completion_tokens: 41 }, 'max_completion_tokens', /from 1 to 40, got 41/],
      [{ model, messages, max_tokens: 1, max_completion_tokens: 1 }, 'max_tokens', /cannot both be set/],
      [{ model, messages, temperature: 3 }, 'temperature', /from 0 to 2, got 3/],
      [{ model, messages, temperature: 'hot' }, 'temperature', /expected a number from 0 to 2/],
      [{ model, messages, stop: ['a', ''] }, 'stop', /none empty/],
      [{ model, messages, stream: 'yes' }, 'stream', /expected true or false, got string/],
      [{ model, messages, stream_options: {} }, 'stream_options', /only allowed when 'stream' is true/],
      [{ model, messages, n: 2 }, 'n', /does not support it/],
      [{ model, messages, tools: [{ type: 'function' }] }, 'tools', /does not support it/],
      [{ model, messages, response_format: { type: 'json_object' } }, 'response_format', /does not support it/],
    ];
    for (const [body, param, problem] of cases) {
      const response = await post(server, body);
      const { error } = (await response.json()) as { error: { message: string; param: string | null } };
      expect(error.message).toMatch(problem);
      expect(response.status).toBe(400);
      expect(error.param).toBe(param);
    }
    expect(await refusal(ask('hi', { model: 'all-MiniLM-L6-v2' }))).toMatchObject({ status: 404, code: 'model_not_found' });
    const long = await refusal(ask('word '.repeat(29).trim(), { max_tokens: 22 }));
    expect(long).toMatchObject({ status: 400, param: 'messages', code: 'context_length_exceeded' });
    expect(long.message).toContain(
      'context length is 50 tokens. However, you requested 51 tokens (29 in the messages, 22 in the completion)',
    );
    expect((await refusal(ask('word '.repeat(50).trim()))).message).toContain('your messages resulted in 50 tokens');
    expect((await refusal(ask('x'.repeat(3201)))).message).toContain('your messages have 3201 characters');
    expect((await fetch(`${server.baseUrl}/chat/completions`)).headers.get('allow')).toBe('POST');
    expect(runtime.started).toEqual([]);
    // What fits exactly is taken.
    await ask('word '.repeat(49).trim());
    expect(runtime.started[0]?.job.maxTokens).toBe(1);
  });

  it('refuses options that are out of range', async () => {
    await expect(startModelServer({ chat: { sequences: 0 } })).rejects.toThrow(/expected `chat.sequences` to be a whole number from 1/);
    await expect(startModelServer({ chat: { maxThreads: 1.5 } })).rejects.toThrow(/`chat.maxThreads`/);
    await expect(startModelServer({ chat: 'yes' as never })).rejects.toThrow(/expected `chat` to be true, false or an object, got `yes`/);
    await expect(startModelServer({ chat: { threads: 2 } as never })).rejects.toThrow(
      /unknown option `chat.threads`, known are sequences,/,
    );
  });
});

describe('scheduling', () => {
  it('answers in order of arrival, as many at a time as there are sequences', async () => {
    const runtime = fakeRuntime(moody);
    const { server, ask } = await chatServer(runtime, { sequences: 2 });
    const leave = new AbortController();
    const hanging = [refusal(ask('hang', {}, leave.signal)), refusal(ask('hang', {}, leave.signal))];
    const questions = ['first question', 'second question', 'third question', 'fourth question'];
    const answers: Promise<OpenAI.ChatCompletion>[] = [];
    for (const question of questions) {
      await vi.waitFor(() => {
        expect(server.stats().chat).toMatchObject({ queued: answers.length, busySequences: 2 });
      }, PATIENT);
      answers.push(ask(question));
    }
    await vi.waitFor(() => {
      expect(server.stats().chat?.queued).toBe(4);
    }, PATIENT);
    leave.abort();
    expect((await Promise.all(answers)).map(({ choices }) => choices[0]?.message.content)).toEqual(questions);
    await Promise.all(hanging);
    expect(runtime.started.map(({ prompt }) => prompt)).toEqual(['hang', 'hang', ...questions]);
    expect(runtime.mostRunning).toBe(2);
    await idle(server);
  });

  it('stops an answer whose client leaves, and gives its sequence to the next', async () => {
    const runtime = fakeRuntime(moody);
    const { server, stream, ask } = await chatServer(runtime, { sequences: 1 });
    const leave = new AbortController();
    const chunks = (await stream('hang', {}, leave.signal))[Symbol.asyncIterator]();
    await chunks.next();
    const queued = new AbortController();
    const leftInQueue = refusal(ask('never asked', {}, queued.signal));
    const next = ask('next please');
    await vi.waitFor(() => {
      expect(server.stats().chat).toMatchObject({ queued: 2, busySequences: 1 });
    }, PATIENT);
    queued.abort();
    expect(await leftInQueue).toBeInstanceOf(OpenAI.APIUserAbortError);
    await vi.waitFor(() => {
      expect(server.stats().chat).toMatchObject({ queued: 1, busySequences: 1 });
    }, PATIENT);
    leave.abort();
    expect((await next).choices[0]?.message.content).toBe('next please');
    expect(runtime.started.map(({ prompt, job }) => [prompt, job.signal.aborted])).toEqual([
      ['hang', true],
      ['next please', false],
    ]);
    await idle(server);
    expect(server.stats()).toMatchObject({ aborted: { requests: 2 }, chat: { answered: { texts: 1 } } });
  });

  it('answers 503 when too many wait', async () => {
    const { server, ask } = await chatServer(fakeRuntime(moody), { sequences: 1, maxQueuedChats: 0 });
    const leave = new AbortController();
    const hanging = refusal(ask('hang', {}, leave.signal));
    await vi.waitFor(() => {
      expect(server.stats().chat?.busySequences).toBe(1);
    }, PATIENT);
    expect(await refusal(ask('hi'))).toMatchObject({ status: 503, code: 'overloaded' });
    leave.abort();
    await hanging;
    await idle(server);
    expect((await ask('hi')).choices[0]?.message.content).toBe('hi');
  });

  it('ends a running answer when the server closes', async () => {
    const runtime = fakeRuntime(hang);
    const { server, ask } = await chatServer(runtime);
    const lost = refusal(ask('hang'));
    await vi.waitFor(() => {
      expect(runtime.running).toBe(1);
    }, PATIENT);
    await server.close();
    expect(await lost).toBeInstanceOf(OpenAI.APIConnectionError);
    await vi.waitFor(() => {
      expect(runtime).toMatchObject({ running: 0, closed: true });
    }, PATIENT);
  });
});

describe('limits and faults', () => {
  it('charges prompt and longest answer, with limits of its own', async () => {
    const { server, ask } = await chatServer(fakeRuntime(), {}, { tokensPerMinute: 60, requestsPerMinute: 600, burstSeconds: 60 });
    await clientOf(server).embeddings.create({ model: 'all-MiniLM-L6-v2', input: 'x '.repeat(50) });
    const first = await ask('a b c', { max_tokens: 37 }).withResponse();
    expect(Number(first.response.headers.get('x-ratelimit-remaining-tokens'))).toBeLessThan(45);
    expect(first.data.usage?.total_tokens).toBe(6);
    const error = await refusal(ask('a b c', { max_tokens: 40 }));
    expect(error).toMatchObject({ status: 429, type: 'tokens', code: 'rate_limit_exceeded' });
    expect(error.message).toMatch(
      /^429 Rate limit reached for tinyllama-1\.1b-chat on tokens per min \(TPM\): Limit 60, .* Requested 43\./,
    );
    expect(Number(error.headers?.get('retry-after-ms'))).toBeGreaterThan(1000);
    expect(error.headers?.get('x-ratelimit-limit-requests')).toBe('600');
  });

  it('fails on purpose as the embeddings do', async () => {
    const statuses = async (seed: number) => {
      const { server } = await chatServer(fakeRuntime(), {}, { faults: { seed, rate429: 0.25, rate5xx: 0.25 } });
      const seen: number[] = [];
      for (let i = 0; i < 24; i++) {
        const response = await post(server, { model, messages: [{ role: 'user', content: 'x' }] });
        await response.text();
        seen.push(response.status);
      }
      const { rate429, rate5xx } = server.stats().faults;
      expect([seen.filter((status) => status === 429), seen.filter((status) => status >= 500)]).toMatchObject([
        { length: rate429 },
        { length: rate5xx },
      ]);
      expect(rate429 * rate5xx).toBeGreaterThan(0);
      return seen;
    };
    expect(await statuses(7)).toEqual(await statuses(7));
  });

  it('cuts a stream half-way, holds it back, and refuses a poisoned message', async () => {
    const poison = 'The one text that fails every call.';
    const poisonSha256 = [createHash('sha256').update(poison).digest('hex')];
    const log: LogEntry[] = [];
    const faults = { cutSockets: 1, cutEvery: 1, slowRate: 1, slowMs: 20, poisonSha256 };
    const { server, completions, stream } = await chatServer(fakeRuntime(), {}, { faults, log: (entry) => log.push(entry) });
    const seen: string[] = [];
    const read = async () => {
      for await (const { choices } of await stream('a b c d', { max_tokens: 4 })) seen.push(choices[0]?.delta.content ?? '');
    };
    await expect(read()).rejects.toThrow('terminated');
    expect(seen.join('')).toBe('a b');
    seen.length = 0;
    await read();
    expect(seen.join('')).toBe('a b c d');
    const messages = [
      { role: 'system', content: 'be brief' },
      { role: 'user', content: poison },
    ] as const;
    const refused = await refusal(completions.create({ model, messages: [...messages] }));
    expect(refused).toMatchObject({ status: 400, param: 'messages[1].content', code: 'unprocessable_text' });
    expect(server.stats()).toMatchObject({ faults: { cut: 1, slow: 2, poison: 1 }, aborted: { requests: 0 } });
    expect(log).toMatchObject([{ faults: ['slow', 'cut'] }, { faults: ['slow'], status: 200, inputs: 1, tokens: 4 }, { status: 400 }]);
  });
});

describe('the model package', () => {
  it('is asked for by one sentence, at the start and on the route, when it is not installed', async () => {
    const copy = await mkdtemp(path.join(tmpdir(), 'model-server-'));
    onTestFinished(() => rm(copy, { recursive: true }));
    await cp(EXAMPLE, copy, { recursive: true, filter: (source) => source === EXAMPLE || isOwnFile(source) });
    const alone = (await import(pathToFileURL(path.join(copy, 'index.mjs')).href)) as { startModelServer: typeof startModelServer };
    await expect(alone.startModelServer({ engine: fakeEngine, chat: true })).rejects.toMatchObject({
      code: 'MODEL_FILES_INVALID',
      message: INSTALL,
    });
    const server = await alone.startModelServer({ engine: fakeEngine });
    onTestFinished(() => server.close());
    const answer = clientOf(server).chat.completions.create({ model, messages: [{ role: 'user', content: 'hi' }] });
    const refused = await refusal(answer);
    expect(refused).toMatchObject({ status: 404, code: 'chat_not_available', message: `404 ${INSTALL}` });
    expect(server.stats().chat).toBeUndefined();
  });

  it('is joined once, checked every time, and refused with another byte', async () => {
    const { joinModel } = (await import(pathToFileURL(path.join(EXAMPLE, 'chat/joined-model.mjs')).href)) as {
      joinModel: (parts: string[], file: string, sha256: string, install: string) => Promise<void>;
    };
    const folder = await mkdtemp(path.join(tmpdir(), 'joined-model-'));
    onTestFinished(() => rm(folder, { recursive: true }));
    const parts = ['one', 'two'].map((name) => path.join(folder, name));
    const file = path.join(folder, 'cache', 'model');
    const sha256 = createHash('sha256').update('first second').digest('hex');
    await writeFile(parts[0]!, 'first ');
    await writeFile(parts[1]!, 'second');
    await joinModel(parts, file, sha256, 'Run it.');
    expect(await readFile(file, 'utf8')).toBe('first second');

    await writeFile(parts[1]!, 'sEcond');
    await joinModel(parts, file, sha256, 'Run it.');
    await writeFile(file, 'altered');
    const joined = joinModel(parts, file, sha256, 'Run it.');
    await expect(joined).rejects.toMatchObject({
      code: 'MODEL_FILES_INVALID',
      message: expect.stringMatching(
        new RegExp(`expected ${parts.join(' and ')} to join .* ${sha256}, got [0-9a-f]{64}: .* Run it\\.`),
      ) as string,
    });
    expect(await readdir(path.dirname(file))).toEqual(['model']);
  });

  it.skipIf(!hasChatModel)(
    'answers for real, when it is installed: npm ci --prefix examples/model-server/chat',
    { timeout: 600_000 },
    async () => {
      const server = await serverFor({ chat: { sequences: 2 } });
      const { completions } = clientOf(server).chat;
      const messages = [{ role: 'user' as const, content: 'What is the capital of France?' }];
      const whole = await completions.create({ model, messages, max_completion_tokens: 20 });
      expect(whole.choices[0]?.message.content).toContain('Paris');
      expect(whole.usage).toMatchObject({ prompt_tokens: 24 });

      const streamOf = async (rest: Partial<Create>) => {
        const stream = await completions.create({ model, messages, ...rest, stream: true, stream_options: { include_usage: true } });
        const chunks = await all(stream);
        const text = chunks.map(({ choices }) => choices[0]?.delta.content ?? '').join('');
        return { text, reason: chunks.at(-2)?.choices[0]?.finish_reason, tokens: chunks.at(-1)?.usage?.completion_tokens };
      };
      const [cut, stopped] = await Promise.all([streamOf({ max_completion_tokens: 3 }), streamOf({ stop: ['Paris'] })]);
      expect(cut).toMatchObject({ reason: 'length', tokens: 3 });
      expect(whole.choices[0]?.message.content?.startsWith(cut.text)).toBe(true);
      expect(stopped).toMatchObject({ text: 'The capital of France is', reason: 'stop' });

      const leave = new AbortController();
      const story = await completions.create(
        { model, messages: [{ role: 'user', content: 'Tell me a long story about a fox.' }], stream: true },
        { signal: leave.signal },
      );
      await story[Symbol.asyncIterator]().next();
      expect(server.stats().chat?.busySequences).toBe(1);
      leave.abort();
      await vi.waitFor(
        () => {
          expect(server.stats().chat).toMatchObject({ busySequences: 0, answered: { texts: 3 } });
        },
        { timeout: 60_000, interval: 20 },
      );
    },
  );
});
