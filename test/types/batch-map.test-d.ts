import type { Observable, OperatorFunction } from 'rxjs';
import { EMPTY, from, of } from 'rxjs';
import { describe, expectTypeOf, it } from 'vitest';
import type { BatchMapOptions, BatchWork, CallContext, Settled } from '../../operators/index.js';
import {
  batchMap,
  createLimiter,
  divideAndConquer,
  fixed,
  inputOrder,
  lanes,
  orderPerKey,
  retryFailed,
  robust,
  splitItem,
} from '../../operators/index.js';
import type { BatchResult } from '../../operators/options/types.js';

interface Text {
  readonly id: string;
  readonly words: number;
}

const texts: Observable<Text> = EMPTY;

describe('batchMap', () => {
  it('settles items of the source with values of the work', () => {
    expectTypeOf(of('a').pipe(batchMap((items) => of(items.map((item) => item.length))))).toEqualTypeOf<
      Observable<Settled<string, number>>
    >();
    expectTypeOf(batchMap<Date, number>((items) => of(items.map(Number)))).toEqualTypeOf<OperatorFunction<Date, Settled<Date, number>>>();
  });

  it('tells the work its items and its call', () => {
    void texts.pipe(
      batchMap((items, context) => {
        expectTypeOf(items).toEqualTypeOf<readonly Text[]>();
        expectTypeOf(context).toEqualTypeOf<CallContext>();
        expectTypeOf(context.signal).toEqualTypeOf<AbortSignal>();
        return of(items.map(({ id }) => id));
      }),
    );
  });

  it('takes every shape of answer', () => {
    batchMap<string, number>(() => of([1, 2]));
    batchMap<string, number>(() => of([1, new Error('not this one')]));
    batchMap<string, number>(() => of(new Map([['a', 1]])));
    batchMap<string, number>(() => from(Promise.allSettled([Promise.resolve(1)])));
    batchMap<string, number>(async () => Promise.resolve([1]));
    batchMap<string, number>(() => Promise.resolve(new Map([['a', 1]])));
  });

  it('takes an error in an answer for no value, whatever its shape', () => {
    type Row = { readonly id: number; readonly name: string; readonly message: string };
    const row = new Error('no row') as Row | Error;
    const settles = <R>(work: BatchWork<string, R>): Observable<Settled<string, R>> => of('a').pipe(batchMap(work));
    expectTypeOf(settles(() => [row])).toEqualTypeOf<Observable<Settled<string, Row>>>();
    expectTypeOf(settles(async () => Promise.resolve([row]))).toEqualTypeOf<Observable<Settled<string, Row>>>();
    expectTypeOf(settles(() => of(new Map([['a', row]])))).toEqualTypeOf<Observable<Settled<string, Row>>>();
    expectTypeOf(settles(() => new Map<string, Row | Error>())).toEqualTypeOf<Observable<Settled<string, Row>>>();
    expectTypeOf(settles(async () => Promise.allSettled([Promise.resolve(row as Row)]))).toEqualTypeOf<Observable<Settled<string, Row>>>();
    batchMap<string, Row>(() => new Map<string, Row | Error>());
  });

  it('gives the value or the reason, by status', () => {
    const read = (settled: Settled<Text, number>): void => {
      expectTypeOf(settled.input).toEqualTypeOf<Text>();
      if (settled.status === 'fulfilled') expectTypeOf(settled.value).toEqualTypeOf<number>();
      else expectTypeOf(settled.reason).toEqualTypeOf<unknown>();
    };
    expectTypeOf(read).toBeFunction();
  });

  it('tells callbacks the type of the item', () => {
    const options: BatchMapOptions<Text> = {
      weigh: (item) => {
        expectTypeOf(item).toEqualTypeOf<Text>();
        return item.words;
      },
      queue: lanes([{ name: 'only' }], { by: (item: Text) => item.id, key: (item: Text) => item.words }),
      order: orderPerKey((item: Text) => item.id),
      id: ({ id }) => id,
      deadlineMs: ({ words }) => words * 10,
      window: ({ executing, concurrency, queued, queuedWeight, oldestMs }) => executing + concurrency + queued + queuedWeight + oldestMs,
      classify: (error, { size, attempt }) => {
        expectTypeOf(error).toEqualTypeOf<unknown>();
        return { class: size > attempt ? 'itemFault' : 'fatal', blame: [0, 'id'] };
      },
    };
    expectTypeOf(options).toExtend<BatchMapOptions<Text>>();
  });

  it('takes one limiter or one concurrency', () => {
    batchMap((items: readonly string[]) => of(items), { concurrency: 2 });
    batchMap((items: readonly string[]) => of(items), { concurrency: of(1, 2) });
    batchMap((items: readonly string[]) => of(items), { limiter: createLimiter() });
  });

  it('takes values for optional features', () => {
    const work: BatchWork<string, string> = (items) => of(items);
    batchMap(work, { order: inputOrder(), window: fixed(50), queue: lanes([{ name: 'a' }]) });
    batchMap(work, { repair: retryFailed({ maxAttempts: 5 }) });
    batchMap(work, { repair: [retryFailed(), [divideAndConquer()]] });
    batchMap(work, { repair: robust() });
    batchMap(work, {
      oversize: splitItem(
        (text: string) => Array.from(text),
        (parts: readonly string[]) => parts.join(''),
      ),
    });
  });

  it('refuses wrong options and work', () => {
    const work: BatchWork<string, string> = (items) => of(items);
    // @ts-expect-error a weight is a number
    batchMap(work, { weigh: (text: string) => text });
    // @ts-expect-error not a policy
    batchMap(work, { overflow: 'block' });
    batchMap(work, { maxQueued: () => 5, overflow: () => 'latest' });
    const join = (parts: readonly string[]) => parts.join('');
    // @ts-expect-error parts are items
    batchMap(work, { oversize: splitItem((count: number) => [count], join) });
    const joined = splitItem(
      (text: string) => Array.from(text),
      // @ts-expect-error results of a kind that is not joined
      (parts: readonly string[]) => parts.length,
    );
    batchMap(work, { oversize: joined });
    // @ts-expect-error not an order
    batchMap(work, { order: 'input' });
    // @ts-expect-error a key of other items
    batchMap(work, { order: orderPerKey((count: number) => count) });
    // @ts-expect-error closes where it says, or not
    batchMap(work, { closeWhen: () => 'before' as const });
    // @ts-expect-error not an option
    batchMap(work, { maxItems: 3 });
    // @ts-expect-error a window of an unknown kind
    batchMap(work, { window: { kind: 'natural' } });
    // @ts-expect-error a fixed window needs its ms
    batchMap(work, { window: fixed() });
    // @ts-expect-error `true` is no repair
    batchMap(work, { repair: true });
    // @ts-expect-error not a class of errors
    batchMap(work, { classify: () => ({ class: 'retry' }) });
    // @ts-expect-error a lane has a name
    batchMap(work, { queue: lanes([{ floor: 0.1 }]) });
    // @ts-expect-error one answer for the batch, not a number
    batchMap<string, number>(() => of(5));
  });

  it('has readonly options', () => {
    expectTypeOf<BatchMapOptions<number>>().toEqualTypeOf<Readonly<BatchMapOptions<number>>>();
    expectTypeOf<readonly number[]>().toExtend<BatchResult<number>>();
  });
});
