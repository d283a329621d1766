import { describe, expect, it } from 'vitest';
import { blamed, classifyByStatus } from '../../operators/kernel/index.js';

const context = { size: 3, attempt: 1, aborted: false };
const failure = (fields: object, message = ''): Error => Object.assign(new Error(message), fields);
/** Names of what every object has. */
const OF_ALL = ['constructor', 'toString', '__proto__', 'hasOwnProperty'];

describe('a failure is sorted', () => {
  it.each<[string, unknown, string]>([
    ['by its status', failure({ status: 429 }), 'throttled'],
    ['by one that may pass', failure({ status: 503 }), 'transient'],
    ['by a conflict', { statusCode: 409 }, 'transient'],
    ['by one about an item', failure({ response: { status: 400 } }), 'itemFault'],
    ['by one about the size', failure({ status: 413 }), 'tooLarge'],
    ['by one about the caller', failure({ status: 401 }), 'fatal'],
    ['by one that never works', failure({ status: 501 }), 'fatal'],
    ['by the code of its connection', failure({ code: 'ECONNRESET' }), 'transient'],
    ['by the code behind it', failure({ cause: { code: 'ENOTFOUND' } }), 'transient'],
    ['by the words of a fetch', new TypeError('fetch failed'), 'transient'],
    ['by those of a browser', new TypeError('Failed to fetch'), 'transient'],
    ['as a bug', new TypeError('x is not a function'), 'fatal'],
    ['as another bug', new RangeError('Invalid array length'), 'fatal'],
    ['as an abort', new DOMException('gone', 'AbortError'), 'cancelled'],
    ['as a timeout', new DOMException('late', 'TimeoutError'), 'timeout'],
    ['by its code in this package', failure({ code: 'FLOW_ATTEMPT_TIMEOUT' }), 'timeout'],
    ['as final when its code says nothing else', failure({ code: 'FLOW_CLOSED' }), 'fatal'],
  ])('%s', (_how, error, expected) => {
    expect(classifyByStatus(error, context)).toEqual({ class: expected });
  });

  it('as cancelled when we aborted the call, unless the error is our own', () => {
    expect(classifyByStatus(failure({ status: 500 }), { ...context, aborted: true }).class).toBe('cancelled');
    expect(classifyByStatus(failure({ code: 'FLOW_ATTEMPT_TIMEOUT' }), { ...context, aborted: true }).class).toBe('timeout');
  });

  it('as the fault of an item, by guess, when nothing says what it is', () => {
    for (const error of [
      new Error('no'),
      undefined,
      null,
      'no',
      7,
      { status: 200 },
      failure({ status: 'bad' }),
      ...OF_ALL.map((name) => failure({ name })),
    ])
      expect(classifyByStatus(error, context)).toEqual({ class: 'itemFault', unrecognised: true });
  });

  it('by what of it can be read', () => {
    const refuse = (): never => {
      throw new Error('unreadable property');
    };
    const unreadable = (name: string, fields: object) => Object.defineProperty(failure(fields), name, { get: refuse });
    const { proxy: gone, revoke } = Proxy.revocable({}, {});
    revoke();
    for (const name of ['code', 'statusCode', 'response', 'headers', 'cause', 'name', 'message', 'retryAfterMs'])
      expect(classifyByStatus(unreadable(name, { status: 503 }), context)).toEqual({ class: 'transient' });
    const refused = { status: 429 };
    for (const headers of [
      gone,
      { get: refuse },
      { 'retry-after': gone },
      Object.defineProperty({}, 'retry-after', { enumerable: true, get: refuse }),
    ])
      expect(classifyByStatus(failure({ ...refused, headers }), context)).toEqual({ class: 'throttled' });
    const headers = Object.defineProperty({ 'retry-after': '2' }, 'date', { enumerable: true, get: refuse });
    expect(classifyByStatus(failure({ ...refused, headers }), context)).toEqual({ class: 'throttled', retryAfterMs: 2000 });
    expect(classifyByStatus(failure({ ...refused, response: gone }), context)).toEqual({ class: 'throttled' });
    const unknown = { class: 'itemFault', unrecognised: true };
    for (const error of [
      gone,
      failure({ cause: gone }),
      failure({ message: gone }),
      failure({ code: { toString: refuse } }),
      unreadable('name', {}),
    ])
      expect(classifyByStatus(error, context)).toEqual(unknown);
    expect(classifyByStatus(unreadable('retryAfterMs', { code: 'FLOW_RATE_LIMITED' }), context)).toEqual({ class: 'throttled' });
  });

  it('with how long the other side asks to wait', () => {
    expect(classifyByStatus(failure({ status: 429, headers: { 'Retry-After': '2' } }), context).retryAfterMs).toBe(2000);
    expect(
      classifyByStatus(failure({ status: 503, response: { headers: new Headers({ 'retry-after-ms': '7' }) } }), context).retryAfterMs,
    ).toBe(7);
    expect(classifyByStatus(failure({ code: 'FLOW_RATE_LIMITED', retryAfterMs: 5 }), context)).toEqual({
      class: 'throttled',
      retryAfterMs: 5,
    });
  });
});

const verdict = (error: unknown, epochMs?: number) => classifyByStatus(error, { ...context, ...(epochMs !== undefined && { epochMs }) });

describe('every status, code and name', () => {
  it.each([
    ['status', { 400: 'itemFault', 401: 'fatal', 404: 'fatal', 408: 'transient', 409: 'transient', 413: 'tooLarge', 422: 'itemFault' }],
    ['status', { 425: 'transient', 429: 'throttled', 499: 'fatal', 500: 'transient', 501: 'fatal', 502: 'transient', 529: 'transient' }],
    ['statusCode', { 413: 'tooLarge', 500: 'transient' }],
    [
      'code',
      { FLOW_ITEM_TOO_HEAVY: 'itemFault', FLOW_BATCH_SHAPE: 'contract', FLOW_RATE_LIMITED: 'throttled', FLOW_CALLBACK: 'itemFault' },
    ],
    ['code', { FLOW_BREAKER_OPEN: 'transient', FLOW_ATTEMPT_TIMEOUT: 'timeout', FLOW_CLEARED: 'cancelled', FLOW_NEW: 'fatal' }],
    ['code', { FLOW_SEQUENCE_GAP: 'contract', FLOW_TOOL_CALL_UNFINISHED: 'transient' }],
    ['name', { AbortError: 'cancelled', TimeoutError: 'timeout', TypeError: 'fatal', ReferenceError: 'fatal', RangeError: 'fatal' }],
  ])('has its class: %s', (field, table) => {
    for (const [value, expected] of Object.entries(table))
      expect([value, verdict({ [field]: field.startsWith('status') ? Number(value) : value })]).toEqual([value, { class: expected }]);
  });

  it('of a connection that failed may pass: whatever begins with one of these, and nothing that has it elsewhere', () => {
    const codes = ['ECONNRESET', 'ENETDOWN', 'EHOSTUNREACH', 'EPIPE', 'ETIMEDOUT', 'ENOTFOUND', 'EAI_AGAIN'];
    for (const code of [...codes, 'UND_ERR_SOCKET', 'UND_ERR_CONNECT_TIMEOUT', 'UND_ERR_CLOSED', 'UND_ERR_DESTROYED']) {
      expect([code, verdict({ code }), verdict({ cause: { code } })]).toEqual([code, { class: 'transient' }, { class: 'transient' }]);
      expect([code, verdict({ code: `NOT_${code}` }).class]).toEqual([code, 'itemFault']);
    }
    // Its own code says more than that behind it.
    expect(verdict({ code: 'OTHER', cause: { code: 'EPIPE' } }).class).toBe('itemFault');
  });

  it('of a fetch that failed may pass, by how its message begins', () => {
    const words = ['fetch failed', 'Failed to fetch', 'Load failed', 'NetworkError when attempting to fetch', 'terminated'];
    for (const message of [...words, 'network error', 'Network request failed']) {
      expect([message, verdict({ name: 'TypeError', message })]).toEqual([message, { class: 'transient' }]);
      expect([message, verdict({ name: 'TypeError', message: `x ${message}` })]).toEqual([message, { class: 'fatal' }]);
    }
    expect(verdict({ name: 'TypeError', message: 'terminated by a bug' }).class).toBe('fatal');
  });

  it('is looked for in the error before its response, and waits are read from wherever headers are', () => {
    expect(verdict({ status: 429, statusCode: 500, response: { status: 400 } }).class).toBe('throttled');
    expect(verdict({ statusCode: 500, response: { status: 400 } }).class).toBe('transient');
    for (const status of [399, '500']) expect(verdict({ status })).toEqual({ class: 'itemFault', unrecognised: true });
    expect(verdict({ status: 500 })).toStrictEqual({ class: 'transient' });
    const [one, two, three] = [{ 'retry-after': '1' }, { 'retry-after': '2' }, { 'retry-after': '3' }];
    expect(verdict({ status: 429, headers: one, responseHeaders: two, response: { headers: three } })).toEqual({
      class: 'throttled',
      retryAfterMs: 1000,
    });
    expect(verdict({ status: 429, responseHeaders: two, response: { headers: three } }).retryAfterMs).toBe(2000);
    expect(verdict({ status: 429, response: { headers: three } }).retryAfterMs).toBe(3000);
    const at = Date.parse('2026-10-21T12:00:00Z');
    const dated = { status: 503, headers: { 'retry-after': new Date(at + 5000).toUTCString() } };
    expect([verdict(dated, at), verdict(dated)]).toEqual([{ class: 'transient', retryAfterMs: 5000 }, { class: 'transient' }]);
  });

  it('of this package has its wait only when that ends, and only in texts', () => {
    expect(verdict({ code: 'FLOW_RATE_LIMITED', retryAfterMs: Infinity })).toEqual({ class: 'throttled' });
    expect(verdict({ code: 'FLOW_RATE_LIMITED', retryAfterMs: '5' })).toEqual({ class: 'throttled' });
    expect([verdict({ code: 7 }).class, verdict({ code: 'X_FLOW_CLEARED' }).class]).toEqual(['itemFault', 'itemFault']);
  });
});

describe('blame', () => {
  const call = ['a', 'b', 'a', 'c'].map((id, at) => ({ id, at }));
  const positions = (names: readonly (string | number)[] | undefined): unknown => {
    const named = blamed(names, call);
    return named && Array.from(named, ({ at }) => at);
  };

  it('is an item by its position or by an id that no other has', () => {
    expect(positions([0, 3])).toEqual([0, 3]);
    expect(positions(['b', 0, 'c'])).toEqual([1, 0, 3]);
  });

  it('is nothing when it is empty, names one twice, or one that is not there or not the only one', () => {
    for (const names of [undefined, [], [1, 1], [1, 'b'], [4], [-1], [0, 0.5], [1, 4], [NaN], ['x'], ['a'], ['b', 'x']])
      expect(positions(names)).toBeUndefined();
  });
});
