import { concat, EMPTY, from, lastValueFrom, NEVER, Observable, of, range, Subject, throwError, toArray } from 'rxjs';
import { describe, expect, it } from 'vitest';
import type { FlowEvent } from '../../operators/index.js';
import { FlowConfigError, fromStream, OverflowError, toReadableStream } from '../../operators/index.js';
import { expectNoUnhandledRejections, settle } from '../support/rejections.js';

expectNoUnhandledRejections();

const fault = new Error('broken');

async function collect(stream: ReadableStream<unknown>): Promise<unknown[]> {
  const seen: unknown[] = [];
  const reader = stream.getReader();
  try {
    for (let step = await reader.read(); !step.done; step = await reader.read()) seen.push(step.value);
  } catch (error) {
    seen.push({ error });
  }
  return seen;
}

describe('toReadableStream, as every operator is asked', () => {
  it('waits for a source that says nothing, and leaves it', async () => {
    const reader = toReadableStream(NEVER).getReader();
    const pending = reader.read();
    await reader.cancel();
    expect(await pending).toEqual({ done: true, value: undefined });
  });

  it('closes on an empty source', async () => {
    expect(await collect(toReadableStream(EMPTY))).toEqual([]);
  });

  it('reads the only value', async () => {
    expect(await collect(toReadableStream(of('a')))).toEqual(['a']);
  });

  it('reads all values in order', async () => {
    expect(await collect(toReadableStream(of(1, 2, 3)))).toEqual([1, 2, 3]);
  });

  it('errors with the error of the source as the same object, after the values that wait', async () => {
    const seen = await collect(
      toReadableStream(
        concat(
          of(1, 2),
          throwError(() => fault),
        ),
      ),
    );
    expect(seen).toEqual([1, 2, { error: fault }]);
    expect((seen[2] as { error: unknown }).error).toBe(fault);
  });

  it('leaves the source at once when it is cancelled', async () => {
    const source = new Subject<number>();
    const events: FlowEvent[] = [];
    const reader = toReadableStream(source, { onEvent: (event) => events.push(event) }).getReader();
    const first = reader.read();
    await settle();
    for (const n of [1, 2, 3]) source.next(n);
    expect(await first).toEqual({ done: false, value: 1 });
    const cancelled = reader.cancel('enough');
    expect(source.observed).toBe(false);
    await cancelled;
    expect(events).toEqual([{ type: 'cancelled', operator: 'toReadableStream', lane: 'default', count: 2 }]);
  });

  it('goes on without a listener that throws', async () => {
    const onEvent = () => {
      throw fault;
    };
    expect(await collect(toReadableStream(range(0, 10), { maxQueued: 2, overflow: 'dropNewest', onEvent }))).toEqual([0, 1, 2]);
  });

  it('reads what a source says inside subscribe', async () => {
    expect(await collect(toReadableStream(range(0, 1001)))).toHaveLength(1001);
  });

  it('reads what is sent while a value is handed over', async () => {
    const source = new Subject<number>();
    const reader = toReadableStream(source).getReader();
    const first = reader.read().then(({ value }) => {
      source.next(2);
      return value;
    });
    await settle();
    source.next(1);
    expect([await first, (await reader.read()).value]).toEqual([1, 2]);
    await reader.cancel();
  });
});

describe('a stream of toReadableStream', () => {
  it('subscribes at the first read, and takes no value before it is asked', async () => {
    const source = new Subject<number>();
    const stream = toReadableStream(source);
    await settle();
    expect(source.observed).toBe(false);
    const reader = stream.getReader();
    const first = reader.read();
    await settle();
    source.next(1);
    expect(await first).toEqual({ done: false, value: 1 });
    source.complete();
    expect(await reader.read()).toEqual({ done: true, value: undefined });
    await reader.closed;
  });

  it('cancels while a read is pending', async () => {
    const source = new Subject<number>();
    const reader = toReadableStream(source).getReader();
    const pending = reader.read();
    await settle();
    const cancelled = reader.cancel();
    expect(source.observed).toBe(false);
    expect(await pending).toEqual({ done: true, value: undefined });
    await cancelled;
    await reader.closed;
  });

  it('errors when the signal aborts, with its reason', async () => {
    const source = new Subject<number>();
    const controller = new AbortController();
    const reader = toReadableStream(source, { signal: controller.signal }).getReader();
    const pending = reader.read();
    await settle();
    controller.abort();
    expect(source.observed).toBe(false);
    await expect(pending).rejects.toBe(controller.signal.reason);
    await expect(reader.closed).rejects.toHaveProperty('name', 'AbortError');
  });

  it('has one bound: what a slow reader leaves is counted once', async () => {
    let made = 0;
    const source = new Observable<number>((subscriber) => {
      while (!subscriber.closed && made < 100_000) subscriber.next(made++);
    });
    const seen = await collect(toReadableStream(source, { maxQueued: 10 }));
    expect(seen.slice(0, 11)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    expect((seen[11] as { error: unknown }).error).toBeInstanceOf(OverflowError);
    expect(made).toBe(12);
  });

  it('goes through pipeThrough, tee and a Response', async () => {
    const text = () => toReadableStream(of('to ', 'be')).pipeThrough(new TextEncoderStream());
    expect(await new Response(text()).text()).toBe('to be');
    const branches = toReadableStream(of(1, 2)).tee();
    expect(await Promise.all(branches.map(collect))).toEqual([
      [1, 2],
      [1, 2],
    ]);
  });

  it('is left when the other end of a pipe fails', async () => {
    const source = new Subject<number>();
    const piped = toReadableStream(source).pipeTo(
      new WritableStream({
        write: () => {
          throw fault;
        },
      }),
    );
    await settle();
    source.next(1);
    await expect(piped).rejects.toBe(fault);
    expect(source.observed).toBe(false);
  });

  it('comes back as it was through fromStream and from', async () => {
    const values = [1, 2, 3];
    expect(await lastValueFrom(fromStream(() => toReadableStream(of(...values))).pipe(toArray()))).toEqual(values);
    expect(await lastValueFrom(from(toReadableStream(of(...values))).pipe(toArray()))).toEqual(values);
  });
});

describe('what toReadableStream is given', () => {
  it.each([null, undefined, [1], 'text'])('must be an Observable, not %o', (source) => {
    expect(() => toReadableStream(source as never)).toThrow(FlowConfigError);
    expect(() => toReadableStream(source as never)).toThrow(/^toReadableStream: expected `source` to be an Observable, got /);
  });
});
