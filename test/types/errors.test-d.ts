import { describe, expectTypeOf, it } from 'vitest';
import type { BreakerOpenError, ClosedError, FlowError, FlowErrorCode, OverflowError } from '../../operators/index.js';
import { isFlowError } from '../../operators/index.js';

describe('isFlowError', () => {
  it('narrows to the error of the code', () => {
    const error: unknown = undefined;
    if (isFlowError(error, 'FLOW_BREAKER_OPEN')) {
      expectTypeOf(error).toEqualTypeOf<BreakerOpenError>();
      expectTypeOf(error.retryAfterMs).toEqualTypeOf<number>();
    }
    if (isFlowError(error, 'FLOW_OVERFLOW')) expectTypeOf(error).toEqualTypeOf<OverflowError>();
    if (isFlowError(error, 'FLOW_CLOSED')) expectTypeOf(error).toEqualTypeOf<ClosedError>();
  });

  it('is any of them without a code, or with one that is not known yet', () => {
    const error: unknown = undefined;
    if (isFlowError(error)) expectTypeOf(error).toEqualTypeOf<FlowError>();
    const code = undefined as FlowErrorCode | undefined;
    if (isFlowError(error, code)) expectTypeOf(error).toEqualTypeOf<FlowError>();
    // @ts-expect-error no such code
    isFlowError(error, 'FLOW_NO_SUCH');
  });

  it('takes nothing away from an error that has a type already', () => {
    const error = new Error('no') as Error | OverflowError;
    if (isFlowError(error, 'FLOW_OVERFLOW')) expectTypeOf(error.limit).toEqualTypeOf<number>();
    else expectTypeOf(error).toEqualTypeOf<Error>();
  });
});
