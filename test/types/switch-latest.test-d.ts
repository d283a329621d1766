import type { Observable, OperatorFunction } from 'rxjs';
import { of } from 'rxjs';
import { describe, expectTypeOf, it } from 'vitest';
import type { ItemContext, Settled, SwitchLatestOptions } from '../../operators/index.js';
import { switchLatest } from '../../operators/index.js';

describe('switchLatest', () => {
  it('makes what the calls make, whatever kind of stream they are', () => {
    expectTypeOf(of('a').pipe(switchLatest((text) => of(text.length)))).toEqualTypeOf<Observable<number>>();
    expectTypeOf(of('a').pipe(switchLatest((text) => Promise.resolve(text.length)))).toEqualTypeOf<Observable<number>>();
    expectTypeOf(of('a').pipe(switchLatest((text) => [text]))).toEqualTypeOf<Observable<string>>();
    expectTypeOf(switchLatest((item: Date) => of(item))).toEqualTypeOf<OperatorFunction<Date, Date>>();
  });

  it('tells the call its item and context', () => {
    void of({ query: 'cats' }).pipe(
      switchLatest(
        (item, context) => {
          expectTypeOf(item).toEqualTypeOf<{ query: string }>();
          expectTypeOf(context).toEqualTypeOf<ItemContext>();
          return of(1);
        },
        { key: ({ query }) => query.length, onSourceError: 'drain' },
      ),
    );
  });

  it('settles calls, whose answer may be a plain value', () => {
    expectTypeOf(of('a').pipe(switchLatest((text) => text.length, { errors: 'settle' }))).toEqualTypeOf<
      Observable<Settled<string, number>>
    >();
  });

  it('takes options that are annotated, whose results may be settled', () => {
    const options: SwitchLatestOptions<string> = { key: (text) => text.length, errors: 'settle' };
    const results = of('a').pipe(switchLatest((text) => of(text.length), options));
    expectTypeOf(results).toEqualTypeOf<Observable<number | Settled<string, number>>>();
    expectTypeOf(switchLatest(async (text: string) => Promise.resolve(text), options)).toEqualTypeOf<
      OperatorFunction<string, string | Settled<string, string>>
    >();
    // @ts-expect-error a list is its items with one, and a value with the other
    void switchLatest((text: string) => [text], options);
  });

  it('refuses wrong options', () => {
    // @ts-expect-error not a policy
    switchLatest(() => of(1), { onSourceError: 'ignore' });
    // @ts-expect-error not an option
    switchLatest(() => of(1), { debounce: 5 });
    // @ts-expect-error a call is a stream
    switchLatest(() => 5);
  });

  it('has readonly options', () => {
    expectTypeOf<SwitchLatestOptions<number>>().toEqualTypeOf<Readonly<SwitchLatestOptions<number>>>();
  });
});
