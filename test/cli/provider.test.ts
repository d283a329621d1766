import { describe, expect, it } from 'vitest';
import { AttemptTimeoutError, ItemTooHeavyError, SplitLimitError } from '../../operators/index.js';
import { explainFailure as explain, type Failure } from '../../src/cli/provider.js';
import { shownOf } from '../../src/cli/secrets.js';
import { ProviderError } from '../../src/pipelines/provider-error.js';

const provider = { shown: shownOf({ baseUrl: 'http://host/v1' }), model: 'm' };
const words = { keys: 'THE_KEY', options: '`model`', address: '`m` and its address', start: 'is the server running?' };

function explainFailure(error: unknown): Failure {
  return explain(error, provider, words);
}

function status(code: number, message: string): ProviderError {
  return new ProviderError(code, new Headers(), `${String(code)} ${message}`, undefined, undefined, undefined);
}

function socket(code: string): Error {
  return new TypeError('fetch failed', { cause: Object.assign(new Error(`connect ${code} 127.0.0.1:1`), { code }) });
}

describe('explainFailure', () => {
  it.each([
    [
      'a refused key',
      status(401, 'Incorrect API key'),
      'http://host/v1 refuses the key: 401 Incorrect API key. Set THE_KEY to a valid one',
    ],
    ['a forbidden model', status(403, 'no access'), 'http://host/v1 refuses the key: 403 no access. Set THE_KEY to a valid one'],
    [
      'a missing model',
      status(404, 'no such model'),
      'http://host/v1 does not know the model `m`, or is not the whole address of the API: 404 no such model. Check `m` and its address',
    ],
    ['a server that is down', socket('ECONNREFUSED'), 'cannot reach http://host/v1 (ECONNREFUSED): is the server running?'],
    ['an unknown host', socket('ENOTFOUND'), 'cannot reach http://host/v1 (ENOTFOUND): is the server running?'],
    [
      'a port that fetch does not go to',
      new TypeError('fetch failed', { cause: new Error('bad port') }),
      'cannot reach http://host/v1: `fetch` does not go to that port; start the server on another one',
    ],
    ['another refusal', status(405, 'not allowed'), 'http://host/v1 refuses to work: 405 not allowed'],
  ])('stops the run for %s', (_name, error, message) => {
    expect(explainFailure(error)).toMatchObject({ kind: 'stop', error: { exitCode: 3, message } });
  });

  it('looks behind several addresses of one name', () => {
    const refused = Object.assign(new Error('connect ECONNREFUSED ::1:1'), { code: 'ECONNREFUSED' });
    const error = new TypeError('fetch failed', { cause: new AggregateError([refused, refused]) });
    expect(explainFailure(error)).toMatchObject({ kind: 'stop', error: { exitCode: 3 } });
  });

  it.each([
    ['a refused text', status(400, "'input[0]'   is\ninvalid"), "400 'input[0]' is invalid"],
    ['a text that is too long for the provider', status(413, 'too large'), '413 too large'],
    [
      'a text that is too long for us',
      new ItemTooHeavyError('createModelCaller', 9, 5),
      'createModelCaller: an item weighs 9, more than the limit of 5',
    ],
  ])('blames the passage for %s', (_name, error, reason) => {
    expect(explainFailure(error)).toEqual({ kind: 'poisoned', reason });
  });

  it.each([
    ['an overloaded server', status(503, 'overloaded'), '503 overloaded'],
    ['a socket that broke', socket('ECONNRESET'), 'fetch failed: connect ECONNRESET 127.0.0.1:1'],
    [
      'a timeout',
      new AttemptTimeoutError('createModelCaller', 30),
      'createModelCaller: the attempt took longer than 30 ms and was aborted',
    ],
    ['an answer that is no JSON', new SyntaxError('Unexpected token <'), 'Unexpected token <'],
    [
      'splitting without end',
      new SplitLimitError('createModelCaller', 4, 4, status(400, 'bad')),
      'createModelCaller: gave up splitting after 4 of 4 calls',
    ],
  ])('leaves the passage to another run after %s', (_name, error, reason) => {
    expect(explainFailure(error)).toEqual({ kind: 'failed', reason });
  });

  it('keeps a reason short', () => {
    const failure = explainFailure(status(400, 'x'.repeat(5000)));
    expect(failure).toMatchObject({ kind: 'poisoned' });
    expect('reason' in failure && failure.reason.length).toBe(200);
  });
});
