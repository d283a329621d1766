import { describe, expectTypeOf, it } from 'vitest';
import { createLimiter } from '../../operators/index.js';
import type { CallRules, FetchOptions, HttpRequest, HttpRules } from '../../src/adapters/fetch.js';
import { createFetch } from '../../src/adapters/fetch.js';

describe('createFetch', () => {
  it('is a fetch', () => {
    expectTypeOf(createFetch()).toEqualTypeOf<typeof fetch>();
    expectTypeOf(createFetch({ limiter: createLimiter(), fetch })).toEqualTypeOf<typeof fetch>();
  });

  it('shows the request to `job`', () => {
    createFetch({
      limiter: createLimiter(),
      job: (request) => {
        expectTypeOf(request).toEqualTypeOf<HttpRequest>();
        expectTypeOf(request.json).toBeUnknown();
        return { lane: request.headers.get('x-lane') ?? 'P2', key: 'acme', cost: { tokens: 1 } };
      },
    });
    expectTypeOf<FetchOptions>().toExtend<HttpRules>();
    expectTypeOf<HttpRules>().toExtend<CallRules>();
  });

  it('takes no options that nobody knows', () => {
    // @ts-expect-error -- that is the name the clients have for it
    expectTypeOf(() => createFetch({ maxRetries: 2 })).toBeFunction();
  });
});
