import type { Observable } from 'rxjs';
import { of } from 'rxjs';
import { describe, expectTypeOf, it } from 'vitest';
import type { Settled } from '../../operators/index.js';
import { batchMap, unwrap } from '../../operators/index.js';

const results = of('a').pipe(batchMap((texts: readonly string[]) => of(texts.map((text) => text.length))));

describe('unwrap', () => {
  it('makes values, or one list of them', () => {
    expectTypeOf(results).toEqualTypeOf<Observable<Settled<string, number>>>();
    expectTypeOf(results.pipe(unwrap('values'))).toEqualTypeOf<Observable<number>>();
    expectTypeOf(results.pipe(unwrap('first'))).toEqualTypeOf<Observable<number>>();
    expectTypeOf(results.pipe(unwrap('all'))).toEqualTypeOf<Observable<number[]>>();
  });

  it('refuses other modes, options and sources', () => {
    // @ts-expect-error not a mode
    unwrap('some');
    // @ts-expect-error not an option
    unwrap('values', { onDrop: () => undefined });
    // @ts-expect-error not results
    void of(1).pipe(unwrap('values'));
  });
});
