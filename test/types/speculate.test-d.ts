import type { Observable } from 'rxjs';
import { of } from 'rxjs';
import { describe, expectTypeOf, it } from 'vitest';
import type { SpeculateOptions } from '../../operators/index.js';
import { speculate } from '../../operators/index.js';
import type { SpeculateContext } from '../../operators/speculate.js';

describe('speculate', () => {
  it('makes what the runs make', () => {
    const results = speculate((call: string) => of(call.length), {
      predict: of('cats'),
      confirm: Promise.resolve('cats'),
      match: (predicted: string, confirmed: string) => predicted === confirmed,
    });
    expectTypeOf(results).toEqualTypeOf<Observable<number>>();
  });

  it('tells match and run what they are about, also when a prediction is of another kind than a call', () => {
    void speculate(
      (call, context) => {
        expectTypeOf(call).toEqualTypeOf<string | { guess: string }>();
        expectTypeOf(context).toEqualTypeOf<SpeculateContext>();
        return of(1);
      },
      {
        predict: of({ guess: 'cats' }),
        confirm: of('cats'),
        match: (predicted, confirmed) => {
          expectTypeOf(predicted).toEqualTypeOf<{ guess: string }>();
          expectTypeOf(confirmed).toEqualTypeOf<string>();
          return predicted.guess === confirmed;
        },
      },
    );
  });

  it('refuses wrong options', () => {
    // @ts-expect-error nothing is run
    void speculate({ predict: of(1), confirm: of(1), match: () => true });
    // @ts-expect-error not an option
    void speculate(() => of(1), { predict: of(1), confirm: of(1), match: () => true, ttl: 5 });
  });

  it('has readonly options', () => {
    expectTypeOf<SpeculateOptions<1, 2>>().toEqualTypeOf<Readonly<SpeculateOptions<1, 2>>>();
  });
});
