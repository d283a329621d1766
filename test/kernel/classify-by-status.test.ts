import { describe, expect, it } from 'vitest';
import { classifyByStatus } from '../../operators/kernel/index.js';

const context = { size: 3, attempt: 1, aborted: false };
const failure = (fields: object, message = ''): Error => Object.assign(new Error(message), fields);

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
    for (const error of [new Error('no'), undefined, null, 'no', 7, { status: 200 }, failure({ status: 'bad' })])
      expect(classifyByStatus(error, context)).toEqual({ class: 'itemFault', unrecognised: true });
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
