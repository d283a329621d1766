import type { MonoTypeOperatorFunction, Observable } from 'rxjs';
import { of } from 'rxjs';
import { describe, expectTypeOf, it } from 'vitest';
import type { ResequenceOptions } from '../../operators/index.js';
import { resequence } from '../../operators/index.js';

describe('resequence', () => {
  it('emits what the source emits, and tells `sequence` its type', () => {
    const ordered = of({ seq: 0 }).pipe(
      resequence((item) => {
        expectTypeOf(item).toEqualTypeOf<{ seq: number }>();
        return item.seq;
      }),
    );
    expectTypeOf(ordered).toEqualTypeOf<Observable<{ seq: number }>>();
    expectTypeOf(resequence(Number)).toExtend<MonoTypeOperatorFunction<string>>();
  });

  it('refuses wrong options', () => {
    // @ts-expect-error sequence is required
    resequence();
    // @ts-expect-error a number is a number
    resequence<{ id: string }>(({ id }) => id);
    // @ts-expect-error waiting is a matter of the bounds
    resequence<number>((n) => n, { onGap: 'wait' });
    // @ts-expect-error not an option
    resequence<number>((n) => n, { start: 1 });
  });

  it('has readonly options', () => {
    expectTypeOf<ResequenceOptions>().toEqualTypeOf<Readonly<ResequenceOptions>>();
  });
});
