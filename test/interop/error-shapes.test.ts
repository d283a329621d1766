import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import Anthropic from '@anthropic-ai/sdk';
import { AsyncCaller } from '@langchain/core/utils/async_caller';
import { ChatOpenAI, OpenAIEmbeddings } from '@langchain/openai';
import {
  Client as McpClient,
  StreamableHTTPClientTransport as McpHttp,
  ProtocolError,
  SdkError,
  SdkErrorCode,
} from '@modelcontextprotocol/client';
import { Client as McpClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as McpHttpV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { InMemoryTransport as McpMemoryV1 } from '@modelcontextprotocol/sdk/inMemory.js';
import { McpServer as McpServerV1 } from '@modelcontextprotocol/sdk/server/mcp.js';
import { McpError } from '@modelcontextprotocol/sdk/types.js';
import { InMemoryTransport as McpMemory, McpServer } from '@modelcontextprotocol/server';
import {
  createProviderRegistry,
  EmptyResponseBodyError,
  embed,
  embedMany,
  generateText,
  InvalidArgumentError,
  InvalidPromptError,
  InvalidResponseDataError,
  LoadSettingError,
  NoObjectGeneratedError,
  RetryError,
  TypeValidationError,
  UnsupportedFunctionalityError,
} from 'ai';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type { ClassifyContext, Verdict } from '../../operators/index.js';
import { classifyError } from '../../operators/index.js';
import type { FailingApi, Failure } from '../fakes/failing-api.js';
import { startFailingApi } from '../fakes/failing-api.js';
import { expectNoUnhandledRejections } from '../support/rejections.js';

/** How one client makes one call, its own retries off. */
type Call = (to: { readonly url: string; readonly signal?: AbortSignal; readonly timeoutMs: number }) => PromiseLike<unknown>;

const TEXTS = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'];
const CALL: ClassifyContext = { size: TEXTS.length, attempt: 1, aborted: false };
const LONG_MS = 10_000;
const SHORT_MS = 40;

const clients: Readonly<Record<string, Call>> = {
  'openai embeddings.create': ({ url, signal, timeoutMs }) =>
    new OpenAI({ apiKey: 'test', baseURL: `${url}/v1`, maxRetries: 0, timeout: timeoutMs }).embeddings.create(
      { model: 'm', input: TEXTS },
      { signal },
    ),
  'openai responses.create': ({ url, signal, timeoutMs }) =>
    new OpenAI({ apiKey: 'test', baseURL: `${url}/v1`, maxRetries: 0, timeout: timeoutMs }).responses.create(
      { model: 'm', input: 'hi' },
      { signal },
    ),
  '@anthropic-ai/sdk messages.create': ({ url, signal, timeoutMs }) =>
    new Anthropic({ apiKey: 'test', baseURL: url, maxRetries: 0, timeout: timeoutMs }).messages.create(
      { model: 'm', max_tokens: 1, messages: [{ role: 'user', content: 'hi' }] },
      { signal },
    ),
  'ai embedMany': ({ url, signal, timeoutMs }) =>
    embedMany({
      model: createOpenAICompatible({ name: 'local', baseURL: `${url}/v1` }).embeddingModel('m'),
      values: TEXTS,
      maxRetries: 0,
      abortSignal: signal ?? AbortSignal.timeout(timeoutMs),
    }),
  'ai generateText': ({ url, signal, timeoutMs }) =>
    generateText({
      model: createOpenAI({ apiKey: 'test', baseURL: `${url}/v1` })('m'),
      prompt: 'hi',
      maxRetries: 0,
      ...(signal ? { abortSignal: signal } : { timeout: timeoutMs }),
    }),
  '@langchain/openai ChatOpenAI': ({ url, signal, timeoutMs }) =>
    new ChatOpenAI({ apiKey: 'test', model: 'm', maxRetries: 0, timeout: timeoutMs, configuration: { baseURL: `${url}/v1` } }).invoke(
      'hi',
      signal && { signal },
    ),
  '@langchain/openai OpenAIEmbeddings': ({ url, timeoutMs }) =>
    new OpenAIEmbeddings({
      apiKey: 'test',
      model: 'm',
      maxRetries: 0,
      timeout: timeoutMs,
      configuration: { baseURL: `${url}/v1` },
    }).embedDocuments(TEXTS),
};

const failures: readonly (readonly [name: string, failure: Failure, expected: Verdict])[] = [
  [
    '429 with retry-after',
    { status: 429, headers: { 'retry-after': '7' }, message: 'Slow down', code: 'rate_limit_exceeded', type: 'rate_limit_error' },
    { class: 'throttled', retryAfterMs: 7000 },
  ],
  [
    '429 with retry-after-ms',
    { status: 429, headers: { 'retry-after-ms': '6543', 'retry-after': '7' }, message: 'Slow down', type: 'rate_limit_error' },
    { class: 'throttled', retryAfterMs: 6543 },
  ],
  ['429 without a hint', { status: 429, message: 'Slow down', type: 'rate_limit_error' }, { class: 'throttled' }],
  [
    '429, quota used up',
    {
      status: 429,
      headers: { 'retry-after': '7' },
      message: 'You exceeded your current quota, please check your plan and billing details.',
      code: 'insufficient_quota',
      type: 'billing_error',
    },
    { class: 'fatal' },
  ],
  [
    '400, no credit left',
    { status: 400, message: 'Your credit balance is too low to access the API. Please go to Plans & Billing.' },
    { class: 'fatal' },
  ],
  ['400 that names an item', { status: 400, message: "'$.input[3]' is invalid", param: 'input[3]' }, { class: 'itemFault', blame: [3] }],
  ['400 that names an item beyond the call', { status: 400, message: 'input[9] is invalid' }, { class: 'itemFault' }],
  ['400 that names nothing', { status: 400, message: 'One of the inputs is invalid' }, { class: 'itemFault' }],
  ['400 for an unknown option', { status: 400, message: 'No such option', param: 'foo', code: 'unknown_parameter' }, { class: 'fatal' }],
  [
    '400, context too long',
    {
      status: 400,
      message: "This model's maximum context length is 8192 tokens, however you requested 9001 tokens",
      code: 'context_length_exceeded',
    },
    { class: 'tooLarge', tooLarge: { actual: 9001, limit: 8192 } },
  ],
  ['401', { status: 401, message: 'Incorrect API key', code: 'invalid_api_key', type: 'authentication_error' }, { class: 'fatal' }],
  ['403', { status: 403, message: 'Not for you', type: 'permission_error' }, { class: 'fatal' }],
  [
    '404 for a model',
    { status: 404, message: 'The model does not exist', code: 'model_not_found', type: 'not_found_error' },
    { class: 'fatal' },
  ],
  ['413', { status: 413, message: 'Request exceeds the maximum size', type: 'request_too_large' }, { class: 'tooLarge' }],
  ['500', { status: 500, message: 'Something went wrong', type: 'api_error' }, { class: 'transient' }],
  [
    '503 with retry-after',
    { status: 503, headers: { 'retry-after': '0.25' }, message: 'Overloaded' },
    { class: 'transient', retryAfterMs: 250 },
  ],
  ['529', { status: 529, message: 'Overloaded', type: 'overloaded_error' }, { class: 'transient' }],
  ['a socket cut before the answer', 'cutSocket', { class: 'transient' }],
  ['a body that breaks off', 'brokenBody', { class: 'transient' }],
];

/** Clients whose error says less than the answer did. */
const SAYS_LESS: Readonly<Record<string, Verdict>> = {
  // Anthropic has no code for it.
  '@anthropic-ai/sdk messages.create, 400 for an unknown option': { class: 'itemFault' },
};

let api: FailingApi;

beforeAll(async () => {
  api = await startFailingApi();
});
afterAll(() => api.stop());

async function errorOf(call: () => PromiseLike<unknown>): Promise<unknown> {
  try {
    await call();
  } catch (error) {
    return error;
  }
  throw new Error('the call should have failed');
}

/** The address of a server that has stopped. */
async function closedUrl(): Promise<string> {
  const gone = await startFailingApi();
  await gone.stop();
  return gone.url;
}

/** Aborts, as operators here do, when the request has arrived. */
async function abortedCall(call: (signal: AbortSignal) => PromiseLike<unknown>): Promise<unknown> {
  api.fail('silent');
  const controller = new AbortController();
  const seen = api.requests;
  const error = errorOf(() => call(controller.signal));
  await expect.poll(() => api.requests, { interval: 2 }).toBeGreaterThan(seen);
  controller.abort(new DOMException('superseded', 'AbortError'));
  return error;
}

describe.each(Object.entries(clients))('%s', (client, call) => {
  expectNoUnhandledRejections();

  it.each(failures)('%s', async (name, failure, expected) => {
    api.fail(failure);
    const error = await errorOf(() => call({ url: api.url, timeoutMs: LONG_MS }));
    expect(classifyError(error, CALL)).toEqual(SAYS_LESS[`${client}, ${name}`] ?? expected);
    expect(classifyError(new Error('the work failed', { cause: error }), CALL)).toEqual(SAYS_LESS[`${client}, ${name}`] ?? expected);
  });

  it('a port without a server', async () => {
    const url = await closedUrl();
    expect(classifyError(await errorOf(() => call({ url, timeoutMs: LONG_MS })), CALL)).toEqual({ class: 'transient' });
  });

  it('its own timeout', async () => {
    api.fail('silent');
    expect(classifyError(await errorOf(() => call({ url: api.url, timeoutMs: SHORT_MS })), CALL)).toEqual({ class: 'timeout' });
  });

  // LangChain's embeddings take no signal.
  if (client !== '@langchain/openai OpenAIEmbeddings') {
    it('an aborted call, by our signal or by another', async () => {
      const error = await abortedCall((signal) => call({ url: api.url, signal, timeoutMs: LONG_MS }));
      expect(classifyError(error, { ...CALL, aborted: true })).toEqual({ class: 'cancelled' });
      expect(classifyError(error, CALL)).toEqual({ class: 'cancelled' });
    });
  }
});

describe('retries of the AI SDK left on', () => {
  const soon = { 'retry-after-ms': '1' };
  const call = (): PromiseLike<unknown> =>
    embedMany({
      model: createOpenAICompatible({ name: 'local', baseURL: `${api.url}/v1` }).embeddingModel('m'),
      values: TEXTS,
      maxRetries: 2,
    });

  it('gives up after three 429s: the last one counts', async () => {
    const throttled: Failure = { status: 429, headers: soon, message: 'Slow down' };
    api.fail(throttled, throttled, { ...throttled, headers: { 'retry-after': '7' } });
    const error = await errorOf(call);
    expect(RetryError.isInstance(error) && error.errors).toHaveLength(3);
    expect(classifyError(error, CALL)).toEqual({ class: 'throttled', retryAfterMs: 7000 });
  });

  it('meets a 400 after a 503: the last one counts', async () => {
    api.fail({ status: 503, headers: soon, message: 'Overloaded' }, { status: 400, message: 'bad', param: 'input[3]' });
    const error = await errorOf(call);
    expect(RetryError.isInstance(error) && error.reason).toBe('errorNotRetryable');
    expect(classifyError(error, CALL)).toEqual({ class: 'itemFault', blame: [3] });
  });
});

describe('errors the AI SDK makes itself', () => {
  const model = () => createOpenAICompatible({ name: 'local', baseURL: `${api.url}/v1` }).embeddingModel('m');

  it('an answer that is no JSON', async () => {
    api.fail('notJson');
    expect(classifyError(await errorOf(() => embed({ model: model(), value: 'a', maxRetries: 0 })), CALL)).toEqual({ class: 'contract' });
  });

  it('more values than the provider takes in a call', async () => {
    const values = Array.from({ length: 3000 }, () => 'a');
    const error = await errorOf(() => model().doEmbed({ values }));
    expect(classifyError(error, CALL)).toEqual({ class: 'tooLarge' });
  });

  it('a provider or a model that does not exist, a key that is not set', async () => {
    const registry = createProviderRegistry({});
    const thrown = (make: () => unknown): Promise<unknown> => errorOf(() => Promise.resolve().then(make));
    expect(classifyError(await thrown(() => registry.embeddingModel('none:m' as never)), CALL)).toEqual({ class: 'fatal' });
    expect(classifyError(await thrown(() => registry.languageModel('m' as never)), CALL)).toEqual({ class: 'fatal' });
    vi.stubEnv('OPENAI_API_KEY', undefined);
    const keyless = createOpenAI({ baseURL: `${api.url}/v1` }).embeddingModel('m');
    expect(classifyError(await errorOf(() => embed({ model: keyless, value: 'a', maxRetries: 0 })), CALL)).toEqual({ class: 'fatal' });
    vi.unstubAllEnvs();
  });
});

describe('error objects that no answer of a server makes', () => {
  const noUsage = { inputTokens: undefined, outputTokens: undefined, totalTokens: undefined } as never;
  const response = { id: 'r', timestamp: new Date(0), modelId: 'm' };

  it.each<[unknown, Verdict['class']]>([
    [new NoObjectGeneratedError({ response, usage: noUsage, finishReason: 'stop', cause: new SyntaxError('bad JSON') }), 'itemFault'],
    [new InvalidPromptError({ prompt: undefined, message: 'no messages' }), 'itemFault'],
    [new TypeValidationError({ value: {}, cause: new Error('no data') }), 'contract'],
    [new InvalidResponseDataError({ data: {} }), 'contract'],
    [new EmptyResponseBodyError(), 'transient'],
    [new LoadSettingError({ message: 'no region' }), 'fatal'],
    [new UnsupportedFunctionalityError({ functionality: 'images' }), 'fatal'],
    [new InvalidArgumentError({ parameter: 'temperature', value: 'hot', message: 'no number' }), 'fatal'],
    ...[-32_700, -32_600, -32_601, -32_021, -32_022, -32_042].flatMap((code): [unknown, Verdict['class']][] => [
      [new McpError(code, 'no'), 'fatal'],
      [ProtocolError.fromError(code, 'no'), 'fatal'],
    ]),
    [new McpError(-32_002, 'no such resource'), 'itemFault'],
    [ProtocolError.fromError(-32_002, 'no such resource', { uri: 'test://none' }), 'itemFault'],
    [new SdkError(SdkErrorCode.InvalidResult, 'no content'), 'contract'],
    [new SdkError(SdkErrorCode.SendFailed, 'the pipe broke'), 'transient'],
    [new SdkError(SdkErrorCode.CapabilityNotSupported, 'no tools'), 'fatal'],
    [new SdkError(SdkErrorCode.EraNegotiationFailed, 'no common version'), 'fatal'],
  ])('%s: %s', (error, expected) => {
    expect(classifyError(error, CALL).class).toBe(expected);
    expect(classifyError(new Error('the work failed', { cause: error }), CALL).class).toBe(expected);
  });
});

describe('the AsyncCaller of LangChain', () => {
  const caller = new AsyncCaller({ maxRetries: 0 });
  const client = () => new OpenAI({ apiKey: 'test', baseURL: `${api.url}/v1`, maxRetries: 0 });
  const call = (): Promise<unknown> => caller.call(async () => client().embeddings.create({ model: 'm', input: TEXTS }));

  it.each<[string, Failure, Verdict]>([
    ['a short hint', { status: 429, headers: { 'retry-after': '7' }, message: 'x' }, { class: 'throttled', retryAfterMs: 7000 }],
    ['a long hint', { status: 429, headers: { 'retry-after': '90' }, message: 'x' }, { class: 'throttled', retryAfterMs: 90_000 }],
    ['a quota by its code', { status: 429, message: 'x', code: 'insufficient_quota' }, { class: 'fatal' }],
    ['a quota by its message', { status: 429, message: 'Usage quota exhausted' }, { class: 'fatal' }],
    ['a bad item', { status: 400, message: 'bad', param: 'input[3]' }, { class: 'itemFault', blame: [3] }],
  ])('%s', async (_name, failure, expected) => {
    api.fail(failure);
    expect(classifyError(await errorOf(call), CALL)).toEqual(expected);
  });

  it('an abort while the call is under way', async () => {
    const error = await abortedCall((signal) => caller.callWithOptions({ signal }, async () => fetch(api.url, { signal })));
    expect(classifyError(error, CALL)).toEqual({ class: 'cancelled' });
  });
});

describe('global fetch', () => {
  it('a port without a server, a cut socket, a body that breaks off', async () => {
    expect(classifyError(await errorOf(async () => fetch(await closedUrl())), CALL)).toEqual({ class: 'transient' });
    api.fail('cutSocket');
    expect(classifyError(await errorOf(() => fetch(api.url)), CALL)).toEqual({ class: 'transient' });
    api.fail('brokenBody');
    expect(classifyError(await errorOf(async () => (await fetch(api.url)).json()), CALL)).toEqual({ class: 'transient' });
  });

  it('AbortSignal.timeout, and an abort by another signal', async () => {
    api.fail('silent');
    expect(classifyError(await errorOf(() => fetch(api.url, { signal: AbortSignal.timeout(SHORT_MS) })), CALL)).toEqual({
      class: 'timeout',
    });
    expect(classifyError(await abortedCall((signal) => fetch(api.url, { signal })), CALL)).toEqual({ class: 'cancelled' });
  });
});

/** What both majors of the MCP client can do. */
interface Mcp {
  readonly close: () => Promise<void>;
  readonly callTool: (name: string, options?: { readonly timeout?: number; readonly signal?: AbortSignal }) => Promise<unknown>;
  readonly readResource: (uri: string) => Promise<unknown>;
  readonly getPrompt: (name: string) => Promise<unknown>;
  /** Closes the other side. */
  readonly hangUp: () => Promise<void>;
  /** Connects over HTTP. */
  readonly connect: (url: string, timeoutMs: number) => Promise<unknown>;
}

const NAMED = { name: 'test', version: '1' };
let neverEnding = 0;
const never = (): Promise<never> => {
  neverEnding++;
  return new Promise(() => undefined);
};
const broken = (): never => {
  throw new Error('broken');
};

const mcps: Readonly<Record<string, () => Promise<Mcp>>> = {
  '@modelcontextprotocol/client 2': async () => {
    const [server, client] = [new McpServer(NAMED), new McpClient(NAMED)];
    server.registerTool('never', {}, never);
    server.registerResource('broken', 'test://broken', {}, broken);
    const [here, there] = McpMemory.createLinkedPair();
    await Promise.all([server.connect(there), client.connect(here)]);
    return {
      close: () => client.close(),
      callTool: (name, options) => client.callTool({ name, arguments: {} }, options),
      readResource: (uri) => client.readResource({ uri }),
      getPrompt: (name) => client.getPrompt({ name }),
      hangUp: () => server.close(),
      connect: (url, timeout) => new McpClient(NAMED).connect(new McpHttp(new URL(url)), { timeout }),
    };
  },
  '@modelcontextprotocol/sdk 1': async () => {
    const [server, client] = [new McpServerV1(NAMED), new McpClientV1(NAMED)];
    server.registerTool('never', {}, never);
    server.registerResource('broken', 'test://broken', {}, broken);
    const [here, there] = McpMemoryV1.createLinkedPair();
    await Promise.all([server.connect(there), client.connect(here)]);
    return {
      close: () => client.close(),
      callTool: (name, options) => client.callTool({ name, arguments: {} }, undefined, options),
      readResource: (uri) => client.readResource({ uri }),
      getPrompt: (name) => client.getPrompt({ name }),
      hangUp: () => server.close(),
      connect: (url, timeout) => new McpClientV1(NAMED).connect(new McpHttpV1(new URL(url)), { timeout }),
    };
  },
};

describe.each(Object.entries(mcps))('%s', (_name, open) => {
  const ONE: ClassifyContext = { size: 1, attempt: 1, aborted: false };
  let mcp: Mcp;

  beforeAll(async () => {
    mcp = await open();
  });
  afterAll(() => mcp.close());

  it('its own timeout (-32001)', async () => {
    expect(classifyError(await errorOf(() => mcp.callTool('never', { timeout: SHORT_MS })), ONE)).toEqual({ class: 'timeout' });
  });

  it('a call that was aborted, which it reports as a timeout', async () => {
    const controller = new AbortController();
    const error = errorOf(() => mcp.callTool('never', { signal: controller.signal }));
    controller.abort();
    expect(classifyError(await error, ONE)).toEqual({ class: 'cancelled' });
    expect(classifyError(await error, { ...ONE, aborted: true })).toEqual({ class: 'cancelled' });
  });

  it('params the server refuses (-32602), a method it does not know (-32601), a handler that throws (-32603)', async () => {
    expect(classifyError(await errorOf(() => mcp.readResource('test://none')), ONE)).toEqual({ class: 'itemFault' });
    expect(classifyError(await errorOf(() => mcp.getPrompt('none')), ONE)).toEqual({ class: 'fatal' });
    expect(classifyError(await errorOf(() => mcp.readResource('test://broken')), ONE)).toEqual({ class: 'transient' });
  });

  it('a connection that closes during the call (-32000)', async () => {
    const other = await open();
    const before = neverEnding;
    const error = errorOf(() => other.callTool('never'));
    await expect.poll(() => neverEnding, { interval: 2 }).toBeGreaterThan(before);
    await other.hangUp();
    expect(classifyError(await error, ONE)).toEqual({ class: 'transient' });
  });

  it.each<[Failure, Verdict]>([
    [{ status: 429, message: 'Slow down' }, { class: 'throttled' }],
    [{ status: 401, message: 'Who are you?' }, { class: 'fatal' }],
    [{ status: 404, message: 'No such session' }, { class: 'fatal' }],
    [{ status: 503, message: 'Overloaded' }, { class: 'transient' }],
    ['cutSocket', { class: 'transient' }],
    ['brokenBody', { class: 'transient' }],
  ])('over HTTP: %j', async (failure, expected) => {
    api.fail(failure);
    expect(classifyError(await errorOf(() => mcp.connect(`${api.url}/mcp`, LONG_MS)), ONE)).toEqual(expected);
  });

  it('over HTTP: no answer, no server', async () => {
    api.fail('silent');
    expect(classifyError(await errorOf(() => mcp.connect(`${api.url}/mcp`, SHORT_MS)), ONE)).toEqual({ class: 'timeout' });
    const url = await closedUrl();
    expect(classifyError(await errorOf(() => mcp.connect(`${url}/mcp`, LONG_MS)), ONE)).toEqual({ class: 'transient' });
  });
});
