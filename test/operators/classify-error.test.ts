import type { RequestListener, Server } from 'node:http';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import OpenAI from 'openai';
import { afterEach, describe, expect, it } from 'vitest';
import type { ClassifyContext, Verdict } from '../../operators/index.js';
import {
  AttemptTimeoutError,
  BatchShapeError,
  CallbackError,
  ClosedError,
  classifyError,
  DeadlineError,
  FlowConfigError,
  FlowError,
  ItemTooHeavyError,
  LaneUnknownError,
  OverflowError,
  RateLimitError,
  SequenceError,
  SplitLimitError,
} from '../../operators/index.js';

const CALL: ClassifyContext = { size: 8, attempt: 1, aborted: false };

function verdict(error: unknown, context: Partial<ClassifyContext> = {}): Verdict {
  return classifyError(error, { ...CALL, ...context });
}

function failure(fields: Record<string, unknown>, message = 'failed', cause?: unknown): Error {
  return Object.assign(new Error(message, cause === undefined ? undefined : { cause }), fields);
}

const servers: Server[] = [];

afterEach(async () => {
  await Promise.all(
    servers.splice(0).map((server) => {
      server.closeAllConnections();
      return new Promise((closed) => server.close(closed));
    }),
  );
});

async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  servers.push(server);
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  return `http://127.0.0.1:${String((server.address() as AddressInfo).port)}`;
}

function clientOf(baseURL: string, timeout = 5000): OpenAI {
  return new OpenAI({ apiKey: 'test', baseURL, maxRetries: 0, timeout });
}

async function embedError(client: OpenAI, signal?: AbortSignal): Promise<unknown> {
  try {
    await client.embeddings.create({ model: 'm', input: ['a', 'b'] }, signal && { signal });
  } catch (error) {
    return error;
  }
  throw new Error('the call should have failed');
}

describe('errors of the openai package', () => {
  const answers: [status: number, body: Record<string, unknown>, headers: Record<string, string>, expected: Verdict][] = [
    [
      400,
      { message: "Invalid 'input[3]': string too long", type: 'invalid_request_error', param: 'input[3]', code: 'string_above_max_length' },
      {},
      { class: 'itemFault', blame: [3] },
    ],
    [
      400,
      { message: "'$.input[5]' is invalid", type: 'invalid_request_error', param: null, code: null },
      {},
      { class: 'itemFault', blame: [5] },
    ],
    [400, { message: 'Unknown parameter', type: 'invalid_request_error', param: 'foo', code: 'unknown_parameter' }, {}, { class: 'fatal' }],
    [
      400,
      {
        message: 'Requested 375703 tokens, max 300000 tokens per request',
        type: 'max_tokens_per_request',
        param: null,
        code: 'max_tokens_per_request',
      },
      {},
      { class: 'tooLarge', tooLarge: { actual: 375_703, limit: 300_000 } },
    ],
    [401, { message: 'Incorrect API key', type: 'invalid_request_error', code: 'invalid_api_key' }, {}, { class: 'fatal' }],
    [404, { message: 'The model does not exist', type: 'invalid_request_error', code: 'model_not_found' }, {}, { class: 'fatal' }],
    [413, { message: 'Payload too large' }, {}, { class: 'tooLarge' }],
    [
      429,
      { message: 'Rate limit reached: Limit 3, Used 3, Requested 1', type: 'requests', code: 'rate_limit_exceeded' },
      { 'retry-after': '7', 'retry-after-ms': '6543' },
      { class: 'throttled', retryAfterMs: 6543 },
    ],
    [
      429,
      { message: 'You exceeded your current quota', type: 'insufficient_quota', code: 'insufficient_quota' },
      { 'retry-after': '1' },
      { class: 'fatal' },
    ],
    [500, { message: 'The server had an error', type: 'server_error' }, {}, { class: 'transient' }],
    [503, { message: 'Overloaded' }, { 'Retry-After': '0.25' }, { class: 'transient', retryAfterMs: 250 }],
  ];

  it.each(answers)('%i %j', async (status, error, headers, expected) => {
    const url = await serve((_request, response) => {
      response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify({ error }));
    });
    const thrown = await embedError(clientOf(url));
    expect(thrown).toBeInstanceOf(OpenAI.APIError);
    expect(verdict(thrown)).toEqual(expected);
  });

  it('a page of HTML from a proxy', async () => {
    const url = await serve((_request, response) => {
      response.writeHead(502, { 'content-type': 'text/html' }).end('<html>Bad gateway</html>');
    });
    expect(verdict(await embedError(clientOf(url)))).toEqual({ class: 'transient' });
  });

  it('a socket cut before the answer', async () => {
    const url = await serve((request) => request.socket.destroy());
    const thrown = await embedError(clientOf(url));
    expect(thrown).toBeInstanceOf(OpenAI.APIConnectionError);
    expect(verdict(thrown)).toEqual({ class: 'transient' });
  });

  it('a port without a server', async () => {
    const url = await serve(() => undefined);
    const server = servers.splice(0)[0];
    await new Promise((closed) => server?.close(closed));
    expect(verdict(await embedError(clientOf(url)))).toEqual({ class: 'transient' });
  });

  it('its own timeout', async () => {
    const url = await serve(() => undefined);
    const thrown = await embedError(clientOf(url, 30));
    expect(thrown).toBeInstanceOf(OpenAI.APIConnectionTimeoutError);
    expect(verdict(thrown)).toEqual({ class: 'timeout' });
  });

  it('an aborted call, by our signal or by another', async () => {
    const controller = new AbortController();
    const url = await serve(() => {
      controller.abort();
    });
    const thrown = await embedError(clientOf(url), controller.signal);
    expect(thrown).toBeInstanceOf(OpenAI.APIUserAbortError);
    expect(verdict(thrown, { aborted: true })).toEqual({ class: 'cancelled' });
    expect(verdict(thrown, { aborted: false })).toEqual({ class: 'cancelled' });
  });

  it('an error inside a stream that began with 200', async () => {
    const url = await serve((_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.end('data: {"error":{"message":"Too many requests","type":"requests","code":"rate_limit_exceeded"}}\n\n');
    });
    const stream = await clientOf(url).chat.completions.create({ model: 'm', messages: [], stream: true });
    const read = async () => {
      for await (const chunk of stream) expect(chunk).toBeUndefined();
    };
    const thrown = await read().catch((error: unknown) => error);
    expect(thrown).toBeInstanceOf(OpenAI.APIError);
    expect(verdict(thrown)).toEqual({ class: 'throttled' });
  });

  it('an error of ours that a wrapped fetch threw inside the client', async () => {
    const throwing = (error: Error) =>
      new OpenAI({ apiKey: 'test', maxRetries: 0, baseURL: 'http://127.0.0.1:9', fetch: () => Promise.reject(error) });
    expect(verdict(await embedError(throwing(new ClosedError('createLimiter'))))).toEqual({ class: 'fatal' });
    expect(verdict(await embedError(throwing(new RateLimitError('createLimiter', 'requests', 900))))).toEqual({
      class: 'throttled',
      retryAfterMs: 900,
    });
  });
});

describe('errors of global fetch', () => {
  it('a body that breaks off', async () => {
    const url = await serve((_request, response) => {
      response.writeHead(200, { 'content-length': '100' });
      response.write('half', () => response.socket?.destroy());
    });
    const thrown = await fetch(url)
      .then((response) => response.text())
      .catch((error: unknown) => error);
    expect(thrown).toBeInstanceOf(TypeError);
    expect(verdict(thrown)).toEqual({ class: 'transient' });
  });

  it('AbortSignal.timeout', async () => {
    const url = await serve(() => undefined);
    const thrown = await fetch(url, { signal: AbortSignal.timeout(20) }).catch((error: unknown) => error);
    expect(verdict(thrown)).toEqual({ class: 'timeout' });
  });

  it('an invalid URL', async () => {
    const thrown = await fetch('no url').catch((error: unknown) => error);
    expect(verdict(thrown)).toEqual({ class: 'fatal' });
  });

  it.each(['ECONNRESET', 'ECONNREFUSED', 'ENOTFOUND', 'EPIPE', 'ETIMEDOUT', 'EAI_AGAIN', 'UND_ERR_SOCKET', 'UND_ERR_CONNECT_TIMEOUT'])(
    'fetch failed: %s',
    (code) => {
      expect(verdict(new TypeError('fetch failed', { cause: failure({ code }) }))).toEqual({ class: 'transient' });
    },
  );

  it.each([
    ['UND_ERR_HEADERS_TIMEOUT', 'timeout'],
    ['UND_ERR_BODY_TIMEOUT', 'timeout'],
    ['UND_ERR_ABORTED', 'cancelled'],
    ['CERT_HAS_EXPIRED', 'fatal'],
  ])('fetch failed: %s is %s', (code, expected) => {
    expect(verdict(new TypeError('fetch failed', { cause: failure({ code }) }))).toEqual({ class: expected });
  });

  it.each(['bad port', 'redirect count exceeded'])('fetch failed: %s is fatal', (message) => {
    expect(verdict(new TypeError('fetch failed', { cause: new Error(message) }))).toEqual({ class: 'fatal' });
  });

  it('both addresses of a host refused', () => {
    const refused = new AggregateError([failure({ code: 'ECONNREFUSED' }), failure({ code: 'ECONNREFUSED' })]);
    expect(verdict(new TypeError('fetch failed', { cause: refused }))).toEqual({ class: 'transient' });
  });

  it.each([
    'fetch failed',
    'Failed to fetch',
    'Failed to fetch (example.com)',
    'Load failed',
    'NetworkError when attempting to fetch resource.',
    'terminated',
    'Network request failed',
    'The Internet connection appears to be offline.',
    'error sending request for url (https://example.com/)',
  ])('nothing but the words of a browser: %s', (message) => {
    expect(verdict(new TypeError(message))).toEqual({ class: 'transient' });
  });
});

describe('a bug in the work', () => {
  it.each([
    ['a TypeError', new TypeError("Cannot read properties of undefined (reading 'text')")],
    ['a ReferenceError', new ReferenceError('embeding is not defined')],
    ['a RangeError', new RangeError('Invalid time value')],
    ['of another realm', { name: 'TypeError', message: 'x is not a function' }],
    ['wrapped by a framework', failure({ name: 'MiddlewareError' }, 'tool failed', new TypeError('x is not a function'))],
    ['that names an item', new TypeError("Cannot read properties of undefined (reading 'input[3]')")],
  ])('is fatal, never a fault of an item: %s', (_name, error) => {
    expect(verdict(error)).toEqual({ class: 'fatal' });
  });

  it('is not what carries a status, or what an error before it says', () => {
    expect(verdict(Object.assign(new TypeError('failed'), { status: 503 }))).toEqual({ class: 'transient' });
    expect(verdict(failure({ code: 'ECONNRESET' }, 'cut', new TypeError('x is not a function')))).toEqual({ class: 'transient' });
  });
});

describe('errors of other SDKs, by shape', () => {
  const anthropic = (status: number | undefined, type: string, message: string, headers: Record<string, string> = {}) =>
    failure({ status, headers: new Headers(headers), error: { type: 'error', error: { type, message } } }, `${String(status)} ${message}`);
  const aiSdk = (statusCode: number | undefined, fields: Record<string, unknown> = {}) =>
    failure({ name: 'AI_APICallError', url: 'https://example.com', requestBodyValues: {}, statusCode, isRetryable: false, ...fields });

  const table: [name: string, error: unknown, expected: Verdict][] = [
    ['anthropic 529', anthropic(529, 'overloaded_error', 'Overloaded'), { class: 'transient' }],
    [
      'anthropic 429',
      anthropic(429, 'rate_limit_error', 'slow down', { 'retry-after': '12' }),
      { class: 'throttled', retryAfterMs: 12_000 },
    ],
    ['anthropic 400', anthropic(400, 'invalid_request_error', 'messages.3.content: must not be empty'), { class: 'itemFault', blame: [3] }],
    [
      'anthropic 400, too long',
      anthropic(400, 'invalid_request_error', 'prompt is too long: 210000 tokens > 200000 maximum'),
      { class: 'tooLarge', tooLarge: { actual: 210_000, limit: 200_000 } },
    ],
    [
      'anthropic 400, no money',
      anthropic(400, 'invalid_request_error', 'Your credit balance is too low to access the API'),
      { class: 'fatal' },
    ],
    ['anthropic 413', anthropic(413, 'request_too_large', 'Request exceeds the maximum size'), { class: 'tooLarge' }],
    ['anthropic 403', anthropic(403, 'permission_error', 'no'), { class: 'fatal' }],
    ['anthropic in a stream: overloaded', anthropic(undefined, 'overloaded_error', 'Overloaded'), { class: 'transient' }],
    ['anthropic in a stream: throttled', anthropic(undefined, 'rate_limit_error', 'slow down'), { class: 'throttled' }],
    ['anthropic in a stream: key revoked', anthropic(undefined, 'authentication_error', 'no'), { class: 'fatal' }],
    ['AI SDK 429', aiSdk(429, { responseHeaders: { 'Retry-After-Ms': '120' } }), { class: 'throttled', retryAfterMs: 120 }],
    [
      'AI SDK 400 with data',
      aiSdk(400, { data: { error: { message: 'bad', param: 'input[1]', code: null } } }),
      { class: 'itemFault', blame: [1] },
    ],
    [
      'AI SDK 400 with a body text',
      aiSdk(400, { responseBody: '{"error":{"message":"bad","param":"$.input[2]"}}' }),
      { class: 'itemFault', blame: [2] },
    ],
    ['AI SDK 429 with a body text', aiSdk(429, { responseBody: '{"error":{"code":"insufficient_quota"}}' }), { class: 'fatal' }],
    ['AI SDK 500 with a page', aiSdk(500, { responseBody: '<html>' }), { class: 'transient' }],
    [
      'AI SDK, no connection',
      aiSdk(undefined, { cause: new TypeError('fetch failed', { cause: failure({ code: 'ECONNRESET' }) }) }),
      { class: 'transient' },
    ],
    ['AI SDK, 200 that cannot be parsed', aiSdk(200), { class: 'itemFault', unrecognised: true }],
    [
      'AI SDK RetryError',
      failure({ name: 'AI_RetryError', reason: 'maxRetriesExceeded', lastError: aiSdk(503), errors: [aiSdk(429), aiSdk(503)] }),
      { class: 'transient' },
    ],
    ['AI SDK RetryError without lastError', failure({ name: 'AI_RetryError', errors: [aiSdk(503), aiSdk(401)] }), { class: 'fatal' }],
    ['AI SDK, more values than a call takes', failure({ name: 'AI_TooManyEmbeddingValuesForCallError' }), { class: 'tooLarge' }],
    [
      'response with a Headers object',
      failure({ response: { status: 503, headers: new Headers({ 'retry-after': '2' }) } }),
      { class: 'transient', retryAfterMs: 2000 },
    ],
    [
      'response with a record and a body',
      failure({
        code: 'ERR_BAD_REQUEST',
        response: { status: 429, headers: { 'retry-after': ['3', '4'] }, data: { error: { code: 'rate_limit' } } },
      }),
      { class: 'throttled', retryAfterMs: 3000 },
    ],
    ['a status in the body of a stream', failure({ error: { object: 'error', message: 'no', code: 404 } }), { class: 'fatal' }],
  ];

  it.each(table)('%s', (_name, error, expected) => {
    expect(verdict(error)).toEqual(expected);
  });
});

describe('statuses', () => {
  it.each([
    [[429], 'throttled'],
    [[408, 409, 425, 500, 502, 503, 504, 529], 'transient'],
    [[413], 'tooLarge'],
    [[400, 422], 'itemFault'],
    [[401, 402, 403, 404, 405, 410, 415, 501], 'fatal'],
  ])('%j are %s', (statuses, expected) => {
    for (const status of statuses) {
      expect(verdict(failure({ status }))).toEqual({ class: expected });
      expect(verdict(failure({ statusCode: status }))).toEqual({ class: expected });
      expect(verdict(failure({ response: { status } }))).toEqual({ class: expected });
    }
  });

  it.each([200, 302, 0, -1, 600, Number.NaN])('%d is the status of no failure, so the error says nothing', (status) => {
    for (const error of [failure({ status }), failure({ statusCode: status }), failure({ response: { status } })])
      expect(verdict(error)).toEqual({ class: 'itemFault', unrecognised: true });
  });

  it.each([
    [{ $metadata: { httpStatusCode: 429 } }, 'throttled'],
    [{ $metadata: { httpStatusCode: 500 } }, 'transient'],
    [{ status_code: 403 }, 'fatal'],
    [{ status: '429' }, 'throttled'],
    [{ code: '503' }, 'transient'],
  ])('reads %j as %s', (fields, expected) => {
    expect(verdict(failure(fields))).toEqual({ class: expected });
  });

  it.each([
    ['429 Too Many Requests', { class: 'throttled' }],
    ['HTTP 503', { class: 'transient' }],
    ['Request failed with status code 401', { class: 'fatal' }],
    ['400 Bad Request', { class: 'itemFault', unrecognised: true }],
    ['500 items are too many', { class: 'itemFault', unrecognised: true }],
    ['row 429 is empty', { class: 'itemFault', unrecognised: true }],
  ])('takes the message "%s" for %j', (message, expected) => {
    expect(verdict(failure({}, message))).toEqual(expected);
  });

  it('prefers the nearest error that says something', () => {
    expect(verdict(failure({}, 'the call failed', failure({ status: 401 }, 'no', failure({ status: 503 }))))).toEqual({ class: 'fatal' });
  });
});

describe('own errors', () => {
  it.each<[FlowError, Verdict]>([
    [new AttemptTimeoutError('batchMap', 50), { class: 'timeout' }],
    [new BatchShapeError('batchMap', 3, 2), { class: 'contract' }],
    [new ItemTooHeavyError('batchMap', 9, 8), { class: 'itemFault' }],
    [new CallbackError('batchMap', 'weigh', 'threw'), { class: 'itemFault' }],
    [new RateLimitError('createLimiter', 'slots', Infinity), { class: 'throttled' }],
    [new RateLimitError('createLimiter', 'requests', 1200), { class: 'throttled', retryAfterMs: 1200 }],
    [new DeadlineError('batchMap', 100, 101, failure({ status: 503 })), { class: 'fatal' }],
    [new SplitLimitError('batchMap', 4, 4, failure({ status: 400 })), { class: 'fatal' }],
    [new ClosedError('batchMap'), { class: 'fatal' }],
    [new OverflowError('batchMap', 5, 'error'), { class: 'fatal' }],
    [new LaneUnknownError('batchMap', 'x', ['y']), { class: 'fatal' }],
    [new SequenceError('resequence', 1, 2, 3), { class: 'contract' }],
    [new FlowConfigError('batchMap', 'maxSize', 'a number', 'x'), { class: 'fatal' }],
    [new FlowError('FLOW_OF_TOMORROW' as 'FLOW_CLOSED', 'batchMap', 'from a newer copy'), { class: 'fatal' }],
  ])('%s', (error, expected) => {
    expect(verdict(error)).toEqual(expected);
    expect(verdict(new Error('the work failed', { cause: error }))).toEqual(expected);
  });

  it('is a timeout, although we aborted the attempt', () => {
    expect(verdict(new AttemptTimeoutError('batchMap', 50), { aborted: true })).toEqual({ class: 'timeout' });
  });
});

describe('cancelled calls', () => {
  it.each([
    new DOMException('gone', 'AbortError'),
    failure({ code: 'ABORT_ERR' }),
    failure({ name: 'CanceledError', code: 'ERR_CANCELED' }),
    new Error('Request was aborted.'),
  ])('%s is cancelled, whichever signal aborted it', (error) => {
    expect(verdict(error, { aborted: true })).toEqual({ class: 'cancelled' });
    expect(verdict(error)).toEqual({ class: 'cancelled' });
    expect(verdict(new Error('the work failed', { cause: error }))).toEqual({ class: 'cancelled' });
  });

  it('takes whatever comes back from an aborted call for its abort', () => {
    expect(verdict(failure({ status: 500 }), { aborted: true })).toEqual({ class: 'cancelled' });
    expect(verdict(undefined, { aborted: true })).toEqual({ class: 'cancelled' });
  });
});

describe('blame', () => {
  const blameOf = (fields: Record<string, unknown>, message: string, size = 8) =>
    verdict(failure({ status: 400, ...fields }, message), { size }).blame;

  it.each<[Record<string, unknown>, string, readonly number[] | undefined]>([
    [{ param: 'input[3]' }, 'bad', [3]],
    [{ param: '$.input[3]' }, 'bad', [3]],
    [{ param: 'messages.3' }, 'bad', [3]],
    [{ param: 'messages[3].content[0].text' }, 'bad', [3]],
    [{ param: 'input[3]' }, 'input[4] is fine, input[3] is not', [3]],
    [{ param: 'input' }, 'input[1], input[4] and input[1] are empty', [1, 4]],
    [{}, "'$.input[0]' is invalid", [0]],
    [{}, 'messages.2.content.0.text: empty', [2]],
    [{ param: 'tools[2].name' }, 'Invalid tools[2]', undefined],
    [{ param: 'input[8]' }, 'bad', undefined],
    [{}, 'input[1] and input[99]', undefined],
    [{}, 'input[-1], input[1.5], input[x], my_input[2]', undefined],
    [{}, 'the input is 3.5 tokens', undefined],
    [{ param: 3 }, 'bad', undefined],
  ])('%j, %s: %j', (fields, message, expected) => {
    expect(blameOf(fields, message)).toEqual(expected);
  });

  it('also in an error of plain work', () => {
    expect(verdict(new Error('items[4] has no text'))).toEqual({ class: 'itemFault', blame: [4] });
  });

  it('never in another class than itemFault', () => {
    expect(verdict(failure({ status: 503, param: 'input[3]' }))).toEqual({ class: 'transient' });
  });
});

describe('too large', () => {
  it.each<[Record<string, unknown>, string, Verdict]>([
    [
      { status: 400, code: 'context_length_exceeded' },
      'This model’s maximum context length is 8,192 tokens, however you requested 9,001 tokens',
      { class: 'tooLarge', tooLarge: { actual: 9001, limit: 8192 } },
    ],
    [
      { status: 400 },
      'maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens',
      { class: 'tooLarge', tooLarge: { actual: 9000, limit: 8192 } },
    ],
    [{ status: 400, code: 'context_length_exceeded' }, 'too long', { class: 'tooLarge' }],
    [{ status: 400, code: 'context_length_exceeded', param: 'input[2]' }, 'too long', { class: 'itemFault', blame: [2] }],
    [
      { status: 400, code: 'max_tokens_per_request', param: 'input[2]' },
      'Requested 30 tokens, max 20 tokens per request',
      { class: 'tooLarge', tooLarge: { actual: 30, limit: 20 } },
    ],
    [{ status: 413, param: 'input[2]' }, 'no', { class: 'tooLarge' }],
    [{}, 'Requested 30 tokens, max 20 tokens per request', { class: 'tooLarge', tooLarge: { actual: 30, limit: 20 } }],
    [{ status: 400 }, 'Requested 20 tokens, max 30 tokens per request', { class: 'itemFault' }],
    [{ status: 503 }, 'Requested 30 tokens, max 20 tokens per request', { class: 'transient' }],
    [
      { status: 429, code: 'rate_limit_exceeded' },
      'Request too large on tokens per min (TPM): Limit 30000, Requested 40466.',
      { class: 'tooLarge', tooLarge: { actual: 40_466, limit: 30_000 } },
    ],
    [
      { status: 429, code: 'rate_limit_exceeded' },
      'Rate limit reached on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000.',
      { class: 'throttled' },
    ],
  ])('%j %s', (fields, message, expected) => {
    expect(verdict(failure(fields, message))).toEqual(expected);
  });
});

describe('strange errors', () => {
  it.each([undefined, null, 0, 'no', Symbol('no'), {}, [], new Error('no'), new AggregateError([]), Object.create(null)])(
    'case %#: taken for the fault of an item',
    (error) => {
      expect(verdict(error)).toEqual({ class: 'itemFault', unrecognised: true });
    },
  );

  it('reads a thrown string', () => {
    expect(verdict('input[2] is empty')).toEqual({ class: 'itemFault', blame: [2] });
    expect(verdict('fetch failed')).toEqual({ class: 'transient' });
  });

  it('ends on cycles', () => {
    const a = failure({});
    const b = failure({ cause: a, error: a });
    Object.assign(a, { cause: b, error: b, errors: [a, b] });
    expect(verdict(a)).toEqual({ class: 'itemFault', unrecognised: true });
    expect(verdict(Object.assign(a, { cause: failure({ status: 500, cause: a }) }))).toEqual({ class: 'transient' });
  });

  it('looks at no more than 16 errors', () => {
    const chain = (length: number) => {
      let error = failure({ status: 503 });
      for (let i = 1; i < length; i++) error = failure({}, 'no', error);
      return error;
    };
    expect(verdict(chain(16))).toEqual({ class: 'transient' });
    expect(verdict(chain(17))).toEqual({ class: 'itemFault', unrecognised: true });
    expect(verdict(new AggregateError(Array.from({ length: 100_000 }, () => failure({ status: 503 }))))).toEqual({ class: 'transient' });
  });

  it('does not parse a body of megabytes', () => {
    const responseBody = `{"error":{"code":"insufficient_quota"},"pad":"${'x'.repeat(70_000)}"}`;
    expect(verdict(failure({ statusCode: 429, responseBody }))).toEqual({ class: 'throttled' });
  });

  it('reads 65,536 characters of a message, and no more', () => {
    const said = 'input[3] is invalid';
    const padded = (before: number) => failure({ status: 400 }, `${'x'.repeat(before - 1)} ${said}`);
    expect(verdict(padded(65_536 - said.length))).toEqual({ class: 'itemFault', blame: [3] });
    expect(verdict(padded(65_536))).toEqual({ class: 'itemFault' });
    expect(verdict(failure({ status: 400 }, 'input[maximum context length is 1 tokens '.repeat(50_000)))).toEqual({ class: 'itemFault' });
    expect(verdict(failure({ status: 400 }, '1'.repeat(1_000_000)))).toEqual({ class: 'itemFault' });
  });
});

it('is told the time through its context, for a wait until a date', () => {
  const error = failure({ status: 503, headers: { 'retry-after': 'Sat, 21 Nov 2026 08:00:30 GMT' } });
  expect(verdict(error)).toEqual({ class: 'transient' });
  expect(verdict(error, { epochMs: Date.UTC(2026, 10, 21, 8, 0, 0) })).toEqual({ class: 'transient', retryAfterMs: 30_000 });
});

describe('x-should-retry', () => {
  const asked = (status: number, answer: string, more: Record<string, unknown> = {}) =>
    verdict(failure({ status, headers: { 'X-Should-Retry': answer, 'retry-after-ms': '250' }, ...more })).class;

  it.each([
    ['true', 400, 'transient'],
    ['true', 403, 'transient'],
    ['true', 429, 'throttled'],
    ['true', 503, 'transient'],
    ['false', 429, 'fatal'],
    ['false', 503, 'fatal'],
    // Whether to send it again is one thing, which of its items is at fault another.
    ['false', 400, 'itemFault'],
    ['false', 413, 'tooLarge'],
    ['maybe', 503, 'transient'],
    ['maybe', 400, 'itemFault'],
  ])('%s beside %i is %s', (answer, status, found) => {
    expect(asked(status, answer)).toBe(found);
  });

  it('true keeps the pause that the server asks for, and goes before what the body says', () => {
    const error = failure({ status: 400, code: 'model_not_found', headers: new Headers({ 'x-should-retry': 'true', 'retry-after': '2' }) });
    expect(verdict(error)).toEqual({ class: 'transient', retryAfterMs: 2000 });
  });

  it('means nothing for a call that we aborted', () => {
    expect(verdict(failure({ status: 503, headers: { 'x-should-retry': 'true' } }), { aborted: true })).toEqual({ class: 'cancelled' });
  });
});
