import { catchError, concat, defer, EMPTY, finalize, forkJoin, ignoreElements, map, merge, mergeMap, NEVER, Observable, of } from 'rxjs';
import type { LimiterJob, LimiterOptions, ResequenceOptions, Settled } from '../../operators/index.js';
import {
  adaptiveLimit,
  backpressure,
  batch,
  batchMap,
  batchMapFrom,
  bulkheadMap,
  coalesce,
  conflateWhileBusy,
  createBatcher,
  createBreaker,
  createIntake,
  createLimiter,
  fromStream,
  hedge,
  mergeLanes,
  policy,
  rateLimit,
  resequence,
  retryFailed,
  settleAll,
  speculate,
  switchLatest,
  toAsyncIterable,
  toReadableStream,
  toStore,
  unwrap,
} from '../../operators/index.js';
import type { NativeObservable } from '../../operators/interop.js';
import { fromNative, fromSubscribable, toNative } from '../../operators/interop.js';
import { PlatformObservable } from '../support/platform-observable.js';
import type { Shape, Work } from './shape.js';
import { Failed } from './shape.js';

interface Signalled {
  readonly signal: AbortSignal;
}

const alone = map((item: number) => [item]);

const outcome = (settled: Settled<unknown, number>): number | Failed =>
  settled.status === 'fulfilled' ? settled.value : new Failed(settled.reason);
const outcomes = map((settled: Settled<unknown, number>) => [outcome(settled)]);
const allOutcomes = map((all: readonly Settled<unknown, number>[]) => all.map(outcome));

const batchWork =
  (work: Work) =>
  (items: readonly number[], context: Signalled): Observable<number[]> =>
    forkJoin(items.map((item) => work(item, context)));

const single =
  (work: Work) =>
  (item: number, context: Signalled): Observable<number> =>
    work(item, context);

/** The items that an input has at once. */
function listed(input: Observable<number>): { readonly items: number[]; readonly end: 'complete' | 'open' | { readonly error: Error } } {
  const items: number[] = [];
  let end: ReturnType<typeof listed>['end'] = 'open';
  input
    .subscribe({
      next: (item) => items.push(item),
      error: (error: unknown) => (end = { error: error as Error }),
      complete: () => (end = 'complete'),
    })
    .unsubscribe();
  return { items, end };
}

/** The input as something to pull from: an iterable, or one that hangs where the input goes on. */
function pulled(input: Observable<number>): Iterable<number> | AsyncIterable<number> {
  const { items, end } = listed(input);
  function* sync(): Generator<number> {
    yield* items;
    if (typeof end === 'object') throw end.error;
  }
  return end === 'open' ? hanging(items) : sync();
}

function hanging(items: readonly number[], end?: ReturnType<typeof listed>['end']): AsyncIterable<number> {
  return {
    [Symbol.asyncIterator]: () => {
      let at = 0;
      return {
        next: () => {
          if (at < items.length) return Promise.resolve({ done: false, value: items[at++]! });
          if (typeof end === 'object') return Promise.reject(end.error);
          return end === 'complete' ? Promise.resolve({ done: true, value: undefined }) : new Promise(() => undefined);
        },
        return: () => Promise.resolve({ done: true, value: undefined }),
      };
    },
  };
}

/** What the platform's own Observable looks like. */
function nativeOf<T>(input: Observable<T>): NativeObservable<T> {
  return {
    subscribe: (observer = {}, { signal } = {}) => {
      const subscription = input.subscribe(observer);
      const leave = (): void => {
        subscription.unsubscribe();
      };
      signal?.addEventListener('abort', leave);
      subscription.add(() => signal?.removeEventListener('abort', leave));
    },
  };
}

/** Options for what has no clock. */
function timeless({ scheduler: _none, ...options }: { readonly scheduler?: unknown }): object {
  return options;
}

/** What waits for a consumer that is never ready while items are kept. */
const BUSY = { ready: concat(of(false), NEVER) };

/** Splits the options into those of a limiter on the clock of the check, and the rest for the operator. */
function onClock({ scheduler, ...rest }: LimiterOptions): { readonly clock: LimiterOptions; readonly rest: object } {
  return { clock: scheduler === undefined ? {} : { scheduler }, rest };
}

export const shapes = {
  adaptiveLimit: {
    run: (input, options, work) => {
      const { clock, rest } = onClock(options);
      const limiter = createLimiter({ maxQueued: Infinity, ...clock });
      const adapting = adaptiveLimit(limiter, rest);
      return input.pipe(
        mergeMap((item) => limiter.run((context) => work(item, context)).pipe(alone)),
        finalize(() => {
          adapting.unsubscribe();
        }),
      );
    },
  },
  backpressure: { run: (input, options) => input.pipe(backpressure({ ready: of(true), ...timeless(options) }), alone), holding: BUSY },
  coalesce: {
    run: (input, options) =>
      input.pipe(
        map((item): readonly number[] => [item]),
        coalesce({ merge: (first, next) => [...first, ...next], ...options }),
      ),
  },
  conflateWhileBusy: {
    run: (input, options) =>
      input.pipe(
        conflateWhileBusy({
          ready: of(true),
          seed: (item): readonly number[] => [item],
          merge: (all, item) => [...all, item],
          ...timeless(options),
        }),
      ),
    holding: BUSY,
  },
  createBreaker: {
    run: (input, options, work) => {
      const breaker = createBreaker(options);
      return input.pipe(
        mergeMap((item) =>
          breaker
            .run((context) => work(item, context))
            .pipe(
              map((value) => [value]),
              catchError((error: unknown) => of([new Failed(error)])),
            ),
        ),
      );
    },
  },
  createIntake: {
    run: (input, options) => {
      const intake = createIntake<number>(options);
      const offered = input.pipe(
        mergeMap((item) => intake.offer(item)),
        ignoreElements(),
      );
      return merge(
        concat(offered, defer(() => intake.drain()).pipe(ignoreElements())),
        fromStream(() => intake),
      ).pipe(alone);
    },
  },
  fromNative: { run: (input) => fromNative(nativeOf(input)).pipe(alone) },
  fromSubscribable: { run: (input) => fromSubscribable(() => input).pipe(alone) },
  rateLimit: {
    run: (input, options) => {
      const { clock, rest } = onClock(options);
      const { isFull, ...others } = rest as { readonly isFull?: true };
      const limiter = createLimiter({ concurrency: 1, ...clock });
      if (isFull) limiter.tryAcquire();
      return input.pipe(rateLimit(limiter, {}, others), alone);
    },
    // Another job holds the only permit.
    holding: { isFull: true },
  },
  resequence: {
    run: (input, { sequence = (item: number) => item - 1, ...options }: ResequenceOptions & { sequence?: (item: number) => number }) =>
      input.pipe(resequence(sequence, options), alone),
  },
  toAsyncIterable: { run: (input, options) => fromStream(() => toAsyncIterable(input, timeless(options))).pipe(alone) },
  toNative: {
    run: (input) =>
      new Observable<number>((subscriber) => {
        const leaving = new AbortController();
        subscriber.add(() => {
          leaving.abort();
        });
        toNative(input, { observableClass: PlatformObservable }).subscribe(
          {
            next: (item) => {
              subscriber.next(item);
            },
            error: (error) => {
              subscriber.error(error);
            },
            complete: () => {
              subscriber.complete();
            },
          },
          { signal: leaving.signal },
        );
      }).pipe(alone),
  },
  toReadableStream: { run: (input, options) => fromStream(() => toReadableStream(input, timeless(options))).pipe(alone) },
  toStore: {
    run: (input, options) =>
      new Observable((subscriber) => {
        const store = toStore<number, number | undefined>(input, undefined, options);
        return store.subscribe(() => {
          if (store.status === 'failed') subscriber.error(store.error);
          else subscriber.next([store.getSnapshot()!]);
        });
      }),
  },
  batch: { run: (input, options) => input.pipe(batch(options)) },
  batchMap: { run: (input, options, work) => input.pipe(batchMap(batchWork(work), { random: () => 0.5, ...options }), outcomes) },
  batchMapFrom: { run: (input, options, work) => batchMapFrom(pulled(input), batchWork(work), options).pipe(outcomes) },
  bulkheadMap: { run: (input, options, work) => input.pipe(bulkheadMap(single(work), { ...options, errors: 'settle' }), outcomes) },
  createBatcher: {
    run: (input, options, work) => {
      const batcher = createBatcher(batchWork(work), options);
      return concat(
        input.pipe(
          mergeMap((item) => batcher.loadSettled(item)),
          outcomes,
        ),
        defer(() => batcher.drain()).pipe(ignoreElements()),
      );
    },
  },
  createLimiter: {
    run: (input, options, work) => {
      const { job, ...limits } = options as { readonly job?: LimiterJob };
      const limiter = createLimiter({ concurrency: 1, ...limits });
      return input.pipe(
        mergeMap((item) =>
          limiter
            .run((context) => work(item, context), job)
            .pipe(
              map((value) => [value]),
              catchError((error: unknown) => of([new Failed(error)])),
            ),
        ),
      );
    },
  },
  fromStream: {
    run: (input, _options, work) =>
      fromStream((signal) => {
        const { items, end } = listed(input);
        void work(0, { signal });
        return hanging(items, end);
      }).pipe(alone),
  },
  hedge: { run: (input, options, work) => hedge((_attempt, context) => work(listed(input).items[0]!, context), options).pipe(alone) },
  mergeLanes: {
    run: (input, options) =>
      mergeLanes(
        [
          { name: 'empty', source: EMPTY },
          { name: 'own', source: input, maxWaitMs: 50, maxQueued: Infinity },
        ],
        options,
      ).pipe(map(({ items }) => items)),
  },
  policy: {
    run: (input, options, work) =>
      policy({ retry: retryFailed(), ...options })((context) => work(listed(input).items[0]!, context)).pipe(alone),
  },
  settleAll: { run: (input, options, work) => settleAll(listed(input).items, single(work), options).pipe(allOutcomes) },
  speculate: {
    run: (input, options, work) => speculate(single(work), { predict: NEVER, confirm: input, match: () => false, ...options }).pipe(alone),
  },
  switchLatest: { run: (input, options, work) => input.pipe(switchLatest(single(work), options), alone) },
  unwrap: {
    run: (input) =>
      input.pipe(
        map(
          (value, index): Settled<number, number> => ({ status: 'fulfilled', value, input: value, index, id: String(index), attempts: 1 }),
        ),
        unwrap('values'),
        alone,
      ),
  },
} as const satisfies Readonly<Record<string, Shape>>;
