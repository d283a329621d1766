import { setImmediate } from 'node:timers/promises';
import { reactive } from '@vue/reactivity';
import type { Observable, OperatorFunction } from 'rxjs';
import { config, lastValueFrom, of, Subject, take } from 'rxjs';
import * as rxjs5 from 'rxjs5';
import * as rxjs6 from 'rxjs6';
import * as rxjs70 from 'rxjs70';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  backpressure,
  batch,
  batchMap,
  batchMapFrom,
  bulkheadMap,
  coalesce,
  conflateWhileBusy,
  createBatcher,
  createBreaker,
  createLimiter,
  hedge,
  mergeLanes,
  policy,
  rateLimit,
  resequence,
  settleAll,
  switchLatest,
  toAsyncIterable,
  toStore,
} from '../../operators/index.js';
import { expectNoUnhandledRejections } from '../support/rejections.js';

/** What is used of a Subject of any copy; to the types it is one of ours. */
interface AnySubject extends Observable<number> {
  next(value: number): void;
  error(error: unknown): void;
  complete(): void;
  readonly observers: readonly unknown[];
}
const copies: readonly (readonly [string, () => AnySubject])[] = [
  ['RxJS 5', () => new rxjs5.Subject<number>() as unknown as AnySubject],
  ['RxJS 6', () => new rxjs6.Subject<number>() as unknown as AnySubject],
  ['RxJS 7.0', () => new rxjs70.Subject<number>()],
  ["Vue's reactive", () => reactive({ subject: new Subject<number>() }).subject],
];

let reported: unknown[] = [];
beforeEach(() => {
  reported = [];
  config.onUnhandledError = (error) => reported.push(error);
});
afterEach(async () => {
  // RxJS reports from a timer of 0 ms.
  await new Promise((resolve) => setTimeout(resolve));
  config.onUnhandledError = null;
  expect(reported).toEqual([]);
});
expectNoUnhandledRejections();

const double = (item: number): Observable<number> => of(2 * item);
const operators: Readonly<Record<string, () => OperatorFunction<number, unknown>>> = {
  backpressure: () => backpressure({ ready: of(true) }),
  batch: () => batch({ maxSize: 1 }),
  batchMap: () => batchMap((items: readonly number[]) => of(items.map((item) => 2 * item))),
  bulkheadMap: () => bulkheadMap(double),
  'bulkheadMap, values': () => bulkheadMap(double, { errors: 'propagate' }),
  coalesce: () => coalesce({ merge: (a: number, b: number) => a + b }),
  'bulkheadMap, one per key': () => bulkheadMap(double, { key: (item: number) => item % 2, perKey: 1 }),
  conflateWhileBusy: () => conflateWhileBusy({ ready: of(true), seed: (item: number) => item, merge: (a: number, b: number) => a + b }),
  rateLimit: () => rateLimit(createLimiter()),
  resequence: () => resequence((item: number) => item),
  switchLatest: () => switchLatest(double),
};

describe.each(copies)('a source of %s', (_, subject) => {
  it.each(Object.entries(operators))('goes through %s, and ends with it', async (__, operator) => {
    const source = subject();
    const seen: unknown[] = [];
    const ended = new Promise<void>((resolve) => {
      source.pipe(operator()).subscribe({ next: (value) => seen.push(value), complete: resolve });
    });
    source.next(0);
    source.next(1);
    source.complete();
    await ended;
    expect(seen.length).toBeGreaterThan(0);
    expect(source.observers).toHaveLength(0);
  });

  it.each(Object.entries(operators))('fails in %s with its own error', (__, operator) => {
    const source = subject();
    const failure = new Error('the source');
    const seen: unknown[] = [];
    source.pipe(operator()).subscribe({ error: (error: unknown) => seen.push(error) });
    source.error(failure);
    expect(seen).toEqual([failure]);
  });

  it.each(Object.entries(operators))('is left by %s', (__, operator) => {
    const source = subject();
    const subscription = source.pipe(operator()).subscribe();
    expect(source.observers).toHaveLength(1);
    source.next(0);
    subscription.unsubscribe();
    expect(source.observers).toHaveLength(0);
  });

  it.each(Object.entries(operators))('is left by a consumer of %s that has enough', async (__, operator) => {
    const source = subject();
    const first = lastValueFrom(source.pipe(operator(), take(1)));
    source.next(0);
    await first;
    expect(source.observers).toHaveLength(0);
  });

  it('is merged, shown and iterated', async () => {
    const [merged, shown, iterated] = [subject(), subject(), subject()];
    const batches = lastValueFrom(mergeLanes([{ name: 'a', source: merged }], { maxSize: 1 }));
    merged.next(1);
    merged.complete();
    expect(await batches).toMatchObject({ items: [1] });
    const store = toStore(shown, 0);
    const leave = store.subscribe(() => undefined);
    shown.next(3);
    expect(store.getSnapshot()).toBe(3);
    leave();
    expect(shown.observers).toHaveLength(0);
    const values: number[] = [];
    const reading = (async () => {
      for await (const value of toAsyncIterable(iterated)) values.push(value);
    })();
    iterated.next(1);
    iterated.complete();
    await reading;
    expect(values).toEqual([1]);
  });
});

/** Calls one piece of work that returns the stream; the last value is the answer. */
type Call = (stream: () => Observable<number>) => Observable<unknown>;
const calls: Readonly<Record<string, Call>> = {
  batchMap: (stream) => of(1).pipe(batchMap(() => stream() as never)),
  batchMapFrom: (stream) => batchMapFrom([1], () => stream() as never),
  bulkheadMap: (stream) => of(1).pipe(bulkheadMap(stream)),
  'bulkheadMap, values': (stream) => of(1).pipe(bulkheadMap(stream, { errors: 'propagate' })),
  'bulkheadMap, one per key': (stream) => of(1).pipe(bulkheadMap(stream, { key: () => 1, perKey: 1 })),
  'bulkheadMap, values one per key': (stream) => of(1).pipe(bulkheadMap(stream, { key: () => 1, perKey: 1, errors: 'propagate' })),
  createBatcher: (stream) => createBatcher(() => stream() as never).load(1),
  createBreaker: (stream) => createBreaker().run(stream),
  hedge: (stream) => hedge(stream),
  limiter: (stream) => createLimiter().run(stream),
  policy: (stream) => policy()(stream),
  settleAll: (stream) => settleAll([1], stream),
  switchLatest: (stream) => of(1).pipe(switchLatest(stream)),
};
/** The stream of a call that has been made: batches are formed first. */
function begun(call: Call, stream: AnySubject) {
  let made: () => void;
  const isMade = new Promise<void>((resolve) => {
    made = resolve;
  });
  const output = call(() => {
    made();
    return stream;
  });
  return { output, isSubscribed: isMade.then(() => setImmediate()) };
}
const isBatch = (name: string): boolean => /batch|divide/i.test(name);

describe.each(copies)('work that answers with a stream of %s', (_, subject) => {
  it.each(Object.entries(calls))('has its value: %s', async (name, call) => {
    const stream = subject();
    const { output, isSubscribed } = begun(call, stream);
    const answer = lastValueFrom(output);
    await isSubscribed;
    stream.next((isBatch(name) ? [42] : 42) as number);
    stream.complete();
    expect(JSON.stringify(await answer)).toContain('42');
    expect(stream.observers).toHaveLength(0);
  });

  it.each(Object.entries(calls))('fails with its error: %s', async (__, call) => {
    const stream = subject();
    const { output, isSubscribed } = begun(call, stream);
    const answer = lastValueFrom(output).catch((error: unknown) => [{ reason: error }]);
    await isSubscribed;
    stream.error(Object.assign(new Error('no'), { status: 400 }));
    const [failed] = [await answer].flat(2) as { reason: unknown }[];
    expect(String(failed?.reason)).toContain('no');
  });

  it.each(Object.entries(calls))('is left: %s', async (__, call) => {
    const stream = subject();
    const { output, isSubscribed } = begun(call, stream);
    const subscription = output.subscribe();
    await isSubscribed;
    expect(stream.observers).toHaveLength(1);
    subscription.unsubscribe();
    expect(stream.observers).toHaveLength(0);
  });
});

describe('a source of another copy that emits without end while it is subscribed to', () => {
  it.each([
    ['RxJS 5', rxjs5.Observable as unknown],
    ['RxJS 6', rxjs6.Observable as unknown],
    ['RxJS 7.0', rxjs70.Observable as unknown],
  ])('stops when the consumer has enough: %s', async (_, Class) => {
    let sent = 0;
    const endless = new (Class as typeof Observable)<number>((subscriber) => {
      while (!subscriber.closed && sent < 1000) subscriber.next(sent++);
    });
    expect(await lastValueFrom(endless.pipe(bulkheadMap(double, { errors: 'propagate' }), take(2)))).toBe(2);
    expect(sent).toBe(2);
  });
});

describe('a stream of ours behind a proxy', () => {
  it.each(Object.entries(operators))('works as without: %s', async (_, operator) => {
    const seen: unknown[] = [];
    for (const wrap of [
      <O extends object>(stream: O): O => new Proxy(stream, {}),
      <O extends object>(stream: O): O => reactive(stream) as O,
    ]) {
      const source = new Subject<number>();
      const ended = new Promise<void>((resolve) => {
        wrap(source.pipe(operator())).subscribe({ next: (value) => seen.push(value), complete: resolve });
      });
      source.next(0);
      source.complete();
      await ended;
      expect(source.observed).toBe(false);
    }
    expect(seen).toHaveLength(2);
  });
});
