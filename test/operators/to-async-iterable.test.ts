import { concat, defer, EMPTY, NEVER, Observable, of, range, Subject, share, throwError } from 'rxjs';
import { describe, expect, it, vi } from 'vitest';
import type { FlowEvent, ToAsyncIterableOptions } from '../../operators/index.js';
import { batchMapFrom, FlowConfigError, OverflowError, toAsyncIterable } from '../../operators/index.js';
import type { ObservableIterator } from '../../operators/to-async-iterable.js';
import { expectNoUnhandledRejections, settle } from '../support/rejections.js';

expectNoUnhandledRejections();

const fault = new Error('broken');
const iteratorOf = <T>(...args: Parameters<typeof toAsyncIterable<T>>) => toAsyncIterable(...args)[Symbol.asyncIterator]();

/** What `next()` answered, in one word or value. */
async function outcome(pull: Promise<IteratorResult<unknown, undefined>>): Promise<unknown> {
  try {
    const { done, value } = await pull;
    return done === true ? 'done' : value;
  } catch (error) {
    return { error };
  }
}

async function collect(iterable: AsyncIterable<unknown>): Promise<unknown[]> {
  const seen: unknown[] = [];
  try {
    for await (const value of iterable) seen.push(value);
  } catch (error) {
    seen.push({ error });
  }
  return seen;
}

describe('toAsyncIterable, as every operator is asked', () => {
  it('waits for a source that says nothing, and leaves it', async () => {
    const iterator = iteratorOf(NEVER);
    const pending = outcome(iterator.next());
    await iterator.return();
    expect(await pending).toBe('done');
  });

  it('ends on an empty source', async () => {
    expect(await collect(toAsyncIterable(EMPTY))).toEqual([]);
  });

  it('reads the only value', async () => {
    expect(await collect(toAsyncIterable(of('a')))).toEqual(['a']);
  });

  it('reads all values in order', async () => {
    const source = new Subject<number>();
    const seen = collect(toAsyncIterable(source));
    for (const n of [1, 2, 3]) source.next(n);
    await settle();
    source.next(4);
    source.complete();
    expect(await seen).toEqual([1, 2, 3, 4]);
  });

  it('tells the error of the source as the same object, after the values that wait', async () => {
    const iterator = iteratorOf(
      concat(
        of(1, 2, 3),
        throwError(() => fault),
      ),
    );
    const outcomes = [];
    for (let i = 0; i < 5; i++) outcomes.push(await outcome(iterator.next()));
    expect(outcomes).toEqual([1, 2, 3, { error: fault }, 'done']);
    expect((outcomes[3] as { error: unknown }).error).toBe(fault);
  });

  it('leaves the source when the loop is left', async () => {
    const source = new Subject<number>();
    const seen: number[] = [];
    const reading = (async () => {
      for await (const n of toAsyncIterable(source)) {
        seen.push(n);
        if (n === 2) break;
      }
    })();
    for (const n of [1, 2, 3]) source.next(n);
    await reading;
    expect(seen).toEqual([1, 2]);
    expect(source.observed).toBe(false);
  });

  it('goes on without a listener that throws', async () => {
    const onEvent = () => {
      throw fault;
    };
    expect(await collect(toAsyncIterable(range(0, 10), { maxQueued: 2, overflow: 'dropNewest', onEvent }))).toEqual([0, 1, 2]);
  });

  it('reads what a source says inside subscribe', async () => {
    expect(await collect(toAsyncIterable(range(0, 1001)))).toEqual(Array.from({ length: 1001 }, (_, n) => n));
  });

  it('reads what is sent while a value is handed over', async () => {
    const source = new Subject<number>();
    const iterator = iteratorOf(source);
    const first = iterator.next().then(({ value }) => {
      source.next(2);
      source.next(3);
      return value;
    });
    source.next(1);
    expect(await first).toBe(1);
    expect([await outcome(iterator.next()), await outcome(iterator.next())]).toEqual([2, 3]);
    await iterator.return();
  });
});

describe('an iterator of toAsyncIterable', () => {
  it('subscribes at the first next(), and not before', async () => {
    const source = new Subject<number>();
    const iterator = iteratorOf(source);
    expect(source.observed).toBe(false);
    const first = iterator.next();
    expect(source.observed).toBe(true);
    source.next(1);
    expect(await first).toEqual({ done: false, value: 1 });
    await iterator.return();
  });

  it('is a subscription of its own', async () => {
    let subscriptions = 0;
    const source = new Observable<number>((subscriber) => {
      subscriptions++;
      subscriber.next(subscriptions);
      subscriber.complete();
    });
    const iterable = toAsyncIterable(source);
    expect([await collect(iterable), await collect(iterable)]).toEqual([[1], [2]]);
  });

  it('answers several pending calls in order, and the end to those left over', async () => {
    const source = new Subject<number>();
    const iterator = iteratorOf(source);
    const pending = [1, 2, 3, 4].map(() => outcome(iterator.next()));
    source.next(1);
    source.next(2);
    source.complete();
    expect(await Promise.all(pending)).toEqual([1, 2, 'done', 'done']);
  });

  it('tells an error to one of the pending calls only', async () => {
    const source = new Subject<number>();
    const iterator = iteratorOf(source);
    const pending = [1, 2, 3].map(() => outcome(iterator.next()));
    source.error(fault);
    expect(await Promise.all(pending)).toEqual([{ error: fault }, 'done', 'done']);
    expect(await outcome(iterator.next())).toBe('done');
  });

  it('gives each value to one of two loops that share it', async () => {
    const source = new Subject<number>();
    const iterator = iteratorOf(source);
    const loops = [collect(iterator), collect(iterator)];
    for (let n = 0; n < 10; n++) {
      source.next(n);
      if (n % 3 === 0) await settle();
    }
    source.complete();
    const [first = [], second = []] = await Promise.all(loops);
    expect(first.length * second.length).toBeGreaterThan(0);
    expect([...first, ...second].sort((a, b) => Number(a) - Number(b))).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  });

  it('ends a second loop at once when it is over', async () => {
    const iterator = iteratorOf(of(1, 2));
    expect([await collect(iterator), await collect(iterator)]).toEqual([[1, 2], []]);
  });

  it('leaves the source before return() comes back, drops what waits, and ends pending calls', async () => {
    const source = new Subject<number>();
    const events: FlowEvent[] = [];
    const iterator = iteratorOf(source, { onEvent: (event) => events.push(event) });
    const first = outcome(iterator.next());
    for (const n of [1, 2, 3]) source.next(n);
    const returned = iterator.return();
    expect(source.observed).toBe(false);
    expect(events).toEqual([{ type: 'cancelled', operator: 'toAsyncIterable', lane: 'default', count: 2 }]);
    expect([await first, await returned, await outcome(iterator.next())]).toEqual([1, { done: true, value: undefined }, 'done']);
    await iterator.return();
    expect(events).toHaveLength(1);

    const waiting = iteratorOf(source);
    const pending = [outcome(waiting.next()), outcome(waiting.next())];
    void waiting.return();
    expect(source.observed).toBe(false);
    expect(await Promise.all(pending)).toEqual(['done', 'done']);
  });

  it('never subscribes after a return() before the first next()', async () => {
    const source = new Subject<number>();
    const iterator = iteratorOf(source);
    await iterator.return();
    expect(await outcome(iterator.next())).toBe('done');
    expect(source.observed).toBe(false);
  });

  it('leaves the source on throw(), and hands the error back', async () => {
    const source = new Subject<number>();
    const iterator = iteratorOf(source);
    const pending = outcome(iterator.next());
    const thrown = iterator.throw(fault);
    expect(source.observed).toBe(false);
    await expect(thrown).rejects.toBe(fault);
    expect([await pending, await outcome(iterator.next())]).toEqual(['done', 'done']);
  });

  it('leaves the source at the end of an `await using` block', async () => {
    const source = new Subject<number>();
    const iterator = iteratorOf(source);
    const pending = outcome(iterator.next());
    const disposed = iterator[Symbol.asyncDispose]();
    expect(source.observed).toBe(false);
    await disposed;
    expect(await pending).toBe('done');
  });

  it('hands on undefined, and promises as they are', async () => {
    const promise = Promise.resolve(1);
    const iterator = iteratorOf<unknown>(of(undefined, promise));
    expect(await iterator.next()).toEqual({ done: false, value: undefined });
    expect((await iterator.next()).value).toBe(promise);
    expect(await outcome(iterator.next())).toBe('done');
  });

  it('drops an error that no reader asked for', async () => {
    const source = new Subject<number>();
    const iterator = iteratorOf(source);
    const first = iterator.next();
    source.next(1);
    await first;
    source.error(fault);
    await settle();
    await iterator.return();
    expect(await outcome(iterator.next())).toBe('done');
  });
});

describe('the signal of toAsyncIterable', () => {
  it('rejects the pending call with its reason, an AbortError, and leaves the source at once', async () => {
    const source = new Subject<number>();
    const controller = new AbortController();
    const iterator = iteratorOf(source, { signal: controller.signal });
    const pending = [outcome(iterator.next()), outcome(iterator.next())];
    controller.abort();
    expect(source.observed).toBe(false);
    const { reason } = controller.signal as { reason: unknown };
    expect(await Promise.all(pending)).toEqual([{ error: reason }, 'done']);
    expect(controller.signal.reason).toHaveProperty('name', 'AbortError');
    expect(await outcome(iterator.next())).toBe('done');
  });

  it('drops what waits, before and after the end of the source', async () => {
    for (const isEnded of [false, true]) {
      const source = new Subject<number>();
      const controller = new AbortController();
      const iterator = iteratorOf(source, { signal: controller.signal });
      const first = outcome(iterator.next());
      for (const n of [1, 2, 3]) source.next(n);
      expect(await first).toBe(1);
      if (isEnded) source.complete();
      controller.abort(fault);
      expect([await outcome(iterator.next()), await outcome(iterator.next())]).toEqual([{ error: fault }, 'done']);
    }
  });

  it('that has aborted already keeps the source from being subscribed to', async () => {
    const source = new Subject<number>();
    const iterator = iteratorOf(source, { signal: AbortSignal.abort(fault) });
    expect([await outcome(iterator.next()), await outcome(iterator.next())]).toEqual([{ error: fault }, 'done']);
    expect(source.observed).toBe(false);
  });

  it('stops a source that emits inside subscribe', async () => {
    const controller = new AbortController();
    let made = 0;
    const source = new Observable<number>((subscriber) => {
      while (!subscriber.closed && made < 1000) {
        subscriber.next(made++);
        if (made === 3) controller.abort(fault);
      }
    });
    expect(await collect(toAsyncIterable(source, { signal: controller.signal }))).toEqual([0, { error: fault }]);
    expect(made).toBe(3);
  });

  it('has no listener of ours left at the end, whatever the end is', async () => {
    const listeners = new Set<unknown>();
    const { signal } = new AbortController();
    const add = signal.addEventListener.bind(signal);
    signal.addEventListener = (...args: Parameters<typeof add>) => {
      listeners.add(args[1]);
      add(...args);
    };
    signal.removeEventListener = (_type: string, listener: unknown) => listeners.delete(listener);
    const watched: number[] = [];
    for (const source of [EMPTY, throwError(() => fault), NEVER]) {
      const iterator = iteratorOf(source, { signal });
      const pending = outcome(iterator.next());
      watched.push(listeners.size);
      void iterator.return();
      await pending;
    }
    expect(watched).toEqual([0, 0, 1]);
    expect(listeners.size).toBe(0);
  });
});

describe('a queue of toAsyncIterable that is full', () => {
  async function overflowing(overflow?: 'error' | 'dropOldest' | 'dropNewest' | 'latest') {
    const source = new Subject<number>();
    const events: FlowEvent[] = [];
    const iterator = iteratorOf(source, { maxQueued: 2, ...(overflow && { overflow }), onEvent: (event) => events.push(event) });
    const first = outcome(iterator.next());
    for (const n of [0, 1, 2, 3, 4]) source.next(n);
    const isOpen = source.observed;
    source.complete();
    const read = [await first];
    for (let last: unknown; last !== 'done'; read.push(last)) last = await outcome(iterator.next());
    return { read, isOpen, events };
  }
  const dropped = (policy: string) => ({ type: 'dropped', operator: 'toAsyncIterable', lane: 'default', policy });

  it('leaves the source at once by default, and tells so after the values that wait', async () => {
    const { read, isOpen, events } = await overflowing();
    expect([read.slice(0, 3), isOpen, events]).toEqual([[0, 1, 2], false, [dropped('error')]]);
    const { error } = read[3] as { error: OverflowError };
    expect(error).toBeInstanceOf(OverflowError);
    expect(error).toMatchObject({ code: 'FLOW_OVERFLOW', operator: 'toAsyncIterable', limit: 2, policy: 'error' });
    expect(read[4]).toBe('done');
  });

  it('drops the oldest value, the newest, or all but the newest', async () => {
    expect(await overflowing('dropOldest')).toEqual({
      read: [0, 3, 4, 'done'],
      isOpen: true,
      events: [dropped('dropOldest'), dropped('dropOldest')],
    });
    expect(await overflowing('dropNewest')).toEqual({
      read: [0, 1, 2, 'done'],
      isOpen: true,
      events: [dropped('dropNewest'), dropped('dropNewest')],
    });
    expect(await overflowing('latest')).toEqual({ read: [0, 3, 4, 'done'], isOpen: true, events: [dropped('latest'), dropped('latest')] });
  });

  it('is never full with maxQueued Infinity', async () => {
    expect(await collect(toAsyncIterable(range(0, 100_000), { maxQueued: Infinity }))).toHaveLength(100_000);
  });

  it('stops a source that emits inside subscribe', async () => {
    let made = 0;
    const source = new Observable<number>((subscriber) => {
      while (!subscriber.closed && made < 100_000) subscriber.next(made++);
    });
    const read = await collect(toAsyncIterable(source, { maxQueued: 10 }));
    expect(read).toHaveLength(12);
    expect(made).toBe(12);
  });
});

describe('what toAsyncIterable is given', () => {
  it.each([null, undefined, [1], Promise.resolve(1), 'text'])('must be an Observable, not %o', (source) => {
    expect(() => toAsyncIterable(source as never)).toThrow(FlowConfigError);
    expect(() => toAsyncIterable(source as never)).toThrow(/^toAsyncIterable: expected `source` to be an Observable, got /);
  });
});

describe('an onEvent of toAsyncIterable that does something', () => {
  async function afterFirst(options: ToAsyncIterableOptions, told: (iterator: ObservableIterator<number>) => void) {
    const source = new Subject<number>();
    const iterator = toAsyncIterable(source, {
      ...options,
      onEvent: () => {
        told(iterator);
      },
    })[Symbol.asyncIterator]();
    const first = iterator.next();
    source.next(0);
    await first;
    return { source, iterator };
  }

  it.each(['dropOldest', 'latest'] as const)('leaves for good in the middle of %s', async (overflow) => {
    const { source, iterator } = await afterFirst({ maxQueued: 1, overflow }, (own) => void own.return());
    source.next(1);
    source.next(2);
    expect(await iterator.next()).toEqual({ done: true, value: undefined });
    expect(source.observed).toBe(false);
  });

  it.each(['dropOldest', 'latest'] as const)('reads the newest value in the middle of %s', async (overflow) => {
    const read: Promise<unknown>[] = [];
    const { source } = await afterFirst({ maxQueued: 1, overflow }, (own) => read.push(own.next()));
    source.next(1);
    source.next(2);
    expect(await Promise.all(read)).toEqual([{ done: false, value: 2 }]);
  });

  it('leaves for good while the signal ends it', async () => {
    const controller = new AbortController();
    const { source, iterator } = await afterFirst({ signal: controller.signal }, (own) => void own.return());
    source.next(1);
    controller.abort();
    expect(await iterator.next()).toEqual({ done: true, value: undefined });
  });
});

describe('a job that is started while a reader subscribes', () => {
  const rows = Array.from({ length: 1000 }, (_, i) => i);
  const leaving: Record<string, (reader: AsyncIterator<number>, stop: AbortController) => unknown> = {
    return: (reader) => reader.return?.(),
    throw: (reader) => reader.throw?.(new Error('mine')).catch(() => undefined),
    abort: (_, stop) => {
      stop.abort();
    },
  };

  it.each(Object.entries(leaving))('goes on when the reader has left by %s', async (_, leave) => {
    let done = 0;
    const job = () => batchMapFrom(rows, (all) => Promise.resolve(all)).subscribe(() => done++);
    const stop = new AbortController();
    const values = defer(() => {
      job();
      return of(1, 2, 3);
    });
    const reader = toAsyncIterable(concat(values, NEVER), { signal: stop.signal })[Symbol.asyncIterator]();
    await reader.next();
    // It waits for room now.
    await new Promise((resolve) => setTimeout(resolve, 5));
    await leave(reader, stop);
    await vi.waitFor(() => {
      expect(done).toBe(rows.length);
    });
  });

  it('goes on when the source has ended and the rest is never read', async () => {
    let done = 0;
    const values = defer(() => {
      batchMapFrom(rows, (all) => Promise.resolve(all)).subscribe(() => done++);
      return of(1, 2, 3);
    });
    await toAsyncIterable(values)[Symbol.asyncIterator]().next();
    await vi.waitFor(() => {
      expect(done).toBe(rows.length);
    });
  });

  it('goes on for another subscriber when the reader of what they share has left', async () => {
    let seen = 0;
    const shared = batchMapFrom(rows, (all) => of(all)).pipe(share());
    const reader = toAsyncIterable(shared)[Symbol.asyncIterator]();
    await reader.next();
    shared.subscribe(() => seen++);
    await reader.return();
    await vi.waitFor(() => {
      expect(seen).toBeGreaterThan(800);
    });
  });
});
