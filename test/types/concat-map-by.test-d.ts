import type { Observable } from 'rxjs';
import { of } from 'rxjs';
import { describe, expectTypeOf, it } from 'vitest';
import type { ConcatMapByOptions, ItemContext, Settled } from '../../operators/index.js';
import { concatMapBy, inputOrder } from '../../operators/index.js';

const initial = (text: string): string => text.charAt(0);
const length = (text: string): Promise<number> => Promise.resolve(text.length);

describe('concatMapBy', () => {
  it('settles every item when nothing is said', () => {
    expectTypeOf(of('a').pipe(concatMapBy(initial, length))).toEqualTypeOf<Observable<Settled<string, number>>>();
    expectTypeOf(of('a').pipe(concatMapBy(initial, length, { stopKey: true }))).toEqualTypeOf<Observable<Settled<string, number>>>();
  });

  it("hands on values with errors 'propagate'", () => {
    expectTypeOf(of('a').pipe(concatMapBy(initial, length, { errors: 'propagate' }))).toEqualTypeOf<Observable<number>>();
    concatMapBy(initial, length, { errors: 'propagate', order: inputOrder() });
  });

  it('tells key and project the type of the item', () => {
    const run = of({ chat: 1 }).pipe(
      concatMapBy(
        (item) => {
          expectTypeOf(item).toEqualTypeOf<{ chat: number }>();
          return item.chat;
        },
        (item, context) => {
          expectTypeOf(item).toEqualTypeOf<{ chat: number }>();
          expectTypeOf(context).toEqualTypeOf<ItemContext>();
          return of(item.chat);
        },
      ),
    );
    expectTypeOf(run).toEqualTypeOf<Observable<Settled<{ chat: number }, number>>>();
  });

  it('refuses wrong options', () => {
    // @ts-expect-error an error that is handed on ends the output
    concatMapBy(initial, length, { errors: 'propagate', stopKey: true });
    // @ts-expect-error nothing is less urgent
    concatMapBy(initial, length, { overflow: 'dropLowest' });
    // @ts-expect-error a key has one at a time
    concatMapBy(initial, length, { perKey: 2 });
    // @ts-expect-error project is missing
    concatMapBy(initial);
  });

  it('has readonly options', () => {
    expectTypeOf<ConcatMapByOptions<number>>().toEqualTypeOf<Readonly<ConcatMapByOptions<number>>>();
  });
});
