import type { Observable } from 'rxjs';
import { of } from 'rxjs';
import { describe, expectTypeOf, it } from 'vitest';
import type { Settled } from '../../operators/index.js';
import { createBatcher, loadFrom } from '../../operators/index.js';

describe('loadFrom', () => {
  it('has the types of its batcher', () => {
    const batcher = createBatcher((items: readonly string[]) => of(items.map((item) => item.length)));
    expectTypeOf(loadFrom(batcher, ['a'])).toEqualTypeOf<Observable<Settled<string, number>>>();
    // @ts-expect-error -- the input has other items
    loadFrom(batcher, [1]);
    loadFrom(batcher, ['a'], { weigh: (item) => item.length });
  });
});
