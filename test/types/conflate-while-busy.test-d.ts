import type { Observable, OperatorFunction } from 'rxjs';
import { NEVER, of } from 'rxjs';
import { describe, expectTypeOf, it } from 'vitest';
import type { ConflateWhileBusyOptions } from '../../operators/index.js';
import { conflateWhileBusy } from '../../operators/index.js';

const lists = {
  ready: NEVER,
  seed: (item: number): readonly string[] => [String(item)],
  merge: (items: readonly string[], item: number): readonly string[] => [...items, String(item)],
};

describe('conflateWhileBusy', () => {
  it('makes aggregates of items', () => {
    expectTypeOf(of(1).pipe(conflateWhileBusy(lists))).toEqualTypeOf<Observable<readonly string[]>>();
    expectTypeOf(conflateWhileBusy(lists)).toEqualTypeOf<OperatorFunction<number, readonly string[]>>();
  });

  it('infers the aggregate from seed, and tells the callbacks', () => {
    const counted = of({ tokens: 5 }).pipe(
      conflateWhileBusy({
        ready: of(true),
        seed: (item) => ({ sum: item.tokens }),
        merge: (aggregate, item) => {
          expectTypeOf(aggregate).toEqualTypeOf<{ sum: number }>();
          expectTypeOf(item).toEqualTypeOf<{ tokens: number }>();
          return { sum: aggregate.sum + item.tokens };
        },
        weigh: (item) => item.tokens,
      }),
    );
    expectTypeOf(counted).toEqualTypeOf<Observable<{ sum: number }>>();
  });

  it('tells by the policy what was dropped', () => {
    conflateWhileBusy<number, readonly string[]>({
      ...lists,
      onDrop: (dropped, policy) => {
        if (policy === 'dropOldest') expectTypeOf(dropped).toEqualTypeOf<readonly string[]>();
        else expectTypeOf(dropped).toEqualTypeOf<number>();
      },
    });
  });

  it('refuses wrong options', () => {
    // @ts-expect-error seed and merge are needed
    conflateWhileBusy({ ready: NEVER });
    // @ts-expect-error a level is a boolean
    conflateWhileBusy({ ...lists, ready: of('busy') });
    // @ts-expect-error not a policy of one aggregate
    conflateWhileBusy({ ...lists, overflow: 'latest' });
    // @ts-expect-error merge makes an aggregate
    conflateWhileBusy<number, string>({ ready: NEVER, seed: String, merge: (_text: string, item: number) => item });
    // @ts-expect-error not an option
    conflateWhileBusy({ ...lists, maxQueued: 1 });
  });

  it('has readonly options', () => {
    expectTypeOf<ConflateWhileBusyOptions<number, string>>().toEqualTypeOf<Readonly<ConflateWhileBusyOptions<number, string>>>();
  });
});
