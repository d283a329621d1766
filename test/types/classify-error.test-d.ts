import { describe, expectTypeOf, it } from 'vitest';
import type { Classify, ClassifyContext, ErrorClass, Verdict } from '../../operators/index.js';
import { classifyError } from '../../operators/index.js';
import { parseRetryAfterMs } from '../../operators/kernel/index.js';

describe('classifyError', () => {
  it('is a classifier', () => {
    expectTypeOf(classifyError).toExtend<Classify>();
    expectTypeOf(classifyError).toEqualTypeOf<(error: unknown, context?: ClassifyContext) => Verdict>();
  });

  it('answers a verdict whose parts may be missing', () => {
    const verdict = classifyError(new Error('no'), { size: 1, attempt: 1, aborted: false, epochMs: 0 });
    expectTypeOf(verdict.class).toEqualTypeOf<ErrorClass>();
    expectTypeOf(verdict.retryAfterMs).toEqualTypeOf<number | undefined>();
    expectTypeOf(verdict.blame).toEqualTypeOf<readonly (number | string)[] | undefined>();
    expectTypeOf(verdict.tooLarge).toEqualTypeOf<{ readonly actual: number; readonly limit: number } | undefined>();
  });

  it('needs the whole context', () => {
    // @ts-expect-error `aborted` is missing
    classifyError(new Error('no'), { size: 1, attempt: 1 });
  });
});

describe('parseRetryAfterMs', () => {
  it('takes a Headers object, a record of texts and one of lists', () => {
    expectTypeOf(parseRetryAfterMs(new Headers())).toEqualTypeOf<number | undefined>();
    expectTypeOf(parseRetryAfterMs({ 'retry-after': '1' }, 0)).toEqualTypeOf<number | undefined>();
    expectTypeOf(parseRetryAfterMs({ 'retry-after': ['1'] })).toEqualTypeOf<number | undefined>();
    // @ts-expect-error a list of pairs is not a record
    parseRetryAfterMs([['retry-after', 1]]);
  });
});
