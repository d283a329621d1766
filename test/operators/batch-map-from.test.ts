import type { Observable } from 'rxjs';
import { map, NEVER, of, Subject, take, timer } from 'rxjs';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { virtualTime } from '../../marbles/virtual.js';
import type { BatchWork, FlowEvent, Settled } from '../../operators/index.js';
import { batchMapFrom, classifyError, createLimiter, divideAndConquer, fixed, lanes, natural, retryFailed } from '../../operators/index.js';
import { atOnce } from '../support/at-once.js';
import { unstamped } from '../support/events.js';

/** Answers after 10 ms. */
const slow: BatchWork<number, number> = (items) => timer(10).pipe(map(() => items));
const never: BatchWork<number, number> = () => NEVER;
const echo: BatchWork<number, number> = (items) => of(items);

function watch<R>(result: Observable<Settled<number, R>>) {
  const settled: Settled<number, R>[] = [];
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

/** The three kinds of input over the same numbers, with what has been read and whether they were told to stop. */
function inputs(total: number) {
  const log = { read: 0, closed: 0 };
  function* iterable(): Generator<number> {
    try {
      while (log.read < total) yield log.read++;
    } finally {
      log.closed++;
    }
  }
  async function* asyncIterable(): AsyncGenerator<number> {
    try {
      while (log.read < total) {
        await Promise.resolve();
        yield log.read++;
      }
    } finally {
      log.closed++;
    }
  }
  const stream = (): ReadableStream<number> =>
    new ReadableStream<number>(
      {
        pull: (controller) => {
          if (log.read < total) controller.enqueue(log.read++);
          else {
            log.closed++;
            controller.close();
          }
        },
        cancel: () => {
          log.closed++;
        },
      },
      { highWaterMark: 0 },
    );
  return { log, Iterable: iterable, AsyncIterable: asyncIterable, ReadableStream: stream };
}

const KINDS = ['Iterable', 'AsyncIterable', 'ReadableStream'] as const;

describe.each(KINDS)('%s', (kind) => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it('gives every item to the work, in order', async () => {
    const input = inputs(50);
    const sent: number[] = [];
    const seen = watch(
      batchMapFrom(
        input[kind](),
        (items, context) => {
          sent.push(...items);
          return slow(items, context);
        },
        { maxSize: 8, repair: [retryFailed(), divideAndConquer()], classify: classifyError },
      ),
    );
    await vi.advanceTimersByTimeAsync(2000);
    expect(sent).toEqual(Array.from({ length: 50 }, (_, i) => i));
    expect(seen.settled.map(({ input: item }) => item).sort((a, b) => a - b)).toEqual(sent);
    expect(seen.completed()).toBe(true);
    expect(input.log.closed).toBe(1);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('is read no further than the calls under way and maxQueued', async () => {
    const input = inputs(1000);
    const seen = watch(
      batchMapFrom(input[kind](), never, {
        maxSize: 5,
        concurrency: 2,
        maxQueued: 7,
        window: fixed(50),
        repair: [retryFailed(), divideAndConquer()],
        classify: classifyError,
      }),
    );
    await vi.advanceTimersByTimeAsync(1000);
    expect(input.log.read).toBe(2 * 5 + 7);
    seen.subscription.unsubscribe();
  });

  it('is read on as calls end, never ahead', async () => {
    const input = inputs(200);
    let waiting = 0;
    let most = 0;
    const events = (event: FlowEvent): void => {
      if (event.type === 'accepted') most = Math.max(most, ++waiting);
      if (event.type === 'attemptStarted') waiting -= event.size;
    };
    const seen = watch(
      batchMapFrom(input[kind](), slow, {
        maxSize: 5,
        concurrency: 2,
        maxQueued: 7,
        onEvent: unstamped(events),
        repair: [retryFailed(), divideAndConquer()],
        classify: classifyError,
      }),
    );
    await vi.advanceTimersByTimeAsync(5000);
    expect(seen.settled).toHaveLength(200);
    expect(most).toBeLessThanOrEqual(7);
    expect(seen.settled.every(({ status }) => status === 'fulfilled')).toBe(true);
  });

  it('is closed when the consumer leaves', async () => {
    const input = inputs(1000);
    const seen = watch(
      batchMapFrom(input[kind](), never, {
        maxSize: 5,
        concurrency: 2,
        maxQueued: 7,
        window: fixed(50),
        repair: [retryFailed(), divideAndConquer()],
        classify: classifyError,
      }),
    );
    await vi.advanceTimersByTimeAsync(100);
    seen.subscription.unsubscribe();
    await vi.advanceTimersByTimeAsync(0);
    expect(input.log.closed).toBe(1);
    expect(input.log.read).toBe(17);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('is closed when the consumer has enough', async () => {
    const input = inputs(Infinity);
    const seen = watch(
      batchMapFrom(input[kind](), echo, { maxSize: 4, repair: [retryFailed(), divideAndConquer()], classify: classifyError }).pipe(
        take(10),
      ),
    );
    await vi.advanceTimersByTimeAsync(1000);
    expect(seen.settled.map(({ input: item }) => item)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    expect(seen.completed()).toBe(true);
    expect(input.log.closed).toBe(1);
    expect(input.log.read).toBeLessThanOrEqual(12);
  });

  it('is opened by the first subscription, not before', async () => {
    const input = inputs(10);
    const result = batchMapFrom(input[kind](), echo, { repair: [retryFailed(), divideAndConquer()], classify: classifyError });
    await vi.advanceTimersByTimeAsync(10);
    expect(input.log.read).toBe(0);
    watch(result);
    await vi.advanceTimersByTimeAsync(10);
    expect(input.log.read).toBe(10);
  });

  it('goes on being read while a call is repaired, and no item is refused for lack of room', async () => {
    const input = inputs(40);
    const bad = Object.assign(new Error('forbidden words'), { status: 400 });
    const work: BatchWork<number, number> = (items) =>
      timer(10).pipe(
        map(() => {
          if (items.includes(13)) throw bad;
          return items;
        }),
      );
    const seen = watch(
      batchMapFrom(input[kind](), work, {
        maxSize: 10,
        maxQueued: 10,
        concurrency: 2,
        repair: [retryFailed(), divideAndConquer()],
        classify: classifyError,
      }),
    );
    await vi.advanceTimersByTimeAsync(5000);
    expect(seen.settled.filter(({ status }) => status === 'rejected')).toMatchObject([{ input: 13, reason: bad }]);
    expect(seen.settled).toHaveLength(40);
    expect(seen.completed()).toBe(true);
  });
});

describe('an input that fails', () => {
  const fault = new Error('the disk broke');

  it('errors the result with the same object, and stops the calls, when it is an Iterable', () => {
    const signals: AbortSignal[] = [];
    function* breaking() {
      yield 1;
      yield 2;
      throw fault;
    }
    const work: BatchWork<number, number> = (_items, { signal }) => {
      signals.push(signal);
      return NEVER;
    };
    const seen = watch(
      batchMapFrom(breaking(), work, { maxSize: 1, repair: [retryFailed(), divideAndConquer()], classify: classifyError }),
    );
    expect(seen.errors).toEqual([fault]);
    expect(signals.map(({ aborted }) => aborted)).toEqual([true, true]);
  });

  it('errors the result with the same object when it is an AsyncIterable', async () => {
    async function* breaking() {
      yield 1;
      await Promise.resolve();
      throw fault;
    }
    const error = await new Promise((done) => {
      batchMapFrom(breaking(), echo, { repair: [retryFailed(), divideAndConquer()], classify: classifyError }).subscribe({ error: done });
    });
    expect(error).toBe(fault);
  });

  it('errors the result with the same object when it is a ReadableStream', async () => {
    const broken = new ReadableStream<number>({
      start: (controller) => {
        controller.error(fault);
      },
    });
    const error = await new Promise((done) => {
      batchMapFrom(broken, echo, { repair: [retryFailed(), divideAndConquer()], classify: classifyError }).subscribe({ error: done });
    });
    expect(error).toBe(fault);
  });

  it('errors the result when it cannot be opened: a stream that another reader holds', async () => {
    const taken = new ReadableStream<number>();
    taken.getReader();
    const error = await new Promise((done) => {
      batchMapFrom(taken, echo, { repair: [retryFailed(), divideAndConquer()], classify: classifyError }).subscribe({ error: done });
    });
    expect(error).toBeInstanceOf(TypeError);
  });

  it('does not disturb a consumer who has left when its closing fails', async () => {
    const unhandled: unknown[] = [];
    const listen = (reason: unknown): void => {
      unhandled.push(reason);
    };
    process.on('unhandledRejection', listen);
    const input: AsyncIterable<number> = {
      [Symbol.asyncIterator]: () => ({
        next: () => new Promise<never>(() => undefined),
        return: () => Promise.reject(fault),
      }),
    };
    const seen = watch(batchMapFrom(input, echo, { repair: [retryFailed(), divideAndConquer()], classify: classifyError }));
    seen.subscription.unsubscribe();
    await new Promise((done) => setImmediate(done));
    process.off('unhandledRejection', listen);
    expect(seen.errors).toEqual([]);
    expect(unhandled).toEqual([]);
  });
});

describe('an Iterable', () => {
  it('can be subscribed to again, a generator only once', () => {
    virtualTime(({ flush }) => {
      const again = batchMapFrom([1, 2], echo, { repair: [retryFailed(), divideAndConquer()], classify: classifyError });
      const once = batchMapFrom(inputs(2).Iterable(), echo, { repair: [retryFailed(), divideAndConquer()], classify: classifyError });
      const counts = [again, again, once, once].map((result) => {
        const seen = watch(result);
        flush();
        expect(seen.completed()).toBe(true);
        return seen.settled.length;
      });
      expect(counts).toEqual([2, 2, 2, 0]);
    });
  });

  it('of 100,000 items with work that ends at once needs no deep stack', () => {
    virtualTime(({ flush }) => {
      const seen = watch(
        batchMapFrom(inputs(1e5).Iterable(), echo, {
          maxSize: 1,
          concurrency: 1,
          scheduler: atOnce(),
          repair: [retryFailed(), divideAndConquer()],
          classify: classifyError,
        }),
      );
      flush();
      expect(seen.settled).toHaveLength(1e5);
      expect(seen.settled.every(({ index, input }) => index === input)).toBe(true);
    });
  });

  it('is not needed in full by an endless one: take(10) reads at most one batch more', () => {
    const input = inputs(Infinity);
    const seen = watch(
      batchMapFrom(input.Iterable(), echo, {
        maxSize: 4,
        scheduler: atOnce(),
        window: natural(),
        repair: [retryFailed(), divideAndConquer()],
        classify: classifyError,
      }).pipe(take(10)),
    );
    expect(seen.settled).toHaveLength(10);
    expect(input.log).toEqual({ read: 10, closed: 1 });
  });

  it('may be text, whose characters are the items', () => {
    virtualTime(({ flush }) => {
      const seen: unknown[] = [];
      batchMapFrom('héllo', (items: readonly string[]) => of(items.map((item) => item.toUpperCase())), {
        repair: [retryFailed(), divideAndConquer()],
        classify: classifyError,
      }).subscribe((settled) => seen.push(settled.status === 'fulfilled' && settled.value));
      flush();
      expect(seen).toEqual(['H', 'É', 'L', 'L', 'O']);
    });
  });
});

describe('the gate', () => {
  it('may be a shared limiter: reading stops while it grants nothing', () => {
    virtualTime(({ advance, flush }) => {
      const limiter = createLimiter({ concurrency: 1 });
      const lease = limiter.tryAcquire();
      const input = inputs(100);
      const seen = watch(
        batchMapFrom(input.Iterable(), slow, {
          limiter,
          maxSize: 5,
          maxQueued: 15,
          repair: [retryFailed(), divideAndConquer()],
          classify: classifyError,
        }),
      );
      advance(1000);
      expect(input.log.read).toBe(15);
      lease?.release();
      flush();
      expect(seen.settled).toHaveLength(100);
    });
  });

  it('may change: a higher concurrency reads on', () => {
    virtualTime(({ advance, flush }) => {
      const concurrency = new Subject<number>();
      const input = inputs(1000);
      const seen = watch(
        batchMapFrom(input.Iterable(), never, {
          concurrency,
          maxSize: 5,
          maxQueued: 10,
          repair: [retryFailed(), divideAndConquer()],
          classify: classifyError,
        }),
      );
      advance(200);
      expect(input.log.read).toBe(4 * 5 + 10);
      concurrency.next(6);
      advance(200);
      expect(input.log.read).toBe(6 * 5 + 10);
      seen.subscription.unsubscribe();
      expect(concurrency.observed).toBe(false);
      flush();
    });
  });

  it('of a closed limiter rejects everything that is read', () => {
    virtualTime(({ flush }) => {
      const limiter = createLimiter();
      limiter.close();
      const seen = watch(
        batchMapFrom([1, 2, 3], echo, {
          limiter,
          scheduler: atOnce(),
          maxSize: 1,
          repair: [retryFailed(), divideAndConquer()],
          classify: classifyError,
        }),
      );
      flush();
      expect(seen.settled.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected']);
      expect(seen.completed()).toBe(true);
    });
  });
});

describe('lanes', () => {
  it('let an urgent item that is read later go first', () => {
    virtualTime(({ flush }) => {
      const sent: number[][] = [];
      const work: BatchWork<number, number> = (items) => {
        sent.push([...items]);
        return timer(10).pipe(map(() => items));
      };
      watch(
        batchMapFrom([1, 2, 3, 100, 4], work, {
          queue: lanes([{ name: 'urgent' }, { name: 'normal' }], { by: (item) => (item >= 100 ? 'urgent' : 'normal') }),
          maxSize: 1,
          concurrency: 1,
          repair: [retryFailed(), divideAndConquer()],
          classify: classifyError,
        }),
      );
      flush();
      expect(sent).toEqual([[1], [100], [2], [3], [4]]);
    });
  });
});

describe('an iterator that keeps no rules', () => {
  const answer = 5 as unknown as IteratorResult<number>;

  it.each<[string, Iterable<number> | AsyncIterable<number>]>([
    ['at once', { [Symbol.iterator]: () => ({ next: () => answer }) }],
    ['later', { [Symbol.asyncIterator]: () => ({ next: () => Promise.resolve(answer) }) }],
  ])('is refused, as by `for…of`: %s', async (_, input) => {
    const seen = watch(batchMapFrom(input, echo));
    await Promise.resolve();
    expect(seen.settled).toEqual([]);
    expect(seen.errors).toEqual([new TypeError('`next` of the iterator must return an object')]);
  });
});
