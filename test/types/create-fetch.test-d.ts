import { describe, expectTypeOf, it } from 'vitest';
import { createLimiter } from '../../operators/index.js';
import type { HttpRequest, HttpRules, LimitFetchOptions } from '../../src/adapters/fetch.js';
import { limitFetch } from '../../src/adapters/fetch.js';
import type { CallRules } from '../../src/adapters/support/call-rules.js';

describe('limitFetch', () => {
  it('is a fetch', () => {
    expectTypeOf(limitFetch()).toEqualTypeOf<typeof fetch>();
    expectTypeOf(limitFetch({ limiter: createLimiter(), fetch })).toEqualTypeOf<typeof fetch>();
  });

  it('shows the request to `job`', () => {
    limitFetch({
      limiter: createLimiter(),
      job: (request) => {
        expectTypeOf(request).toEqualTypeOf<HttpRequest>();
        expectTypeOf(request.json).toBeUnknown();
        return { lane: request.headers.get('x-lane') ?? 'background', key: 'acme', cost: { tokens: 1 } };
      },
    });
    expectTypeOf<LimitFetchOptions>().toExtend<HttpRules>();
    expectTypeOf<HttpRules>().toExtend<CallRules>();
  });

  it('rejects unknown options', () => {
    // @ts-expect-error -- that is the name the clients have for it
    expectTypeOf(() => limitFetch({ maxRetries: 2 })).toBeFunction();
  });
});
