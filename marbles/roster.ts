import type { OperatorFunction } from 'rxjs';
import { defer, EMPTY, map, mergeMap, NEVER, of, pipe } from 'rxjs';
import type {
  BatcherOptions,
  BatchMapOptions,
  BatchWork,
  BulkheadMapOptions,
  CoalesceOptions,
  ConflateWhileBusyOptions,
  LaneBatch,
  MergeLanesOptions,
  RateLimitOptions,
  ResequenceOptions,
  Settled,
} from '../operators/index.js';
import {
  backpressure,
  batch,
  batchMap,
  bulkheadMap,
  coalesce,
  conflateWhileBusy,
  createBatcher,
  createLimiter,
  lanes,
  mergeLanes,
  perMinute,
  rateLimit,
  resequence,
  switchLatest,
  unwrap,
} from '../operators/index.js';
import type { LawSubject } from './laws.js';

const echo: BatchWork<number, number> = (items) => of(items);

const mapped = (options: BatchMapOptions<number, number>) => batchMap(echo, options);

const bulkheaded = (options: BulkheadMapOptions<number> & { readonly errors?: 'settle' }) =>
  bulkheadMap((item: number) => of(item), { concurrency: 2, ...options });

const conflated = (options: Partial<ConflateWhileBusyOptions<number, readonly number[]>>) =>
  conflateWhileBusy<number, readonly number[]>({
    ready: of(true),
    seed: (item) => [item],
    merge: (items, item) => [...items, item],
    maxWeight: 8,
    ...options,
  });

/** A batcher is not an operator: every item of the source is a load. */
const loaded = (options: BatcherOptions<number, number>, work = echo) => {
  const batcher = createBatcher(work, options);
  return mergeMap((item: number) => batcher.load(item));
};

/** Numbers in lists, so that an emission shows what was merged into it. */
const coalesced = (options: Partial<CoalesceOptions<number[]>>): OperatorFunction<number, number[]> =>
  pipe(
    map((item: number) => [item]),
    coalesce<number[]>({ merge: (first, next) => [...first, ...next], maxSize: 4, ...options }),
  );

const inSequence = (options: ResequenceOptions, sequence = (item: number) => item) =>
  resequence<number>(sequence, { onGap: 'skip', maxQueued: 8, ...options });

/** One item at once, and one in each millisecond after it. */
const admitted = (options: RateLimitOptions<number>, cost?: () => never) =>
  rateLimit<number>(createLimiter({ rates: [perMinute('requests', 60_000, { burst: 1 })], headroom: 1 }), cost, options);

/** Lanes are sources: the law's own is one of them. */
const merged =
  (options: MergeLanesOptions<number>): OperatorFunction<number, LaneBatch<number>> =>
  (source) =>
    mergeLanes(
      [
        { name: 'others', source: EMPTY },
        { name: 'own', source, maxWaitMs: 10 },
      ],
      { maxSize: 4, ...options },
    );

/** Results, as the operators before `unwrap` make them. */
const fulfilled = map(
  (value: number): Settled<number, number> => ({
    status: 'fulfilled',
    value,
    input: value,
    index: value,
    id: String(value),
    attempts: 1,
  }),
);

/** Every operator once, as an ordinary instance: `test/laws.test.ts` holds each against every law. */
export const roster: readonly LawSubject[] = [
  {
    operator: 'backpressure',
    create: (hooks) => backpressure<number>({ ready: of(true), maxQueued: 8, ...hooks }),
    itemsOf: (item) => [item],
    holdsAtMost: 8,
    throwing: {
      weigh: (fault) => backpressure<number>({ ready: of(false), weigh: fault }),
      onDrop: (fault) => backpressure<number>({ ready: of(false), maxQueued: 1, overflow: 'dropOldest', onDrop: fault }),
    },
  } satisfies LawSubject<number>,
  {
    operator: 'batch',
    create: (hooks) => batch<number>({ maxSize: 4, maxWaitMs: 10, ...hooks }),
    itemsOf: (items: number[]) => items,
    holdsAtMost: 4,
    throwing: {
      weigh: (fault) => batch<number>({ weigh: fault }),
      closeWhen: (fault) => batch<number>({ closeWhen: fault }),
    },
  } satisfies LawSubject<number[]>,
  {
    operator: 'batchMap',
    create: (hooks) => mapped({ maxSize: 4, maxQueued: 8, ...hooks }),
    itemsOf: ({ input }) => [input],
    holdsAtMost: 8,
    throwing: {
      weigh: (fault) => mapped({ weigh: fault }),
      lane: (fault) => mapped({ queue: lanes([{ name: 'only' }], { by: fault }) }),
      id: (fault) => mapped({ id: fault }),
      deadlineMs: (fault) => mapped({ deadlineMs: fault }),
    },
    rejectionOf: (settled) => (settled.status === 'rejected' ? settled.reason : undefined),
    abortable: (seen) =>
      batchMap(
        (_items, { signal }) => {
          seen(signal);
          return NEVER;
        },
        { maxSize: 2, timeoutMs: Infinity },
      ),
  } satisfies LawSubject<Settled<number, number>>,
  {
    operator: 'bulkheadMap',
    create: (hooks) => bulkheaded({ key: (item) => item % 3, perKey: 1, maxQueued: 8, ...hooks }),
    itemsOf: ({ input }) => [input],
    holdsAtMost: 8,
    reorders: true,
    throwing: {
      key: (fault) => bulkheaded({ key: fault }),
      perKey: (fault) => bulkheaded({ key: (item) => item, perKey: fault }),
    },
    rejectionOf: (settled) => (settled.status === 'rejected' ? settled.reason : undefined),
    abortable: (seen) =>
      bulkheadMap((_item: number, { signal }) => {
        seen(signal);
        return NEVER;
      }),
  } satisfies LawSubject<Settled<number, number>>,
  {
    operator: 'coalesce',
    create: (hooks) => coalesced({ ...hooks }),
    itemsOf: (items) => items,
    holdsAtMost: 4,
    throwing: {
      merge: (fault) => coalesced({ merge: fault }),
      compatible: (fault) => coalesced({ compatible: fault }),
      passThrough: (fault) => coalesced({ passThrough: fault }),
    },
  } satisfies LawSubject<number[]>,
  {
    operator: 'conflateWhileBusy',
    create: (hooks) => conflated({ ...hooks }),
    itemsOf: (items) => items,
    holdsAtMost: 8,
    throwing: {
      seed: (fault) => conflated({ seed: fault }),
      merge: (fault) => conflated({ ready: of(false), merge: fault }),
      weigh: (fault) => conflated({ ready: of(false), weigh: fault }),
      onDrop: (fault) => conflated({ ready: of(false), maxWeight: 1, overflow: 'dropNewest', onDrop: fault }),
    },
  } satisfies LawSubject<readonly number[]>,
  {
    operator: 'createBatcher',
    create: (hooks) => loaded({ maxSize: 4, maxQueued: 8, ...hooks }),
    itemsOf: (item) => [item],
    holdsAtMost: 8,
    throwing: {
      weigh: (fault) => loaded({ weigh: fault }),
      lane: (fault) => loaded({ queue: lanes([{ name: 'only' }], { by: fault }) }),
      id: (fault) => loaded({ id: fault }),
      deadlineMs: (fault) => loaded({ deadlineMs: fault }),
      dedupe: (fault) => loaded({ dedupe: fault }),
      window: (fault) => loaded({ window: fault }),
    },
    abortable: (seen) =>
      loaded({ maxSize: 2, timeoutMs: Infinity }, (_items, { signal }) => {
        seen(signal);
        return NEVER;
      }),
  } satisfies LawSubject<number>,
  {
    operator: 'mergeLanes',
    create: (hooks) => merged({ ...hooks }),
    itemsOf: ({ items }) => items,
    holdsAtMost: 4,
    throwing: { weigh: (fault) => merged({ weigh: fault }) },
  } satisfies LawSubject<LaneBatch<number>>,
  {
    operator: 'rateLimit',
    // Every subscription a limiter of its own: the law is about the state of the operator, and a limiter is one that is shared on purpose.
    create: (hooks) => (source) => defer(() => source.pipe(admitted({ maxQueued: 8, ...hooks }))),
    itemsOf: (item) => [item],
    // The eight that wait, and the one that ends it all because there is no room.
    holdsAtMost: 9,
    throwing: {
      cost: (fault) => admitted({}, fault),
      onDrop: (fault) => admitted({ maxQueued: 0, overflow: 'dropNewest', onDrop: fault }),
    },
  } satisfies LawSubject<number>,
  {
    operator: 'resequence',
    create: (hooks) => inSequence({ ...hooks }),
    itemsOf: (item) => [item],
    holdsAtMost: 8,
    throwing: { sequence: (fault) => inSequence({}, fault) },
  } satisfies LawSubject<number>,
  {
    operator: 'switchLatest',
    create: (hooks) => switchLatest((item: number) => of(item), hooks),
    itemsOf: (item) => [item],
    holdsAtMost: 1,
    throwing: {
      key: (fault) => switchLatest((item: number) => of(item), { key: fault }),
    },
    abortable: (seen) =>
      switchLatest(
        (_item, { signal }) => {
          seen(signal);
          return NEVER;
        },
        { key: (item: number) => item },
      ),
  } satisfies LawSubject<number>,
  {
    operator: 'unwrap',
    create: (hooks) => pipe(fulfilled, unwrap('values', hooks)),
    itemsOf: (item) => [item],
    holdsAtMost: 1,
  } satisfies LawSubject<number>,
];
