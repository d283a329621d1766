import type { Observable, ObservableInput, OperatorFunction } from 'rxjs';
import { from, mergeMap, of } from 'rxjs';
import { describe, expectTypeOf, it } from 'vitest';
import type { HedgeAttempt } from '../../operators/hedge.js';
import type { BatchWork, ItemContext, Settled, SwitchLatestOptions, WorkResult } from '../../operators/index.js';
import {
  batchMap,
  batchMapFrom,
  bulkheadMap,
  createBatcher,
  createBreaker,
  createLimiter,
  hedge,
  keyedLimiter,
  policy,
  settleAll,
  speculate,
  switchLatest,
} from '../../operators/index.js';
import type { LeaseContext } from '../../operators/options/limiter.js';
import type { SpeculateContext } from '../../operators/speculate.js';
import { createStages } from '../../src/index.js';

type Mixed = string | number;

interface Tools {
  search(): Promise<string[]>;
  add(): Promise<number>;
}
declare const tools: Tools;

/** The same in every operator: `project` answers a string or a number, in two ways. */
const answers = (n: number): Observable<string> | Promise<number> => (n > 1 ? of('a') : Promise.resolve(n));
const streams = (n: number): Observable<string> | Observable<number> => (n > 1 ? of('a') : of(n));
const values = (n: number): string | Promise<number> => (n > 1 ? 'a' : Promise.resolve(n));
const batches = (items: readonly number[]): Promise<string[]> | Observable<(number | Error)[]> =>
  items.length > 1 ? Promise.resolve(items.map(String)) : of([1, new Error('not this one')]);

const limiter = createLimiter();
const keyed = keyedLimiter(limiter);
const breaker = createBreaker();

describe('work whose branches have different results', () => {
  it('makes the union of them, item by item', () => {
    expectTypeOf(of(1).pipe(bulkheadMap(answers))).toEqualTypeOf<Observable<Settled<number, Mixed>>>();
    expectTypeOf(of(1).pipe(bulkheadMap(values))).toEqualTypeOf<Observable<Settled<number, Mixed>>>();
    expectTypeOf(of(1).pipe(bulkheadMap(answers, { errors: 'propagate' }))).toEqualTypeOf<Observable<Mixed>>();
    expectTypeOf(of(1).pipe(bulkheadMap((n) => (n > 1 ? ['a'] : of(n)), { errors: 'propagate' }))).toEqualTypeOf<Observable<Mixed>>();
    expectTypeOf(of(1).pipe(bulkheadMap(answers, { key: String, perKey: 1, stopKey: true }))).toEqualTypeOf<
      Observable<Settled<number, Mixed>>
    >();
    expectTypeOf(of(1).pipe(switchLatest(streams))).toEqualTypeOf<Observable<Mixed>>();
    expectTypeOf(of(1).pipe(switchLatest(values, { errors: 'settle' }))).toEqualTypeOf<Observable<Settled<number, Mixed>>>();
    const options: SwitchLatestOptions<number> = { errors: 'settle' };
    expectTypeOf(of(1).pipe(switchLatest(answers, options))).toEqualTypeOf<Observable<Mixed | Settled<number, Mixed>>>();
    expectTypeOf(settleAll([1], values, { concurrency: 2 })).toEqualTypeOf<Observable<Settled<number, Mixed>[]>>();
    const chosen = from(['search', 'add'] as const).pipe(bulkheadMap((name) => tools[name]()));
    expectTypeOf(chosen).toEqualTypeOf<Observable<Settled<'search' | 'add', string[] | number>>>();
  });

  it('makes the union of them, call by call', () => {
    expectTypeOf(limiter.run(() => answers(1))).toEqualTypeOf<Observable<Mixed>>();
    expectTypeOf(limiter.runAsync(() => values(1), { lane: 'default' })).toEqualTypeOf<Promise<Mixed>>();
    expectTypeOf(limiter.wrap(streams)).toEqualTypeOf<(n: number) => Promise<Mixed>>();
    expectTypeOf(keyed.run(() => answers(1), { key: 1 })).toEqualTypeOf<Observable<Mixed>>();
    expectTypeOf(keyed.runAsync(() => values(1), { key: 1 })).toEqualTypeOf<Promise<Mixed>>();
    expectTypeOf(breaker.run(() => answers(1))).toEqualTypeOf<Observable<Mixed>>();
    expectTypeOf(breaker.runAsync(() => values(1))).toEqualTypeOf<Promise<Mixed>>();
    expectTypeOf(policy()(() => answers(1))).toEqualTypeOf<Observable<Mixed>>();
    expectTypeOf(policy({ fallback: () => of(true) })(({ attempt }) => values(attempt))).toEqualTypeOf<Observable<Mixed | boolean>>();
    expectTypeOf(policy({ fallback: () => values(1) })(() => of(true))).toEqualTypeOf<Observable<Mixed | boolean>>();
    expectTypeOf(hedge((attempt) => answers(attempt), { delayMs: 5 })).toEqualTypeOf<Observable<Mixed>>();
  });

  it('makes the union of them, batch by batch', () => {
    expectTypeOf(of(1).pipe(batchMap(batches))).toEqualTypeOf<Observable<Settled<number, Mixed>>>();
    expectTypeOf(batchMapFrom([1], batches)).toEqualTypeOf<Observable<Settled<number, Mixed>>>();
    expectTypeOf(createBatcher(batches, { maxSize: 5 }).loadAsync(1)).toEqualTypeOf<Promise<Mixed>>();
    const either = createBatcher(async (items: readonly number[]) => {
      if (items.length > 1) return Promise.allSettled(items.map((n) => Promise.resolve(String(n))));
      return Promise.resolve(new Map<string, number | Error>());
    });
    expectTypeOf(either.loadAsync(1)).toEqualTypeOf<Promise<Mixed>>();
  });

  it('tells callbacks the types of items and contexts all the same', () => {
    const run = of({ id: 1 }).pipe(
      bulkheadMap(
        (item, context) => {
          expectTypeOf(item).toEqualTypeOf<{ id: number }>();
          expectTypeOf(context).toEqualTypeOf<ItemContext>();
          return item.id > 1 ? of('a') : of(1);
        },
        {
          errors: 'propagate',
          key: (item) => {
            expectTypeOf(item).toEqualTypeOf<{ id: number }>();
            return item.id;
          },
        },
      ),
    );
    expectTypeOf(run).toEqualTypeOf<Observable<Mixed>>();
    void limiter.run((context) => {
      expectTypeOf(context).toEqualTypeOf<LeaseContext>();
      return context.signal.aborted ? of('a') : of(1);
    });
    const guessed = speculate(
      (call, context) => {
        expectTypeOf(call).toEqualTypeOf<string | { text: string }>();
        expectTypeOf(context).toEqualTypeOf<SpeculateContext>();
        return context.isSpeculative ? of('a') : Promise.resolve(1);
      },
      {
        predict: of('a'),
        confirm: of({ text: 'a' }),
        match: (guess, { text }) => guess === text,
      },
    );
    expectTypeOf(guessed).toEqualTypeOf<Observable<Mixed>>();
    createStages([
      {
        name: 'ask',
        steps: async (text: string, { request, requestAsync }) => {
          expectTypeOf(request(() => answers(1))).toEqualTypeOf<Observable<Mixed>>();
          expectTypeOf(requestAsync(() => answers(1))).toEqualTypeOf<Promise<Mixed>>();
          return Promise.resolve(text);
        },
      },
    ]);
  });

  it('refuses what it would refuse otherwise', () => {
    // @ts-expect-error a plain value cannot be handed on
    bulkheadMap((n: number) => (n > 1 ? 5 : of('a')), { errors: 'propagate' });
    // @ts-expect-error a plain value cannot be handed on
    switchLatest((n: number) => (n > 1 ? 5 : of('a')));
    // @ts-expect-error not an option
    bulkheadMap(answers, { maxItems: 3 });
    // @ts-expect-error not a field of a job
    void limiter.run(() => answers(1), { priority: 1 });
    // @ts-expect-error one answer for the batch, not a number
    batchMap((items: readonly number[]) => (items.length > 1 ? of(5) : of(['a'])));
  });
});

describe('types that are told, not found', () => {
  it('goes by the type arguments', () => {
    expectTypeOf(bulkheadMap<number, Mixed>(answers)).toEqualTypeOf<OperatorFunction<number, Settled<number, Mixed>>>();
    expectTypeOf(bulkheadMap<number, Mixed>(answers, { errors: 'propagate' })).toEqualTypeOf<OperatorFunction<number, Mixed>>();
    expectTypeOf(limiter.runAsync<Mixed>(() => 'a')).toEqualTypeOf<Promise<Mixed>>();
    expectTypeOf(createBatcher<number, Mixed>(batches).loadAsync(1)).toEqualTypeOf<Promise<Mixed>>();
    expectTypeOf<BatchWork<number, string>>().toExtend<Parameters<typeof batchMap<number, string>>[0]>();
    expectTypeOf<HedgeAttempt<string>>().toExtend<Parameters<typeof hedge<string>>[0]>();
    expectTypeOf<ReturnType<typeof hedge<string>>>().toEqualTypeOf<Observable<string>>();
  });

  it('goes by what the result is put into', () => {
    type Message = { readonly role: 'user' | 'tool'; readonly parts: readonly [string, number][] };
    const message = (): Promise<Message> => limiter.runAsync(async () => Promise.resolve({ role: 'user', parts: [['a', 1]] }));
    const handedOn: Observable<Message> = of(1).pipe(bulkheadMap((n) => of({ role: 'tool', parts: [['a', n]] }), { errors: 'propagate' }));
    expectTypeOf(message()).toEqualTypeOf<Promise<Message>>();
    expectTypeOf(handedOn).toEqualTypeOf<Observable<Message>>();
  });

  it('is found where the function itself is handed on', () => {
    const work = ({ signal }: { readonly signal: AbortSignal }): Promise<string> => Promise.resolve(String(signal.aborted));
    expectTypeOf(of(work).pipe(mergeMap(policy()))).toEqualTypeOf<Observable<string>>();
    expectTypeOf([work].map(policy())).toEqualTypeOf<Observable<string>[]>();
    expectTypeOf([work].map(breaker.run.bind(breaker))).toEqualTypeOf<Observable<string>[]>();
  });

  it('is handed through by functions that know no more', () => {
    const limited = <R>(work: () => WorkResult<R>): Promise<R> => limiter.runAsync(work);
    const first = <A, B>(a: () => Promise<A>, b: () => Observable<B>): Promise<A | B> =>
      limiter.runAsync(() => (limiter.executing > 1 ? a() : b()));
    const each = <T, R>(work: (item: T) => WorkResult<R>): OperatorFunction<T, Settled<T, R>> => bulkheadMap(work);
    const flat = <T, R>(work: (item: T) => ObservableInput<R>): OperatorFunction<T, R> => bulkheadMap(work, { errors: 'propagate' });
    const same = limiter.wrap(async <V>(value: V): Promise<V> => Promise.resolve(value));
    expectTypeOf(limited(() => of('a'))).toEqualTypeOf<Promise<string>>();
    expectTypeOf(first(tools.search, () => of(1))).toEqualTypeOf<Promise<string[] | number>>();
    expectTypeOf(each((n: number) => of(n))).toEqualTypeOf<OperatorFunction<number, Settled<number, number>>>();
    expectTypeOf(flat((n: number) => [n])).toEqualTypeOf<OperatorFunction<number, number>>();
    expectTypeOf(same(5)).toEqualTypeOf<Promise<number>>();
  });
});
