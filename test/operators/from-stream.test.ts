import type { ServerResponse } from 'node:http';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Observable } from 'rxjs';
import { config, lastValueFrom, Subject, switchMap, take, toArray } from 'rxjs';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { StreamLike } from '../../operators/index.js';
import { CallbackError, FlowConfigError, fromStream } from '../../operators/index.js';

/** Lets every promise that can settle do so. */
async function settle(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
}

function watch<T>(source: Observable<T>) {
  const seen: unknown[] = [];
  const subscription = source.subscribe({
    next: (value) => seen.push(value),
    error: (error: unknown) => seen.push({ error }),
    complete: () => seen.push('complete'),
  });
  return { seen, subscription };
}

async function* numbers(upTo: number, pulled: number[] = []) {
  for (let i = 0; i < upTo; i++) {
    pulled.push(i);
    yield i;
    await Promise.resolve();
  }
}

/** A stream by hand: yields what it is given, then stalls; knows when it was closed. */
function stalling<T>(values: readonly T[]) {
  const state = { pulls: 0, returned: 0, rejectPull: (_error: unknown): void => undefined };
  const stream: AsyncIterable<T> = {
    [Symbol.asyncIterator]: () => ({
      next: () => {
        const at = state.pulls++;
        if (at < values.length) return Promise.resolve({ done: false, value: values[at] as T });
        return new Promise((_resolve, reject) => {
          state.rejectPull = reject;
        });
      },
      return: () => {
        state.returned++;
        return new Promise(() => undefined);
      },
    }),
  };
  return { state, stream };
}

const unhandled: unknown[] = [];
const late: unknown[] = [];
const collect = (reason: unknown): void => {
  unhandled.push(reason);
};

beforeEach(() => {
  process.on('unhandledRejection', collect);
  config.onStoppedNotification = (notification) => late.push(notification);
});

afterEach(async () => {
  await settle();
  process.off('unhandledRejection', collect);
  config.onStoppedNotification = null;
  expect(unhandled.splice(0)).toEqual([]);
  expect(late.splice(0)).toEqual([]);
});

describe('fromStream over async iterables', () => {
  it('emits the chunks and completes', async () => {
    expect(await lastValueFrom(fromStream(() => numbers(3)).pipe(toArray()))).toEqual([0, 1, 2]);
  });

  it('takes a promise of a stream', async () => {
    expect(await lastValueFrom(fromStream(() => Promise.resolve(numbers(2))).pipe(toArray()))).toEqual([0, 1]);
  });

  it('emits the only chunk of a stream', async () => {
    const { seen } = watch(fromStream(() => numbers(1)));
    await settle();
    expect(seen).toEqual([0, 'complete']);
  });

  it('leaves a stream that always has its next chunk ready as soon as the consumer has enough', async () => {
    let pulls = 0;
    let closed = 0;
    const ready: AsyncIterable<number> = {
      [Symbol.asyncIterator]: () => ({
        next: () => Promise.resolve({ done: false, value: pulls++ }),
        return: () => {
          closed++;
          return Promise.resolve({ done: true, value: undefined });
        },
      }),
    };
    const { seen } = watch(fromStream(() => ready).pipe(take(3)));
    await settle();
    expect([seen, pulls, closed]).toEqual([[0, 1, 2, 'complete'], 3, 1]);
  });

  it('emits what the consumer puts into the stream while it is handed a chunk', async () => {
    const waiting = ['a'];
    const stream = async function* () {
      for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) yield await Promise.resolve(next);
    };
    const seen: string[] = [];
    fromStream(stream).subscribe((chunk) => {
      if (chunk === 'a') waiting.push('b', 'c');
      seen.push(chunk);
    });
    await settle();
    expect(seen).toEqual(['a', 'b', 'c']);
  });

  it('completes on an empty stream', async () => {
    const { seen } = watch(fromStream(() => numbers(0)));
    await settle();
    expect(seen).toEqual(['complete']);
  });

  it('opens a new stream for every subscription, while subscribing', async () => {
    const signals: AbortSignal[] = [];
    const source = fromStream((signal) => {
      signals.push(signal);
      return numbers(2);
    });
    expect(signals).toHaveLength(0);
    const first = watch(source);
    const second = watch(source);
    expect(signals).toHaveLength(2);
    expect(signals[0]).not.toBe(signals[1]);
    await settle();
    expect([first.seen, second.seen]).toEqual([
      [0, 1, 'complete'],
      [0, 1, 'complete'],
    ]);
    expect(signals.map(({ aborted }) => aborted)).toEqual([false, false]);
  });

  it('stops pulling when the consumer has enough', async () => {
    const pulled: number[] = [];
    let ended = false;
    const source = fromStream(async function* () {
      try {
        yield* numbers(100, pulled);
      } finally {
        ended = true;
      }
    });
    expect(await lastValueFrom(source.pipe(take(2), toArray()))).toEqual([0, 1]);
    await settle();
    expect(pulled).toEqual([0, 1]);
    expect(ended).toBe(true);
  });

  it('asks for a chunk only after the last one was taken', async () => {
    const order: string[] = [];
    const source = fromStream(async function* () {
      for (let i = 0; i < 2; i++) {
        order.push(`pull ${String(i)}`);
        yield await Promise.resolve(i);
      }
    });
    source.subscribe((value) => order.push(`take ${String(value)}`));
    await settle();
    expect(order).toEqual(['pull 0', 'take 0', 'pull 1', 'take 1']);
  });

  it('aborts a stalled stream in the moment of leaving, and closes it without waiting', async () => {
    const { state, stream } = stalling(['a']);
    let signal: AbortSignal | undefined;
    const aborts: unknown[] = [];
    const { seen, subscription } = watch(
      fromStream((given) => {
        signal = given;
        given.addEventListener('abort', () => aborts.push(given.reason));
        return stream;
      }),
    );
    await settle();
    expect([seen, state.pulls, state.returned, signal?.aborted]).toEqual([['a'], 2, 0, false]);
    subscription.unsubscribe();
    expect([state.returned, signal?.aborted, aborts.length]).toEqual([1, true, 1]);
    expect(aborts[0]).toBeInstanceOf(DOMException);
    expect(aborts[0]).toHaveProperty('name', 'AbortError');
    state.rejectPull(new Error('too late'));
    await settle();
    subscription.unsubscribe();
    expect([seen, state.returned, aborts.length]).toEqual([['a'], 1, 1]);
  });

  it('ends a generator that listens to the signal', async () => {
    const order: string[] = [];
    const { seen, subscription } = watch(
      fromStream(async function* (signal: AbortSignal) {
        try {
          yield 'a';
          await new Promise((_resolve, reject) => {
            signal.addEventListener('abort', () => {
              reject(signal.reason as Error);
            });
          });
        } finally {
          order.push('closed');
        }
      }),
    );
    await settle();
    subscription.unsubscribe();
    await settle();
    expect([seen, order]).toEqual([['a'], ['closed']]);
  });

  it('does not abort a stream that ended by itself', async () => {
    const aborted = vi.fn();
    const { stream, state } = stalling<string>([]);
    const fault = new Error('broken');
    const sources = [() => numbers(1), () => stream].map((make) =>
      fromStream<number | string>((signal) => {
        signal.addEventListener('abort', aborted);
        return make();
      }),
    );
    const watched = sources.map(watch);
    await settle();
    state.rejectPull(fault);
    await settle();
    for (const { subscription } of watched) subscription.unsubscribe();
    expect(watched.map(({ seen }) => seen)).toEqual([[0, 'complete'], [{ error: fault }]]);
    expect(aborted).not.toHaveBeenCalled();
    expect(state.returned).toBe(0);
  });

  it.each<[string, (fault: Error) => (signal: AbortSignal) => StreamLike<number> | Promise<StreamLike<number>>]>([
    [
      'the factory throws',
      (fault) => () => {
        throw fault;
      },
    ],
    ['the factory rejects', (fault) => () => Promise.reject(fault)],
    [
      'the iterable throws',
      (fault) => () => ({
        [Symbol.asyncIterator]: () => {
          throw fault;
        },
      }),
    ],
    [
      'the iterator throws',
      (fault) => () => ({
        [Symbol.asyncIterator]: () => ({
          next: () => {
            throw fault;
          },
        }),
      }),
    ],
    ['the iterator rejects', (fault) => () => ({ [Symbol.asyncIterator]: () => ({ next: () => Promise.reject(fault) }) })],
    ['the reader rejects', (fault) => () => new ReadableStream<number>({ pull: () => Promise.reject(fault) })],
  ])('errors with the same object when %s', async (_name, factoryOf) => {
    const fault = new Error('broken');
    const { seen } = watch(fromStream(factoryOf(fault)));
    await settle();
    expect(seen).toHaveLength(1);
    expect((seen[0] as { error: unknown }).error).toBe(fault);
  });

  it('refuses an iterator that answers what is no object, as `for await` does', async () => {
    const broken = { [Symbol.asyncIterator]: () => ({ next: () => Promise.resolve(5 as unknown as IteratorResult<number>) }) };
    await expect(lastValueFrom(fromStream(() => broken))).rejects.toThrow('`next` of the iterator must return an object');
  });

  it('closes a stream that arrives after the consumer has left, unread', async () => {
    const { state, stream } = stalling(['a']);
    const cancelled: unknown[] = [];
    const readable = new ReadableStream<string>({ cancel: (reason) => void cancelled.push(reason) }, { highWaterMark: 0 });
    let arrive: (() => void)[] = [];
    for (const each of [stream, readable]) {
      const { seen, subscription } = watch(
        fromStream(
          () =>
            new Promise<StreamLike<string>>((resolve) =>
              arrive.push(() => {
                resolve(each);
              }),
            ),
        ),
      );
      subscription.unsubscribe();
      for (const now of arrive) now();
      arrive = [];
      await settle();
      expect(seen).toEqual([]);
    }
    expect([state.pulls, state.returned]).toEqual([0, 1]);
    expect(cancelled).toHaveLength(1);
    expect(readable.locked).toBe(false);
  });

  it('swallows a factory that fails after the consumer has left, and a close that fails', async () => {
    let fail: (error: Error) => void = () => undefined;
    const { seen, subscription } = watch(
      fromStream<string>(
        () =>
          new Promise((_resolve, reject) => {
            fail = reject;
          }),
      ),
    );
    subscription.unsubscribe();
    fail(new Error('too late'));
    for (const close of [
      () => Promise.reject(new Error('no')),
      () => {
        throw new Error('no');
      },
    ]) {
      const next = () => new Promise<IteratorResult<string>>(() => undefined);
      const stalled = watch(fromStream(() => ({ [Symbol.asyncIterator]: () => ({ next, return: close }) })));
      await settle();
      stalled.subscription.unsubscribe();
      await settle();
      expect(stalled.seen).toEqual([]);
    }
    expect(seen).toEqual([]);
  });

  it('leaves in the middle of a chunk without another one', async () => {
    const { state, stream } = stalling(['a', 'b', 'c']);
    const seen: string[] = [];
    const subscription = fromStream(() => stream).subscribe((value) => {
      seen.push(value);
      if (value === 'b') subscription.unsubscribe();
    });
    await settle();
    expect([seen, state.pulls, state.returned]).toEqual([['a', 'b'], 2, 1]);
  });

  it('needs a factory, and an answer that is a stream', async () => {
    expect(() => fromStream(numbers(1) as never)).toThrow(FlowConfigError);
    for (const wrong of [undefined, null, [1, 2], 'text', {}]) {
      const { seen } = watch(fromStream(() => wrong as never));
      await settle();
      expect((seen[0] as { error: unknown }).error).toBeInstanceOf(CallbackError);
      expect((seen[0] as { error: Error }).error.message).toMatch(
        /^fromStream: `factory` must make an async iterable or a ReadableStream, made /,
      );
    }
  });
});

describe('fromStream over a ReadableStream', () => {
  const readableOf = <T>(values: readonly T[]) =>
    new ReadableStream<T>({
      start(controller) {
        for (const value of values) controller.enqueue(value);
        controller.close();
      },
    });

  it('emits the chunks, completes and releases the lock', async () => {
    const stream = readableOf([1, 2, 3]);
    expect(await lastValueFrom(fromStream(() => stream).pipe(toArray()))).toEqual([1, 2, 3]);
    expect(stream.locked).toBe(false);
  });

  it('releases the lock when the stream fails', async () => {
    const fault = new Error('broken');
    const stream = new ReadableStream<number>({
      start(controller) {
        controller.error(fault);
      },
    });
    const { seen } = watch(fromStream(() => stream));
    await settle();
    expect(seen).toEqual([{ error: fault }]);
    expect(stream.locked).toBe(false);
  });

  it('cancels a stalled stream with the reason of the signal, and releases the lock', async () => {
    const reasons: unknown[] = [];
    const stream = new ReadableStream<string>({
      start: (controller) => {
        controller.enqueue('a');
      },
      cancel: (reason) => {
        reasons.push(reason);
        return new Promise(() => undefined);
      },
    });
    let signal: AbortSignal | undefined;
    const { seen, subscription } = watch(
      fromStream((given) => {
        signal = given;
        return stream;
      }),
    );
    await settle();
    subscription.unsubscribe();
    expect(reasons).toEqual([signal?.reason]);
    expect(stream.locked).toBe(false);
    await settle();
    expect(seen).toEqual(['a']);
  });

  it('pulls no further than the consumer takes', async () => {
    let made = 0;
    const stream = new ReadableStream<number>(
      {
        pull: (controller) => {
          controller.enqueue(made++);
        },
      },
      { highWaterMark: 0 },
    );
    expect(await lastValueFrom(fromStream(() => stream).pipe(take(3), toArray()))).toEqual([0, 1, 2]);
    await settle();
    expect(made).toBe(3);
  });

  it('errors when another reader has locked the stream', async () => {
    const stream = readableOf([1]);
    stream.getReader();
    const { seen } = watch(fromStream(() => stream));
    await settle();
    expect((seen[0] as { error: unknown }).error).toBeInstanceOf(TypeError);
  });
});

describe('fromStream over an HTTP stream', () => {
  it('the server sees at once that a stalled stream was left, and only that one', async () => {
    const open = new Map<string, ServerResponse>();
    const closed = new Subject<string>();
    const server = createServer((request, response) => {
      const name = request.url ?? '';
      open.set(name, response);
      response.on('close', () => {
        closed.next(name);
      });
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write(`data: hello from ${name}\n\n`);
    });
    await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
    const origin = `http://127.0.0.1:${String((server.address() as AddressInfo).port)}`;
    try {
      const body = async (path: string, signal: AbortSignal) => {
        const response = await fetch(origin + path, { signal });
        if (response.body === null) throw new Error('no body');
        return response.body.pipeThrough(new TextDecoderStream());
      };
      const paths = new Subject<string>();
      const chunks = new Subject<string>();
      const closings: string[] = [];
      closed.subscribe((name) => closings.push(name));
      const subscription = paths.pipe(switchMap((path) => fromStream((signal) => body(path, signal)))).subscribe(chunks);

      const firstChunk = nextOf(chunks);
      paths.next('/1');
      expect(await firstChunk).toBe('data: hello from /1\n\n');
      expect(closings).toEqual([]);

      const firstClosed = nextOf(closed);
      const secondChunk = nextOf(chunks);
      paths.next('/2');
      expect(await firstClosed).toBe('/1');
      // Without the abort the server would wait for its next chunk, which never comes.
      expect(closings).toEqual(['/1']);
      expect(await secondChunk).toBe('data: hello from /2\n\n');

      const thirdChunk = nextOf(chunks);
      open.get('/2')?.write('data: more\n\n');
      expect(await thirdChunk).toBe('data: more\n\n');
      const secondClosed = nextOf(closed);
      subscription.unsubscribe();
      expect(await secondClosed).toBe('/2');
      expect(closings).toEqual(['/1', '/2']);
    } finally {
      server.closeAllConnections();
      await new Promise((done) => server.close(done));
    }
  });
});

function nextOf<T>(source: Observable<T>): Promise<T> {
  return lastValueFrom(source.pipe(take(1)));
}
