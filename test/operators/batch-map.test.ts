import {
  concat,
  concatMap,
  defer,
  delay,
  EMPTY,
  from,
  map,
  NEVER,
  Observable,
  of,
  range,
  Subject,
  take,
  takeWhile,
  tap,
  throwError,
  timer,
  VirtualTimeScheduler,
} from 'rxjs';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import { createWorker } from '../../marbles/worker.js';
import type { BatchMapOptions, BatchWork, CallContext, FlowEvent, Fulfilled, Rejected, Settled, Verdict } from '../../operators/index.js';
import {
  BatchShapeError,
  batchMap,
  batchMapFrom,
  CallbackError,
  classifyError,
  createBatcher,
  createLimiter,
  divideAndConquer,
  FlowConfigError,
  fixed,
  fromHeaders,
  isFlowError,
  lanes,
  natural,
  perMinute,
  RetryShareError,
  robust,
  SplitLimitError,
} from '../../operators/index.js';
import type { BatchResult } from '../../operators/options/types.js';
import { atOnce } from '../support/at-once.js';
import { unstamped } from '../support/events.js';

/** Errors of SDKs are read, and whatever can be repaired is. */
const repaired = { classify: classifyError, repair: robust() };

const echo = <T>(items: readonly T[]): Observable<readonly T[]> => of(items);
const badRequest = Object.assign(new Error('forbidden words'), { status: 400 });
const overloaded = Object.assign(new Error('overloaded'), { status: 503 });

/** Keeps what comes out. */
function watch<T, R>(result: Observable<Settled<T, R>>) {
  const settled: Settled<T, R>[] = [];
  const errors: unknown[] = [];
  let completed = false;
  const subscription = result.subscribe({
    next: (one) => settled.push(one),
    error: (error: unknown) => errors.push(error),
    complete: () => {
      completed = true;
    },
  });
  return { settled, errors, completed: () => completed, subscription };
}

/** The whole life of some items in virtual time. */
function settle<T, R>(items: readonly T[], work: BatchWork<T, R>, options?: BatchMapOptions<T>) {
  return virtualTime(({ flush }) => {
    const seen = watch(from(items).pipe(batchMap(work, { ...repaired, ...options })));
    flush();
    return seen;
  });
}

function fulfilled<T, R>(settled: readonly Settled<T, R>[]): Fulfilled<T, R>[] {
  return settled.filter((one) => one.status === 'fulfilled');
}

function rejected<T>(settled: readonly Settled<T, unknown>[]): Rejected<T>[] {
  return settled.filter((one) => one.status === 'rejected');
}

/** A promise and its two ends. */
function deferred<R>() {
  let resolve!: (value: R) => void;
  let reject!: (reason: unknown) => void;
  const promise = new Promise<R>((onResolve, onReject) => {
    resolve = onResolve;
    reject = onReject;
  });
  return { promise, resolve, reject };
}

/** Remembers every call and answers none until told. */
function manual() {
  const calls: { readonly items: readonly string[]; readonly context: CallContext; readonly answer: Subject<readonly string[]> }[] = [];
  const work: BatchWork<string, string> = (items, context) => {
    const answer = new Subject<readonly string[]>();
    calls.push({ items: [...items], context, answer });
    return answer.pipe(take(1));
  };
  return { work, calls, sent: () => calls.map(({ items }) => items.join('')) };
}

describe('work that answers with a promise', () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it('answers every item, and a rejection splits and retries like any failure', async () => {
    const sent: string[] = [];
    const work: BatchWork<string, string> = async (items, { attempt, splitDepth }) => {
      sent.push(`${items.join('')} ${String(attempt)} ${String(splitDepth)}`);
      await Promise.resolve();
      if (attempt === 1 && splitDepth === 0) throw overloaded;
      if (items.includes('x')) throw badRequest;
      return items.map((item) => item.toUpperCase());
    };
    const seen = watch(of('a', 'x', 'b').pipe(batchMap(work, { ...repaired, random: () => 0.5 })));
    await vi.advanceTimersByTimeAsync(1000);
    expect(sent).toEqual(['axb 1 0', 'axb 2 0', 'a 1 1', 'x 1 1', 'b 1 1']);
    expect(fulfilled(seen.settled).map(({ value, attempts }) => [value, attempts])).toEqual([
      ['A', 3],
      ['B', 3],
    ]);
    expect(rejected(seen.settled)).toEqual([{ status: 'rejected', reason: badRequest, input: 'x', index: 1, id: '1', attempts: 3 }]);
    expect(seen.completed()).toBe(true);
  });

  it('splits ten prompts down to the one that is forbidden', async () => {
    const prompts = Array.from({ length: 10 }, (_, i) => `prompt ${String(i)}`);
    let calls = 0;
    const work: BatchWork<string, string> = async (items) => {
      calls++;
      await new Promise((done) => setTimeout(done, 10));
      if (items.includes('prompt 3')) throw badRequest;
      return items.map((item) => `answer to ${item}`);
    };
    const seen = watch(from(prompts).pipe(batchMap(work, repaired)));
    await vi.advanceTimersByTimeAsync(1000);
    expect(fulfilled(seen.settled)).toHaveLength(9);
    for (const { input, value } of fulfilled(seen.settled)) expect(value).toBe(`answer to ${input}`);
    expect(rejected(seen.settled)).toMatchObject([{ input: 'prompt 3', index: 3, reason: badRequest }]);
    expect(calls).toBeLessThanOrEqual(8);
    expect(seen.completed()).toBe(true);
  });

  it('is ignored when it ends after the consumer has left, even by a rejection', async () => {
    const unhandled: unknown[] = [];
    const listen = (reason: unknown): void => {
      unhandled.push(reason);
    };
    process.on('unhandledRejection', listen);
    const first = deferred<string[]>();
    const second = deferred<string[]>();
    const answers = [first, second];
    const seen = watch(of('a', 'b').pipe(batchMap(() => (answers.shift() ?? first).promise, { ...repaired, maxSize: 1 })));
    seen.subscription.unsubscribe();
    first.resolve(['A']);
    second.reject(new Error('too late'));
    vi.useRealTimers();
    await new Promise((done) => setImmediate(done));
    process.off('unhandledRejection', listen);
    expect(seen.settled).toEqual([]);
    expect(seen.errors).toEqual([]);
    expect(unhandled).toEqual([]);
  });

  it('keeps its slot in a shared limiter after it was given up, until it settles', async () => {
    const limiter = createLimiter({ concurrency: 1, abortGraceMs: 1000 });
    const stubborn = deferred<string[]>();
    watch(of('a').pipe(batchMap(() => stubborn.promise, { limiter, scheduler: atOnce() }))).subscription.unsubscribe();
    const next = watch(of('b').pipe(batchMap(echo, { limiter, scheduler: atOnce() })));
    await vi.advanceTimersByTimeAsync(500);
    expect(limiter.executing).toBe(1);
    expect(next.settled).toEqual([]);
    stubborn.resolve(['A']);
    await vi.advanceTimersByTimeAsync(0);
    expect(next.settled).toMatchObject([{ value: 'b' }]);
    expect(limiter.executing).toBe(0);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('loses its slot in a shared limiter after abortGraceMs, if it never settles', async () => {
    const limiter = createLimiter({ concurrency: 1, abortGraceMs: 1000 });
    watch(
      of('a').pipe(batchMap(() => new Promise<string[]>(() => undefined), { limiter, scheduler: atOnce() })),
    ).subscription.unsubscribe();
    const next = watch(of('b').pipe(batchMap(echo, { limiter, scheduler: atOnce() })));
    await vi.advanceTimersByTimeAsync(999);
    expect(next.settled).toEqual([]);
    await vi.advanceTimersByTimeAsync(1);
    expect(next.settled).toMatchObject([{ value: 'b' }]);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('keeps its slot in the same way when its attempt timed out', async () => {
    const stubborn = deferred<string[]>();
    const sent: string[] = [];
    const work: BatchWork<string, string> = (items) => {
      sent.push(items.join(''));
      return items.includes('a') ? stubborn.promise : of(items);
    };
    const options = { concurrency: 1, maxSize: 1, timeoutMs: 100, repair: divideAndConquer(), deadlineMs: 5000 } as const;
    const seen = watch(concat(of('a', 'b'), NEVER).pipe(batchMap(work, options)));
    await vi.advanceTimersByTimeAsync(100);
    expect(rejected(seen.settled)).toMatchObject([{ input: 'a', reason: { code: 'FLOW_ATTEMPT_TIMEOUT' } }]);
    expect(sent).toEqual(['a']);
    stubborn.resolve(['late']);
    await vi.advanceTimersByTimeAsync(0);
    expect(sent).toEqual(['a', 'b']);
    expect(seen.settled).toHaveLength(2);
    expect(vi.getTimerCount()).toBe(0);
    seen.subscription.unsubscribe();
  });

  it('frees the slot of an Observable at once', () => {
    const limiter = createLimiter({ concurrency: 1 });
    watch(of('a').pipe(batchMap(() => NEVER, { limiter, scheduler: atOnce() }))).subscription.unsubscribe();
    expect(limiter.executing).toBe(0);
  });
});

describe('the signal', () => {
  it('is only made when the work asks for it', () => {
    const made = vi.spyOn(globalThis, 'AbortController');
    settle(['a', 'b'], echo, { maxSize: 1 });
    expect(made).not.toHaveBeenCalled();
    settle(['a'], (items, { signal }) => of(items).pipe(tap(() => signal.aborted)));
    expect(made).toHaveBeenCalledTimes(1);
    made.mockRestore();
  });

  it('aborts once, as an AbortError, before unsubscribe returns', () => {
    const signals: AbortSignal[] = [];
    let aborts = 0;
    const work: BatchWork<string, string> = (_items, { signal }) => {
      signals.push(signal);
      signal.addEventListener('abort', () => aborts++);
      return NEVER;
    };
    const source = new Subject<string>();
    const { subscription } = watch(source.pipe(batchMap(work, { scheduler: atOnce(), window: natural() })));
    source.next('a');
    source.next('b');
    expect(signals).toHaveLength(2);
    subscription.unsubscribe();
    subscription.unsubscribe();
    expect(aborts).toBe(2);
    for (const { aborted, reason } of signals) {
      expect(aborted).toBe(true);
      expect(reason).toBeInstanceOf(DOMException);
      expect((reason as DOMException).name).toBe('AbortError');
    }
  });

  it('asked for after the abort is aborted already', () => {
    let context: CallContext | undefined;
    const source = of('a');
    const work: BatchWork<string, string> = (_items, given) => {
      context = given;
      return NEVER;
    };
    watch(source.pipe(batchMap(work))).subscription.unsubscribe();
    const late = watch(of('a').pipe(batchMap(work, { scheduler: atOnce() })));
    late.subscription.unsubscribe();
    expect(context?.signal.aborted).toBe(true);
    expect((context?.signal.reason as DOMException).name).toBe('AbortError');
  });

  it('is aborted when an attempt times out, and not when a call ends well', () => {
    const signals: AbortSignal[] = [];
    const work: BatchWork<string, string> = (items, { signal, attempt }) => {
      signals.push(signal);
      return attempt === 1 ? NEVER : of(items);
    };
    const { settled } = settle(['a'], work, { timeoutMs: 100, random: () => 0 });
    expect(settled).toMatchObject([{ status: 'fulfilled', attempts: 2 }]);
    expect(signals.map(({ aborted }) => aborted)).toEqual([true, false]);
  });

  it('aborts a call when the deadlines of all its members have passed, not before', () => {
    virtualTime(({ advance }) => {
      const { work, calls } = manual();
      const seen = watch(of('a', 'bb').pipe(batchMap(work, { deadlineMs: (item) => item.length * 100 })));
      advance(100);
      expect(calls[0]?.context.signal.aborted).toBe(false);
      expect(rejected(seen.settled)).toMatchObject([{ input: 'a', reason: { code: 'FLOW_DEADLINE', deadlineMs: 100 } }]);
      advance(100);
      expect(calls[0]?.context.signal.aborted).toBe(true);
      expect(rejected(seen.settled)).toHaveLength(2);
      expect(seen.completed()).toBe(true);
    });
  });
});

describe('what the work is told', () => {
  it('is the call: attempt, depth, batch, lane, weight and deadline', () => {
    const told: Omit<CallContext, 'signal' | 'settle' | 'observe'>[] = [];
    const work: BatchWork<string, string> = (items, { attempt, splitDepth, batchId, lane, weight, deadlineAt }) => {
      told.push({ attempt, splitDepth, batchId, lane, weight, deadlineAt });
      if (splitDepth === 0) return throwError(() => (attempt === 1 ? overloaded : badRequest));
      return of(items);
    };
    settle(['aa', 'bbb'], work, {
      queue: lanes([{ name: 'fast' }, { name: 'slow' }], { by: () => 'slow' }),
      weigh: (item) => item.length,
      timeoutMs: 1000,
      repair: robust({ retry: { delayMs: 100, jitter: 'none' } }),
    });
    expect(told).toEqual([
      { attempt: 1, splitDepth: 0, batchId: 'b0', lane: 'slow', weight: 5, deadlineAt: 1000 },
      { attempt: 2, splitDepth: 0, batchId: 'b0', lane: 'slow', weight: 5, deadlineAt: 1100 },
      { attempt: 1, splitDepth: 1, batchId: 'b0', lane: 'slow', weight: 2, deadlineAt: 1100 },
      { attempt: 1, splitDepth: 1, batchId: 'b0', lane: 'slow', weight: 3, deadlineAt: 1100 },
    ]);
  });

  it('lets it correct the token cost and hand on a response to the limiter', () => {
    virtualTime(({ flush }) => {
      const limiter = createLimiter({ rates: [perMinute('tokens', 60_000, { burst: 10_000 })], headroom: 1, learn: fromHeaders() });
      const work: BatchWork<string, string> = (items, context) => {
        expect(limiter.snapshot().tokens).toBe(10_000 - 500);
        context.settle({ inputTokens: 100, outputTokens: 150 });
        expect(limiter.snapshot().tokens).toBe(10_000 - 250);
        context.observe({ status: 429, headers: { 'retry-after': '2' } });
        return of(items);
      };
      const seen = watch(of('a').pipe(batchMap(work, { limiter, weigh: () => 500 })));
      flush();
      expect(seen.settled).toMatchObject([{ value: 'a' }]);
      expect(limiter.snapshot().pausedForMs).toBe(2000);
    });
  });

  it('is frozen in time for the items: a batch is a list of its own', () => {
    const { work, calls } = manual();
    const source = new Subject<string>();
    const { subscription } = watch(source.pipe(batchMap(work, { concurrency: 1, scheduler: atOnce() })));
    source.next('a');
    source.next('b');
    expect(calls[0]?.items).toEqual(['a']);
    subscription.unsubscribe();
  });
});

describe('the answer of the work', () => {
  const byLetter = (item: string): string => item;
  const answered = (answer: unknown, options?: BatchMapOptions<string>) => {
    let calls = 0;
    const { settled } = settle(
      ['a', 'b', 'c'],
      () => {
        calls++;
        return of(answer as BatchResult<string>);
      },
      options,
    );
    return { settled, calls };
  };
  const valuesOf = (settled: readonly Settled<string, string>[]) =>
    settled.map((one) => (one.status === 'fulfilled' ? one.value : (one.reason as Error).message));

  it('may be an array, with an Error for an item that failed', () => {
    const fault = new TypeError('no vector');
    const { settled, calls } = answered(['A', fault, 'C']);
    expect(valuesOf(settled)).toEqual(['A', 'no vector', 'C']);
    expect(rejected(settled)).toEqual([{ status: 'rejected', reason: fault, input: 'b', index: 1, id: '1', attempts: 1 }]);
    expect(calls).toBe(1);
  });

  it('may hold undefined and null as values', () => {
    const { settled } = answered([undefined, null, '']);
    expect(fulfilled(settled).map(({ value }) => value)).toEqual([undefined, null, '']);
  });

  it('may be a Map by id, in any order', () => {
    const { settled } = answered(
      new Map([
        ['c', 'C'],
        ['b', 'B'],
        ['a', 'A'],
      ]),
      { id: byLetter },
    );
    expect(valuesOf(settled)).toEqual(['A', 'B', 'C']);
    expect(settled.map(({ id }) => id)).toEqual(['a', 'b', 'c']);
  });

  it('may be a Map without an id option: the names are the indices', () => {
    expect(
      valuesOf(
        answered(
          new Map([
            ['0', 'A'],
            ['2', 'C'],
            ['1', 'B'],
          ]),
        ).settled,
      ),
    ).toEqual(['A', 'B', 'C']);
  });

  it('rejects only the item a Map has nothing for', () => {
    const { settled } = answered(
      new Map([
        ['a', 'A'],
        ['c', 'C'],
      ]),
      { id: byLetter },
    );
    expect(valuesOf(settled)).toEqual(['A', 'batchMap: the work answered without a result for this item', 'C']);
    expect(rejected(settled)[0]?.reason).toBeInstanceOf(BatchShapeError);
  });

  it('may be a list of settled results', () => {
    const list: PromiseSettledResult<string>[] = [
      { status: 'rejected', reason: badRequest },
      { status: 'fulfilled', value: 'B' },
      { status: 'fulfilled', value: 'C' },
    ];
    expect(valuesOf(answered(list).settled)).toEqual(['forbidden words', 'B', 'C']);
  });

  it('is a list of plain values when not every entry is a settled result', () => {
    const list = [{ status: 'fulfilled', value: 'A' }, 'B', 'C'];
    expect(fulfilled(answered(list).settled).map(({ value }) => value)).toEqual(list);
  });

  const wrong: readonly { readonly what: string; readonly answer: unknown; readonly options?: BatchMapOptions<string> }[] = [
    { what: 'too few results', answer: ['A', 'B'] },
    { what: 'too many results', answer: ['A', 'B', 'C', 'D'] },
    { what: 'no results', answer: [] },
    { what: 'too few settled results', answer: [{ status: 'fulfilled', value: 'A' }] },
    {
      what: 'an unknown id',
      answer: new Map([
        ['a', 'A'],
        ['b', 'B'],
        ['z', 'Z'],
      ]),
      options: { id: byLetter },
    },
    { what: 'a Map when two items have the same id', answer: new Map([['same', 'A']]), options: { id: () => 'same' } },
    { what: 'what names the failed ones', answer: { failed: [1], values: ['A', 'C'] } },
    { what: 'text', answer: 'ABC' },
    { what: 'a number', answer: 3 },
    { what: 'nothing', answer: undefined },
    { what: 'null', answer: null },
    { what: 'an object', answer: { a: 'A' } },
  ];
  it.each(wrong)('fails the whole batch, once and unsplit, with $what', ({ answer, options }) => {
    const { settled, calls } = answered(answer, options);
    expect(calls).toBe(1);
    expect(rejected(settled).map(({ input }) => input)).toEqual(['a', 'b', 'c']);
    for (const { reason } of rejected(settled)) {
      expect(reason).toBeInstanceOf(BatchShapeError);
      expect(reason).toMatchObject({ code: 'FLOW_BATCH_SHAPE', operator: 'batchMap', expected: 3 });
    }
  });

  it('never comes from an Observable that completes empty', () => {
    const { settled } = settle(['a'], () => EMPTY.pipe(delay(1)));
    expect(rejected(settled)).toMatchObject([{ reason: { message: 'batchMap: the work completed without an answer' } }]);
  });

  it('is the last value of an Observable', () => {
    expect(fulfilled(settle(['a'], () => of(['early'], ['late'])).settled)).toMatchObject([{ value: 'late' }]);
  });

  it('may be returned as it is, in every shape', () => {
    expect(fulfilled(settle(['a', 'b'], (items) => items.map((item) => item.toUpperCase())).settled)).toMatchObject([
      { value: 'A' },
      { value: 'B' },
    ]);
    expect(fulfilled(settle(['a'], () => new Map([['0', 'A']])).settled)).toMatchObject([{ value: 'A' }]);
  });

  it.each([null, undefined, 'text', 7, true, {}, new Set(['0']), new Map([['other', 'x']]), ['too', 'many'], (function* () {})()])(
    'is refused with a BatchShapeError when the work returns %o, or an Observable of it',
    (nonsense) => {
      for (const answer of [nonsense, of(nonsense)]) {
        const { settled } = settle(['a'], () => answer as never);
        expect(rejected(settled).map(({ reason }) => reason)).toEqual([expect.any(BatchShapeError)]);
      }
    },
  );

  it('is a failure of the call when the work throws', () => {
    const fault = new Error('thrown');
    const thrown = settle(['a'], () => {
      throw fault;
    });
    expect(rejected(thrown.settled)).toMatchObject([{ reason: fault }]);
  });

  it('sends an item again whose own error may pass, without the others', () => {
    const sent: string[] = [];
    const work: BatchWork<string, string> = (items, { attempt }) => {
      sent.push(items.join(''));
      return of(items.map((item) => (item === 'b' && attempt === 1 ? overloaded : item)));
    };
    const { settled } = settle(['a', 'b', 'c'], work, { random: () => 0.5 });
    expect(sent).toEqual(['abc', 'b']);
    expect(settled.map(({ input, attempts }) => [input, attempts])).toEqual([
      ['a', 1],
      ['c', 1],
      ['b', 2],
    ]);
  });
});

describe('callbacks', () => {
  const cause = new Error('mine');
  const fault = (): never => {
    throw cause;
  };

  it.each(['weigh', 'lane', 'id', 'deadlineMs'] as const)('what `%s` throws is the cause of the rejection of that item', (name) => {
    const { settled, completed } = settle(['a', 'b'], echo, {
      ...(name === 'lane'
        ? { queue: lanes([{ name: 'default' }], { by: (item: string) => (item === 'a' ? fault() : 'default') }) }
        : { [name]: (item: string) => (item === 'a' ? fault() : 1) }),
    });
    expect(rejected(settled)).toMatchObject([{ input: 'a', index: 0, attempts: 0, reason: { callback: name, cause } }]);
    expect(rejected(settled)[0]?.reason).toBeInstanceOf(CallbackError);
    expect(fulfilled(settled)).toHaveLength(1);
    expect(completed()).toBe(true);
  });

  it.each([NaN, -1, Infinity, undefined, null])('a weight of %o rejects the item', (weight) => {
    const { settled } = settle(['a', 'b'], echo, { weigh: (item) => (item === 'a' ? (weight as number) : 1) });
    expect(rejected(settled)).toMatchObject([{ input: 'a', reason: { code: 'FLOW_CALLBACK', callback: 'weigh' } }]);
  });

  it.each([NaN, -1])('a deadline of %o rejects the item', (ms) => {
    const { settled } = settle(['a', 'b'], echo, { deadlineMs: (item) => (item === 'a' ? ms : 10) });
    expect(rejected(settled)).toMatchObject([{ input: 'a', reason: { code: 'FLOW_CALLBACK', callback: 'deadlineMs' } }]);
  });

  it('an unknown lane rejects the item, and names the known ones', () => {
    const queue = lanes([{ name: 'fast' }, { name: 'slow' }], { by: (item: string) => item });
    const { settled } = settle(['fast', 'typo'], echo, { queue });
    expect(rejected(settled)).toMatchObject([
      { input: 'typo', reason: { code: 'FLOW_LANE_UNKNOWN', lane: 'typo', known: ['fast', 'slow'] } },
    ]);
    expect(fulfilled(settled)).toHaveLength(1);
  });

  it('a window that throws errors the stream', () => {
    virtualTime(({ flush }) => {
      const seen = watch(concat(of('a'), NEVER).pipe(batchMap(echo, { window: fault })));
      flush();
      expect(seen.errors).toMatchObject([{ code: 'FLOW_CALLBACK', callback: 'window', cause }]);
    });
  });

  it.each([NaN, -5])('a window of %o errors the stream', (ms) => {
    virtualTime(({ flush }) => {
      const seen = watch(concat(of('a'), NEVER).pipe(batchMap(echo, { window: () => ms })));
      flush();
      expect(seen.errors).toMatchObject([{ code: 'FLOW_CALLBACK', callback: 'window' }]);
    });
  });

  it('a classifier that throws, or answers nonsense, is named in what the callers get', () => {
    const { settled } = settle(['a', 'b'], () => throwError(() => badRequest), { classify: fault });
    const named = { code: 'FLOW_CALLBACK', callback: 'classify' };
    expect(rejected(settled).map(({ reason }) => reason)).toMatchObject([named, named]);
    for (const nonsense of ['transient', undefined, null, {}, { class: 'itemfault' }, { class: 'toString' }]) {
      const answered = settle(['a'], () => throwError(() => badRequest), { classify: () => nonsense as never });
      expect(rejected(answered.settled)).toMatchObject([{ attempts: 1, reason: { ...named, cause: badRequest } }]);
    }
  });

  it('a listener that throws is ignored', () => {
    expect(fulfilled(settle(['a'], echo, { onEvent: fault }).settled)).toHaveLength(1);
  });

  it('a classifier is told the size and the attempt, and decides', () => {
    const told: unknown[] = [];
    settle(['a', 'b'], () => throwError(() => new Error('x')), {
      classify: (_error, context) => {
        told.push(context);
        return { class: context.attempt === 1 ? 'transient' : 'fatal' };
      },
      random: () => 0,
    });
    expect(told).toMatchObject([
      { size: 2, attempt: 1, aborted: false },
      { size: 2, attempt: 2, aborted: false },
    ]);
  });
});

describe('the concurrency', () => {
  it('is never passed, and all of it is used', () => {
    virtualTime(({ flush }) => {
      const worker = createWorker({ marbles: '-----(r|)', answer: (items: readonly number[]) => items });
      const seen = watch(range(0, 100).pipe(batchMap(worker.work, { maxSize: 3, concurrency: 5 })));
      flush();
      expect(worker.peak).toBe(5);
      expect(worker.calls).toHaveLength(34);
      expect(
        fulfilled(seen.settled)
          .map(({ value }) => value)
          .sort((a, b) => a - b),
      ).toEqual(Array.from({ length: 100 }, (_, i) => i));
    });
  });

  it('as an Observable starts at 4, rises at once and falls as calls end', () => {
    virtualTime(({ advance, flush }) => {
      const concurrency = new Subject<number>();
      const worker = createWorker({ marbles: '-- 98ms (r|)', answer: (items: readonly number[]) => items });
      const seen = watch(range(0, 40).pipe(batchMap(worker.work, { maxSize: 1, concurrency })));
      advance(50);
      expect(worker.running()).toBe(4);
      concurrency.next(7);
      expect(worker.running()).toBe(7);
      concurrency.next(1);
      expect(worker.running()).toBe(7);
      advance(100);
      expect(worker.running()).toBe(1);
      concurrency.complete();
      flush();
      expect(seen.settled).toHaveLength(40);
      expect(seen.completed()).toBe(true);
    });
  });

  it('as an Observable hands on its error, and is left at the end', () => {
    const fault = new Error('the controller broke');
    const concurrency = new Subject<number>();
    const failing = watch(NEVER.pipe(batchMap(echo, { concurrency })));
    concurrency.error(fault);
    expect(failing.errors).toEqual([fault]);
    const ended = new Subject<number>();
    watch(EMPTY.pipe(batchMap(echo, { concurrency: ended })));
    expect(ended.observed).toBe(false);
  });

  it('belongs to one subscription: two do not share slots', () => {
    virtualTime(({ advance, flush }) => {
      const worker = createWorker({ marbles: '-----(r|)', answer: (items: readonly string[]) => items });
      const operator = batchMap(worker.work, { concurrency: 1 });
      watch(of('a').pipe(operator));
      watch(of('b').pipe(operator));
      advance(1);
      expect(worker.running()).toBe(2);
      flush();
    });
  });

  it('of a shared limiter holds for all who share it', () => {
    virtualTime(({ flush }) => {
      const limiter = createLimiter({ concurrency: 2 });
      const worker = createWorker({ marbles: '-----(r|)', answer: (items: readonly number[]) => items });
      const first = watch(range(0, 20).pipe(batchMap(worker.work, { limiter, maxSize: 2 })));
      const second = watch(range(20, 20).pipe(batchMap(worker.work, { limiter, maxSize: 2 })));
      flush();
      expect(worker.peak).toBe(2);
      expect(first.settled.length + second.settled.length).toBe(40);
      expect(limiter.executing).toBe(0);
    });
  });

  it('of a shared limiter that is closed rejects what waits and what comes', () => {
    virtualTime(({ flush }) => {
      const limiter = createLimiter({ concurrency: 1 });
      const source = new Subject<string>();
      const { work, calls } = manual();
      const seen = watch(source.pipe(batchMap(work, { limiter, scheduler: atOnce(), maxSize: 1 })));
      source.next('a');
      source.next('b');
      limiter.close();
      source.next('c');
      expect(rejected(seen.settled).map(({ input, reason }) => [input, isFlowError(reason, 'FLOW_CLOSED')])).toEqual([
        ['a', true],
        ['b', true],
        ['c', true],
      ]);
      expect(calls).toHaveLength(1);
      source.complete();
      flush();
      expect(seen.completed()).toBe(true);
    });
  });
});

describe('a long queue', () => {
  it('of 100,000 calls that end at once does not recurse', () => {
    const gate = new Subject<readonly number[]>();
    let calls = 0;
    const seen = watch(
      range(0, 1e5).pipe(
        batchMap((items) => (calls++ === 0 ? gate.pipe(take(1)) : of(items)), { maxSize: 1, concurrency: 1, maxQueued: Infinity }),
      ),
    );
    expect(seen.settled).toHaveLength(0);
    gate.next([0]);
    expect(seen.settled).toHaveLength(1e5);
    expect(seen.settled.every(({ index }, position) => index === position)).toBe(true);
    expect(seen.completed()).toBe(true);
    expect(calls).toBe(1e5);
  });

  it('fed by its own consumer loses and doubles nothing', () => {
    const source = new Subject<number>();
    const seen: number[] = [];
    let sent = 1;
    source.pipe(batchMap(echo, { maxSize: 8, scheduler: atOnce(), concurrency: 2, maxQueued: Infinity })).subscribe((settled) => {
      seen.push((settled as Fulfilled<number, number>).value);
      for (let i = 0; i < 3 && sent < 1e5; i++) source.next(sent++);
      if (seen.length === 1e5) source.complete();
    });
    source.next(0);
    expect(seen).toHaveLength(1e5);
    expect(new Set(seen).size).toBe(1e5);
  });

  it('errors at the bound with the numbers, after the rejection of the one too many', () => {
    const { work } = manual();
    const seen = watch(
      range(0, 10).pipe(
        map((n) => String(n)),
        batchMap(work, { maxQueued: 3, concurrency: 1, maxSize: 1 }),
      ),
    );
    expect(seen.errors).toMatchObject([{ code: 'FLOW_OVERFLOW', limit: 3, policy: 'error' }]);
    expect(rejected(seen.settled)).toMatchObject([{ input: '4', reason: { code: 'FLOW_OVERFLOW' } }]);
    expect(seen.settled).toHaveLength(1);
  });
});

describe('an embedding endpoint: 20 texts, 8192 tokens, 100 ms', () => {
  /** Texts arrive at some times, in ms, with some tokens each; calls take 50 ms. */
  const calls = (texts: readonly { readonly at: number; readonly tokens: number }[]) =>
    virtualTime(({ flush, now }) => {
      const made: { readonly at: number; readonly texts: number; readonly tokens: number }[] = [];
      const source = from(texts).pipe(concatMap((text) => timer(Math.max(0, text.at - now())).pipe(map(() => text))));
      const work: BatchWork<{ at: number; tokens: number }, number> = (items, { weight }) => {
        made.push({ at: now(), texts: items.length, tokens: weight });
        return timer(50).pipe(map(() => items.map(({ tokens }) => tokens)));
      };
      concat(source, NEVER)
        .pipe(batchMap(work, { maxSize: 20, maxWeight: 8192, weigh: ({ tokens }) => tokens, window: fixed(100) }), take(texts.length))
        .subscribe();
      flush();
      return made;
    });
  const many = (count: number, at: number, tokens: number) => Array.from({ length: count }, () => ({ at, tokens }));

  it('sends 20 texts at once and lets the next wait 100 ms', () => {
    expect(calls(many(21, 5, 1))).toEqual([
      { at: 5, texts: 20, tokens: 20 },
      { at: 105, texts: 1, tokens: 1 },
    ]);
  });

  it('starts the 100 ms at the first text', () => {
    expect(
      calls([
        { at: 1, tokens: 1 },
        { at: 51, tokens: 1 },
        { at: 151, tokens: 1 },
      ]),
    ).toEqual([
      { at: 101, texts: 2, tokens: 2 },
      { at: 251, texts: 1, tokens: 1 },
    ]);
  });

  it('sends exactly 8192 tokens at once', () => {
    expect(
      calls([
        { at: 1, tokens: 3000 },
        { at: 11, tokens: 5192 },
      ]),
    ).toEqual([{ at: 11, texts: 2, tokens: 8192 }]);
  });

  it('never sends 8193 tokens together: the rest waits its own 100 ms', () => {
    expect(
      calls([
        { at: 1, tokens: 3000 },
        { at: 11, tokens: 5193 },
      ]),
    ).toEqual([
      { at: 11, texts: 1, tokens: 3000 },
      { at: 111, texts: 1, tokens: 5193 },
    ]);
  });

  it('sends a text above 8192 tokens alone', () => {
    expect(
      calls([
        { at: 1, tokens: 1 },
        { at: 3, tokens: 9000 },
        { at: 5, tokens: 1 },
      ]),
    ).toEqual([
      { at: 3, texts: 1, tokens: 1 },
      { at: 3, texts: 1, tokens: 9000 },
      { at: 105, texts: 1, tokens: 1 },
    ]);
  });

  it('makes 50 calls of 1000 texts that come at once, none too heavy, none too late', () => {
    const made = calls(many(1000, 1, 400));
    expect(made).toHaveLength(50);
    expect(made.every(({ texts, tokens }) => texts <= 20 && tokens <= 8192)).toBe(true);
    expect(made.reduce((sum, { texts }) => sum + texts, 0)).toBe(1000);
  });
});

describe('retries', () => {
  it('wait as long as the backoff says, with the given randomness', () => {
    const at: number[] = [];
    virtualTime(({ flush, now }) => {
      const work: BatchWork<string, string> = () => {
        at.push(now());
        return throwError(() => overloaded);
      };
      watch(
        of('a').pipe(
          batchMap(work, {
            ...repaired,
            repair: robust({ retry: { maxAttempts: 4, delayMs: 100, maxMs: 300 } }),
            random: () => 0.5,
          }),
        ),
      );
      flush();
    });
    // Half of 100, half of 200, half of 300 (the ceiling; the third would be 400).
    expect(at).toEqual([0, 50, 150, 300]);
  });

  it('wait at least as long as the server asks', () => {
    const at: number[] = [];
    const slowDown = Object.assign(new Error('slow down'), { status: 429, headers: { 'retry-after': '3' } });
    virtualTime(({ flush, now }) => {
      const work: BatchWork<string, string> = (items) => {
        at.push(now());
        return at.length === 1 ? throwError(() => slowDown) : of(items);
      };
      watch(of('a').pipe(batchMap(work, { ...repaired, random: () => 0 })));
      flush();
    });
    expect(at).toEqual([0, 3000]);
  });

  it('are bounded by the budget: of ten calls that fail together three are repeated', () => {
    let calls = 0;
    const failing: BatchWork<number, number> = (items, { attempt }) => {
      calls++;
      return defer(() => timer(10)).pipe(
        map(() => {
          if (attempt === 1) throw overloaded;
          return items;
        }),
      );
    };
    const ten = Array.from({ length: 10 }, (_, i) => i);
    const { settled } = settle(ten, failing, {
      maxSize: 1,
      concurrency: 10,
      repair: robust({ retry: { maxShare: 0.1 } }),
      random: () => 0.5,
    });
    expect(calls).toBe(13);
    expect(fulfilled(settled)).toHaveLength(3);
    expect(rejected(settled).map(({ reason }) => reason)).toEqual(Array(7).fill(new RetryShareError('batchMap', 0.1, overloaded)));
    expect(settled).toHaveLength(10);
  });

  it('have no budget by default: all ten are repeated', () => {
    const failing: BatchWork<number, number> = (items, { attempt }) =>
      timer(10).pipe(
        map(() => {
          if (attempt === 1) throw overloaded;
          return items;
        }),
      );
    const ten = Array.from({ length: 10 }, (_, i) => i);
    expect(fulfilled(settle(ten, failing, { maxSize: 1, concurrency: 10 }).settled)).toHaveLength(10);
  });

  it('are not made for calls that were cancelled, broken in shape or refused', () => {
    const errors = [new DOMException('stopped', 'AbortError'), Object.assign(new Error('who are you'), { status: 401 })];
    for (const error of errors) {
      let calls = 0;
      const { settled } = settle(['a', 'b'], () => {
        calls++;
        return throwError(() => error);
      });
      expect(calls).toBe(1);
      expect(rejected(settled).map(({ reason }) => reason)).toEqual([error, error]);
    }
  });
});

describe('splitting', () => {
  const poisoned = (bad: ReadonlySet<number>, error: (items: readonly number[]) => Error = () => badRequest) => {
    const sent: number[][] = [];
    const work: BatchWork<number, number> = (items) => {
      sent.push([...items]);
      return items.some((item) => bad.has(item)) ? throwError(() => error(items)) : of(items);
    };
    return { work, sent };
  };
  const numbers = (count: number) => Array.from({ length: count }, (_, i) => i);

  it('finds every bad item among a hundred, and costs no good one its result', () => {
    const bad = new Set([3, 50, 51, 99]);
    const { work, sent } = poisoned(bad);
    const { settled } = settle(numbers(100), work, { maxSize: 100 });
    expect(
      rejected(settled)
        .map(({ input }) => input)
        .sort((a, b) => a - b),
    ).toEqual([...bad]);
    expect(fulfilled(settled)).toHaveLength(96);
    expect(fulfilled(settled).every(({ input, value }) => input === value)).toBe(true);
    expect(sent.length).toBeLessThanOrEqual(200);
  });

  it('stops at maxCalls with an error that says so, and blames no item', () => {
    const { work, sent } = poisoned(new Set([0, 5, 10, 15]));
    const { settled } = settle(numbers(16), work, { maxSize: 16, repair: robust({ divide: { maxCalls: 6 } }) });
    expect(sent.length).toBeLessThanOrEqual(6);
    const given = rejected(settled);
    expect(given.length).toBeGreaterThan(4);
    for (const { reason } of given) {
      expect(reason).toBeInstanceOf(SplitLimitError);
      expect(reason).toMatchObject({ code: 'FLOW_SPLIT_LIMIT', maxCalls: 6, cause: badRequest });
    }
    expect(settled).toHaveLength(16);
  });

  it('needs two calls when the error names the bad item, by position', () => {
    const { work, sent } = poisoned(new Set([7]), (items) =>
      Object.assign(new Error(`input[${String(items.indexOf(7))}] is bad`), { status: 400 }),
    );
    const { settled } = settle(numbers(20), work);
    expect(sent).toHaveLength(2);
    expect(rejected(settled).map(({ input }) => input)).toEqual([7]);
    expect(fulfilled(settled)).toHaveLength(19);
  });

  it('follows blame by id too', () => {
    const { work, sent } = poisoned(new Set([7]));
    const { settled } = settle(numbers(20), work, {
      id: (item) => `item ${String(item)}`,
      classify: () => ({ class: 'itemFault', blame: ['item 7'] }),
    });
    expect(sent).toHaveLength(2);
    expect(rejected(settled)).toMatchObject([{ input: 7, id: 'item 7' }]);
  });

  it('does not trust blame that points outside the batch', () => {
    const { work, sent } = poisoned(new Set([7]));
    const { settled } = settle(numbers(8), work, { classify: () => ({ class: 'itemFault', blame: [99] }) });
    expect(sent.length).toBeGreaterThan(2);
    expect(rejected(settled).map(({ input }) => input)).toEqual([7]);
  });

  it('sends every item alone with Infinity parts', () => {
    const { work, sent } = poisoned(new Set([1]));
    settle(numbers(5), work, { repair: robust({ divide: { parts: Infinity } }) });
    expect(sent).toEqual([[0, 1, 2, 3, 4], [0], [1], [2], [3], [4]]);
  });

  it('rejects a single item that is too large', () => {
    const tooLarge = Object.assign(new Error('too large'), { status: 413 });
    const { work, sent } = poisoned(new Set([0]), () => tooLarge);
    expect(rejected(settle([0], work).settled)).toMatchObject([{ reason: tooLarge }]);
    expect(sent).toHaveLength(1);
  });

  it('cuts a batch that is too large into as many parts as the numbers in the message ask for', () => {
    const sent: number[] = [];
    const work: BatchWork<number, number> = (items, { weight }) => {
      sent.push(weight);
      if (weight > 100) return throwError(() => Object.assign(new Error(`Requested ${String(weight)} tokens, max 100`), { status: 400 }));
      return of(items);
    };
    const { settled } = settle(
      Array.from({ length: 10 }, () => 30),
      work,
      { weigh: (item) => item },
    );
    expect(sent[0]).toBe(300);
    expect(sent.slice(1).every((weight) => weight <= 120)).toBe(true);
    expect(fulfilled(settled)).toHaveLength(10);
  });
});

describe('events', () => {
  it('tell the story of one repaired batch, in order', () => {
    const events: FlowEvent[] = [];
    const work: BatchWork<string, string> = (items, { attempt, splitDepth }) =>
      timer(5).pipe(
        map(() => {
          if (attempt === 1 && splitDepth === 0) throw overloaded;
          if (items.includes('SECRET')) throw badRequest;
          return items;
        }),
      );
    settle(['a', 'SECRET'], work, {
      repair: robust({ retry: { delayMs: 10, jitter: 'none' } }),
      weigh: (item) => item.length,
      onEvent: unstamped((event) => {
        events.push(event);
      }),
    });
    const told = { operator: 'batchMap', lane: 'default' };
    expect(events).toEqual([
      { ...told, type: 'accepted', queued: 0 },
      { ...told, type: 'accepted', queued: 1 },
      { ...told, type: 'batchFormed', batchId: 'b0', reason: 'complete', size: 2, weight: 7, waitMs: 0 },
      { ...told, type: 'attemptStarted', batchId: 'b0', size: 2, weight: 7, attempt: 1, splitDepth: 0, executing: 1 },
      { ...told, type: 'attemptEnded', batchId: 'b0', size: 2, attempt: 1, outcome: 'transient', latencyMs: 5 },
      { ...told, type: 'retryScheduled', batchId: 'b0', class: 'transient', size: 2, attempt: 2, delayMs: 10 },
      { ...told, type: 'batchFormed', batchId: 'b0.1', reason: 'retry', size: 2, weight: 7, waitMs: 15 },
      { ...told, type: 'attemptStarted', batchId: 'b0.1', size: 2, weight: 7, attempt: 2, splitDepth: 0, executing: 1 },
      { ...told, type: 'attemptEnded', batchId: 'b0.1', size: 2, attempt: 2, outcome: 'itemFault', latencyMs: 5 },
      { ...told, type: 'split', batchId: 'b0.1', size: 2, parts: 2, depth: 1 },
      { ...told, type: 'batchFormed', batchId: 'b0.1.1', reason: 'split', size: 1, weight: 1, waitMs: 20 },
      { ...told, type: 'attemptStarted', batchId: 'b0.1.1', size: 1, weight: 1, attempt: 1, splitDepth: 1, executing: 1 },
      { ...told, type: 'batchFormed', batchId: 'b0.1.2', reason: 'split', size: 1, weight: 6, waitMs: 20 },
      { ...told, type: 'attemptStarted', batchId: 'b0.1.2', size: 1, weight: 6, attempt: 1, splitDepth: 1, executing: 2 },
      { ...told, type: 'attemptEnded', batchId: 'b0.1.1', size: 1, attempt: 1, outcome: 'ok', latencyMs: 5 },
      { ...told, type: 'settled', outcome: 'fulfilled', attempts: 3, totalMs: 25 },
      { ...told, type: 'attemptEnded', batchId: 'b0.1.2', size: 1, attempt: 1, outcome: 'itemFault', latencyMs: 5 },
      { ...told, type: 'settled', outcome: 'rejected', attempts: 3, totalMs: 25 },
      { type: 'drained', operator: 'batchMap' },
    ]);
    expect(JSON.stringify(events)).not.toContain('SECRET');
  });

  it('count what is given up when the consumer leaves', () => {
    const events: FlowEvent[] = [];
    const source = new Subject<string>();
    const { work } = manual();
    const { subscription } = watch(
      source.pipe(batchMap(work, { concurrency: 1, scheduler: atOnce(), onEvent: (event) => events.push(event) })),
    );
    for (const item of ['a', 'b', 'c']) source.next(item);
    events.length = 0;
    subscription.unsubscribe();
    expect(events).toMatchObject([
      { type: 'attemptEnded', outcome: 'cancelled', size: 1 },
      { type: 'cancelled', count: 2 },
    ]);
  });

  it('never contain an item, whatever becomes of it', () => {
    const events: FlowEvent[] = [];
    const secrets = Array.from({ length: 40 }, (_, i) => `SECRET ${String(i)}`);
    const work: BatchWork<string, string> = (items, { attempt }) => {
      if (items.length > 8) return throwError(() => Object.assign(new Error('SECRET input[0]'), { status: 400 }));
      return attempt === 1 ? throwError(() => overloaded) : timer(50).pipe(map(() => items));
    };
    settle(secrets, work, {
      concurrency: 1,
      maxQueued: 30,
      overflow: 'dropOldest',
      id: (item) => item,
      deadlineMs: 400,
      onEvent: (event) => {
        events.push(event);
      },
    });
    const types = new Set(events.map(({ type }) => type));
    for (const type of ['accepted', 'dropped', 'blamed', 'split', 'retryScheduled', 'expired', 'settled'] as const)
      expect(types).toContain(type);
    expect(JSON.stringify(events)).not.toContain('SECRET');
  });
});

describe('timers', () => {
  const pendingAfter = (options: BatchMapOptions<string>, act: (source: Subject<string>, leave: () => void) => void) =>
    virtualTime(({ advance, pending }) => {
      const source = new Subject<string>();
      const { subscription } = watch(source.pipe(batchMap((items) => timer(10).pipe(map(() => items)), options)));
      source.next('a');
      act(source, () => {
        subscription.unsubscribe();
      });
      advance(20);
      const left = pending();
      subscription.unsubscribe();
      return left;
    });

  it('are gone once everything has settled, however far away the deadlines are', () => {
    const options = { deadlineMs: 3_600_000, timeoutMs: 3_600_000 };
    expect(pendingAfter(options, () => undefined)).toBe(0);
    expect(
      pendingAfter(options, (source) => {
        source.next('b');
      }),
    ).toBe(0);
  });

  it('are gone after the consumer has left, in every state', () => {
    const states: BatchMapOptions<string>[] = [
      {},
      { scheduler: atOnce() },
      { window: fixed(3_600_000) },
      { deadlineMs: 3_600_000 },
      { concurrency: 1, maxSize: 1 },
    ];
    for (const options of states) {
      expect(
        pendingAfter(options, (source, leave) => {
          source.next('b');
          leave();
        }),
      ).toBe(0);
    }
  });

  it('are gone after the consumer has left during a pause', () => {
    virtualTime(({ advance, pending }) => {
      const seen = watch(
        of('a').pipe(
          batchMap(() => throwError(() => overloaded), { ...repaired, repair: robust({ retry: { delayMs: 60_000 } }), random: () => 1 }),
        ),
      );
      advance(10);
      expect(pending()).toBe(1);
      seen.subscription.unsubscribe();
      expect(pending()).toBe(0);
    });
  });

  it('leave nothing on the host, a thousand subscriptions later', () => {
    const count = (): number => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
    const before = count();
    for (let i = 0; i < 1000; i++) {
      const source = new Subject<string>();
      const { subscription } = watch(source.pipe(batchMap(() => NEVER, { scheduler: atOnce(), deadlineMs: 60_000 })));
      source.next('a');
      subscription.unsubscribe();
      expect(source.observed).toBe(false);
    }
    expect(count()).toBe(before);
  });
});

describe('lanes', () => {
  const three = [{ name: 'urgent', maxWaitMs: 0 }, { name: 'normal' }, { name: 'background' }];

  it('keep an urgent item waiting for one call at most, however long the queue is', () => {
    virtualTime(({ advance, flush, now }) => {
      const done = new Map<string, number>();
      const worker = createWorker({ marbles: '-- 98ms (r|)', answer: (items: readonly string[]) => items });
      const source = new Subject<string>();
      source
        .pipe(
          batchMap(worker.work, { queue: lanes(three, { by: (item: string) => item.split(' ')[0] ?? '' }), maxSize: 5, concurrency: 1 }),
        )
        .subscribe((settled) => done.set(settled.input, now()));
      for (let i = 0; i < 100; i++) source.next(`background ${String(i)}`);
      advance(50);
      source.next('urgent question');
      flush();
      expect(done.get('urgent question')).toBe(200);
      expect(done.size).toBe(101);
    });
  });

  it('serve the least urgent one in ten places, by its floor, however much is urgent', () => {
    const sent: string[][] = [];
    settle(
      [...Array.from({ length: 100 }, () => 'urgent'), ...Array.from({ length: 10 }, () => 'background')],
      (items) => {
        sent.push([...items]);
        return timer(1).pipe(map(() => items));
      },
      { queue: lanes(three, { by: (item: string) => item }), maxSize: 10, concurrency: 1, window: natural() },
    );
    const served = sent.slice(0, 10).flat();
    expect(served.filter((item) => item === 'background').length).toBeGreaterThanOrEqual(7);
  });

  it('put an item that names none into the last', () => {
    const events: FlowEvent[] = [];
    settle(['a'], echo, { queue: lanes(three), onEvent: (event) => events.push(event) });
    expect(events[0]).toMatchObject({ type: 'accepted', lane: 'background' });
  });
});

const SECRET = 'sk-very-secret';
const broken = new Error('the work broke');
const reasons = (settled: readonly Settled<unknown, unknown>[]): unknown[] =>
  settled.map((one) => (one.status === 'rejected' ? one.reason : undefined));

describe('a retry', () => {
  it('is made when no other call is under way and there is no budget to keep', () => {
    let calls = 0;
    const work: BatchWork<string, string> = (items) => (calls++ === 0 ? throwError(() => overloaded) : of(items));
    const { settled } = settle(['a'], work, { random: () => 1 });
    expect(settled).toMatchObject([{ status: 'fulfilled', value: 'a', attempts: 2 }]);
  });

  it('rejects its items, and loses none, when random throws', () => {
    const cause = new Error('no entropy');
    const random = (): number => {
      throw cause;
    };
    const { settled, completed } = settle(['a'], () => throwError(() => overloaded), { random });
    expect(reasons(settled)).toMatchObject([{ code: 'FLOW_CALLBACK', callback: 'random', cause }]);
    expect(completed()).toBe(true);
  });

  it.each([-1, 2, NaN, '0.5'])('rejects its items when random answers %o', (answer) => {
    const { settled } = settle(['a'], () => throwError(() => overloaded), { random: () => answer as number });
    expect(reasons(settled)).toMatchObject([{ code: 'FLOW_CALLBACK', callback: 'random' }]);
  });
});

describe('a callback that answers text where a number is due', () => {
  it('rejects the item when it is weigh, without showing the text', () => {
    const { settled } = settle(['a', 'b'], echo, { weigh: (item) => (item === 'a' ? (SECRET as never) : 1) });
    const [rejected] = settled.filter(({ input }) => input === 'a');
    expect(rejected).toMatchObject({ reason: { code: 'FLOW_CALLBACK', callback: 'weigh' } });
    expect(String((rejected as { reason: unknown }).reason)).not.toContain(SECRET);
    expect(settled.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
  });

  it('rejects an item whose weight is a number in quotes', () => {
    expect(reasons(settle(['a'], echo, { weigh: () => '5' as never }).settled)).toMatchObject([{ code: 'FLOW_CALLBACK' }]);
  });

  it('rejects the item when it is deadlineMs', () => {
    const { settled } = settle(['a'], echo, { deadlineMs: () => '500' as never });
    expect(reasons(settled)).toMatchObject([{ code: 'FLOW_CALLBACK', callback: 'deadlineMs' }]);
  });

  it('errors the stream when it is window', () => {
    const { errors } = virtualTime(({ flush }) => {
      const seen = watch(concat(of('a'), NEVER).pipe(batchMap(echo, { window: () => SECRET as never })));
      flush();
      return seen;
    });
    expect(errors).toMatchObject([{ code: 'FLOW_CALLBACK', callback: 'window' }]);
    expect(String(errors[0])).not.toContain(SECRET);
  });
});

describe('a classifier whose answer is nonsense in part', () => {
  it.each([-1, NaN, Infinity, 'soon'])('retryAfterMs %o is ignored', (retryAfterMs) => {
    let calls = 0;
    const work: BatchWork<string, string> = (items) => (calls++ === 0 ? throwError(() => broken) : of(items));
    const { settled } = settle(['a'], work, { classify: () => ({ class: 'throttled', retryAfterMs: retryAfterMs as number }) });
    // Sent twice: a refusal takes no attempt.
    expect(settled).toMatchObject([{ status: 'fulfilled', attempts: 1 }]);
    expect(calls).toBe(2);
  });

  it.each([3, 'a', {}])('blame %o is ignored', (blame) => {
    const { settled } = settle(['a', 'b'], () => throwError(() => broken), {
      classify: () => ({ class: 'itemFault', blame: blame as never }),
    });
    expect(reasons(settled)).toEqual([broken, broken]);
  });
});

describe('a wrong option', () => {
  it('is refused when the limiter is null', () => {
    expect(() => batchMap(echo, { limiter: null as never })).toThrow(FlowConfigError);
  });

  it('is refused when the scheduler is a number, before anything is subscribed to', () => {
    expect(() => batchMap(echo, { scheduler: 5 as never })).toThrow('batchMap: expected `scheduler` to be an rxjs scheduler');
  });

  it('is named by batchMapFrom when it is no object', () => {
    expect(() => batchMapFrom(['a'], echo, 5 as never)).toThrow('batchMapFrom: expected `options` to be an object');
    expect(() => batchMapFrom(['a'], echo, null as never)).toThrow('batchMapFrom: expected `options` to be an object');
  });
});

describe('batchMap and createBatcher at their edges', () => {
  it('takes an attempt that timed out for timed out, whatever the work says when its signal aborts', () => {
    const scheduler = new VirtualTimeScheduler();
    const classes: unknown[] = [];
    const settled: Settled<string, string>[] = [];
    const outcomes: string[] = [];
    const work = (_items: readonly string[], { signal }: CallContext): Observable<string[]> =>
      new Observable((subscriber) => {
        signal.addEventListener('abort', () => {
          subscriber.error(new Error('aborted in the middle'));
        });
      });
    of('a', 'b')
      .pipe(
        batchMap(work, {
          scheduler,
          timeoutMs: 50,
          repair: divideAndConquer(),
          classify: (error): Verdict => {
            classes.push((error as { code?: string }).code);
            return { class: 'fatal' };
          },
          onEvent: (event) => {
            if (event.type === 'attemptEnded') outcomes.push(event.outcome);
          },
        }),
      )
      .subscribe((result) => settled.push(result));
    scheduler.flush();
    expect(classes).toEqual(['FLOW_ATTEMPT_TIMEOUT']);
    expect(settled.map((result) => (result as { reason?: { code?: string } }).reason?.code)).toEqual([
      'FLOW_ATTEMPT_TIMEOUT',
      'FLOW_ATTEMPT_TIMEOUT',
    ]);
    expect(outcomes).toHaveLength(1);
  });

  it('ends a call whose callers have all left once, even when the work errors because of it', () => {
    const scheduler = new VirtualTimeScheduler();
    const ended: string[] = [];
    const work = (_items: readonly string[], { signal }: CallContext): Observable<string[]> =>
      new Observable((subscriber) => {
        signal.addEventListener('abort', () => {
          subscriber.error(new Error('aborted in the middle'));
        });
      });
    const batcher = createBatcher(work, {
      scheduler: atOnce(scheduler),
      classify: classifyError,
      repair: robust(),
      maxSize: 1,
      onEvent: (event) => {
        if (event.type === 'attemptEnded') ended.push(event.outcome);
      },
    });
    const load = batcher.load('a').subscribe();
    load.unsubscribe();
    expect(ended).toEqual(['cancelled']);
  });

  it('settles a load when the listener of its overflow closes the batcher', () => {
    const scheduler = new VirtualTimeScheduler();
    const seen: string[] = [];
    const batcher = createBatcher((items: readonly string[]) => of(items.map((item) => item.toUpperCase())), {
      scheduler,
      maxQueued: 1,
      overflow: 'dropOldest',
      window: fixed(100),
    });
    const listen = (name: string, then?: () => void): void => {
      batcher.load(name).subscribe({
        next: (value) => seen.push(`${name}: ${value}`),
        error: (error: unknown) => {
          seen.push(`${name}: ${String((error as { code?: string }).code)}`);
          then?.();
        },
      });
    };
    listen('a', () => {
      batcher.close();
    });
    listen('b');
    scheduler.flush();
    expect(seen).toEqual(['a: FLOW_OVERFLOW', 'b: FLOW_CLOSED']);
  });

  it('keeps the order and the bound when the caller of a dropped item comes back at once', () => {
    const scheduler = new VirtualTimeScheduler();
    const calls: (readonly string[])[] = [];
    const source = new Subject<string>();
    let again = true;
    source
      .pipe(
        batchMap(
          (items: readonly string[]) => {
            calls.push(items);
            return of(items);
          },
          { scheduler, maxQueued: 2, overflow: 'dropOldest', window: fixed(100) },
        ),
      )
      .subscribe((result) => {
        if (result.status === 'fulfilled' || !again) return;
        again = false;
        source.next('a again');
      });
    for (const item of ['a', 'b', 'c']) source.next(item);
    source.complete();
    scheduler.flush();
    // c makes a leave, a comes back behind c and makes b leave.
    expect(calls).toEqual([['c', 'a again']]);
  });

  it('has room for what it pulled, though work came back in the meantime', async () => {
    const codes: unknown[] = [];
    let give = (): void => undefined;
    const pulls = ['a', 'b', 'c'];
    const input: AsyncIterable<string> = {
      [Symbol.asyncIterator]: () => ({
        next: () => {
          const value = pulls.shift();
          if (value !== undefined) return Promise.resolve({ done: false, value });
          return new Promise((resolve) => {
            give = () => {
              resolve({ done: false, value: 'd' });
            };
          });
        },
      }),
    };
    const running: Subject<readonly string[]>[] = [];
    const subscription = batchMapFrom(
      input,
      () => {
        const call = new Subject<readonly string[]>();
        running.push(call);
        return call;
      },
      { maxQueued: 2, maxSize: 2, concurrency: 1, window: fixed(1000), classify: () => ({ class: 'itemFault' }), repair: robust() },
    ).subscribe((result) => codes.push(result.status === 'rejected' && (result.reason as { code?: string }).code));
    await new Promise((resolve) => setTimeout(resolve));
    // a and b are under way, c waits, d is being read: then a and b come back as two parts, and the queue is full.
    running[0]?.error(new Error('one of them is bad'));
    give();
    await new Promise((resolve) => setTimeout(resolve));
    subscription.unsubscribe();
    expect(running).toHaveLength(2);
    expect(codes).toEqual([]);
  });

  it('hands out what it rejects before it pulls on', () => {
    const scheduler = new VirtualTimeScheduler();
    let pulled = 0;
    function* numbers(): Generator<number> {
      for (; pulled < 10_000; pulled++) yield pulled;
    }
    batchMapFrom(numbers(), () => NEVER, {
      scheduler,
      weigh: (n) => (n < 5 ? 1 : 2),
      maxWeight: 1,
      oversize: 'reject',
      maxQueued: 5,
      concurrency: 1,
      timeoutMs: Infinity,
    })
      .pipe(takeWhile((result) => result.status === 'fulfilled'))
      .subscribe();
    scheduler.flush();
    expect(pulled).toBeLessThan(20);
  });

  it('without lanes of its own stands in the last lane of a limiter that has some', () => {
    const scheduler = new VirtualTimeScheduler();
    const limiter = createLimiter({ scheduler, queue: lanes([{ name: 'fast' }, { name: 'slow' }]) });
    const values: unknown[] = [];
    of('a')
      .pipe(batchMap((items: readonly string[]) => of(items), { scheduler, limiter }))
      .subscribe((result) => values.push(result.status));
    scheduler.flush();
    expect(values).toEqual(['fulfilled']);
  });

  it('does not drop from other lanes what cannot make room in a full lane', () => {
    const scheduler = new VirtualTimeScheduler();
    const dropped: string[] = [];
    const source = new Subject<string>();
    source
      .pipe(
        batchMap((items: readonly string[]) => of(items), {
          scheduler,
          queue: lanes([{ name: 'p0', maxQueued: 1, overflow: 'dropLowest' }, { name: 'p1' }], { by: (item: string) => item.slice(0, 2) }),
          window: fixed(100),
        }),
      )
      .subscribe((result) => {
        if (result.status === 'rejected') dropped.push(result.input);
      });
    for (const item of ['p1 a', 'p1 b', 'p0 a', 'p0 b']) source.next(item);
    source.complete();
    scheduler.flush();
    expect(dropped).toEqual(['p0 b']);
  });

  it('sends one item for equal loads, though one of them comes while the other is being accepted', () => {
    const scheduler = new VirtualTimeScheduler();
    const sent: string[] = [];
    const batcher = createBatcher(
      (items: readonly string[]) => {
        sent.push(...items);
        return of(items);
      },
      { scheduler, dedupe: (item) => item, maxQueued: 1, overflow: 'dropOldest', window: fixed(100) },
    );
    const loadB = (): void => {
      batcher.load('b').subscribe();
    };
    batcher.load('a').subscribe({ error: loadB });
    loadB();
    scheduler.flush();
    expect(sent).toEqual(['b']);
  });

  it('leaves a call its caller gives up while it is being made', () => {
    const scheduler = new VirtualTimeScheduler();
    const controller = new AbortController();
    let calls = 0;
    const batcher = createBatcher(
      () => {
        calls++;
        controller.abort();
        return throwError(() => new Error('busy'));
      },
      { scheduler: atOnce(scheduler), maxSize: 1, window: natural(), classify: () => ({ class: 'transient' }), repair: robust() },
    );
    batcher.load('a', { signal: controller.signal }).subscribe({ error: () => undefined });
    scheduler.flush();
    expect(calls).toBe(1);
  });

  it('checks every concurrency an Observable gives, and says where it comes from', () => {
    const scheduler = new VirtualTimeScheduler();
    const concurrency = new Subject<number>();
    const errors: unknown[] = [];
    const batcher = createBatcher((items: readonly string[]) => of(items), { scheduler, concurrency });
    batcher.load('a').subscribe({ error: (error: unknown) => errors.push(error) });
    concurrency.next(0);
    expect(errors).toMatchObject([{ code: 'FLOW_CONFIG_INVALID', operator: 'createBatcher' }]);
  });

  it('ends with the fault of its window, though another lane does not wait for a window', () => {
    const scheduler = new VirtualTimeScheduler();
    const options = {
      scheduler,
      queue: lanes([{ name: 'urgent', maxWaitMs: 0 }, { name: 'rest' }], { by: (item: string) => (item === 'a' ? 'urgent' : 'rest') }),
      window: (): number => {
        throw new Error('no rule');
      },
    };
    const seen: string[] = [];
    const batcher = createBatcher((items: readonly string[]) => of(items), options);
    const code = (error: unknown): string => String((error as { code?: string }).code);
    for (const item of ['a', 'b']) batcher.load(item).subscribe({ error: (error: unknown) => seen.push(`${item}: ${code(error)}`) });
    const source = new Subject<string>();
    source
      .pipe(batchMap((items: readonly string[]) => of(items), options))
      .subscribe({ error: (error: unknown) => seen.push(`stream: ${code(error)}`) });
    source.next('a');
    source.next('b');
    scheduler.flush();
    expect(seen.sort()).toEqual(['a: FLOW_CALLBACK', 'b: FLOW_CALLBACK', 'stream: FLOW_CALLBACK']);
  });
});
