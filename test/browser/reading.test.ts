import { interval, lastValueFrom, NEVER, of, range, Subject, toArray } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { fromStream, isFlowError, toAsyncIterable, toReadableStream } from '../../operators/index.js';

describe('toAsyncIterable in the browser', () => {
  it('is read by for await, and left by break', async () => {
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
    expect([seen, source.observed]).toEqual([[1, 2], false]);
  });

  it('reads a source that runs on the clock', async () => {
    const seen: number[] = [];
    for await (const n of toAsyncIterable(interval(1))) {
      seen.push(n);
      if (n === 2) break;
    }
    expect(seen).toEqual([0, 1, 2]);
  });

  it('rejects with the AbortError of its signal', async () => {
    const controller = new AbortController();
    const iterator = toAsyncIterable(NEVER, { signal: controller.signal })[Symbol.asyncIterator]();
    const pending = iterator.next();
    controller.abort();
    await expect(pending).rejects.toBe(controller.signal.reason);
    await expect(pending).rejects.toBeInstanceOf(DOMException);
  });

  it('tells an overflow after the values that wait', async () => {
    const seen: number[] = [];
    let failure: unknown;
    try {
      for await (const n of toAsyncIterable(range(0, 100), { maxQueued: 2 })) seen.push(n);
    } catch (error) {
      failure = error;
    }
    expect(seen).toEqual([0, 1, 2]);
    expect(isFlowError(failure, 'FLOW_OVERFLOW')).toBe(true);
  });

  it('is disposed of', async () => {
    const source = new Subject<number>();
    const iterator = toAsyncIterable(source)[Symbol.asyncIterator]();
    const pending = iterator.next();
    await iterator[Symbol.asyncDispose]();
    expect([source.observed, (await pending).done]).toEqual([false, true]);
  });
});

describe('toReadableStream in the browser', () => {
  it('is the body of a Response', async () => {
    const body = toReadableStream(of('to ', 'be')).pipeThrough(new TextEncoderStream());
    expect(await new Response(body).text()).toBe('to be');
  });

  it('leaves the source when it is cancelled', async () => {
    const source = new Subject<number>();
    const reader = toReadableStream(source).getReader();
    const pending = reader.read();
    await new Promise(requestAnimationFrame);
    expect(source.observed).toBe(true);
    const cancelled = reader.cancel();
    expect(source.observed).toBe(false);
    await cancelled;
    expect((await pending).done).toBe(true);
  });

  it('errors with the error of the source as the same object', async () => {
    const fault = new Error('broken');
    const source = new Subject<number>();
    const reader = toReadableStream(source).getReader();
    const pending = reader.read();
    await new Promise(requestAnimationFrame);
    source.error(fault);
    await expect(pending).rejects.toBe(fault);
  });

  it('goes to another realm and back', async () => {
    const { port1, port2 } = new MessageChannel();
    const arrived = new Promise<ReadableStream<number>>((resolve) => {
      port2.onmessage = ({ data }: MessageEvent<ReadableStream<number>>) => {
        resolve(data);
      };
    });
    const stream = toReadableStream(of(1, 2, 3));
    port1.postMessage(stream, [stream]);
    expect(await lastValueFrom(fromStream(() => arrived).pipe(toArray()))).toEqual([1, 2, 3]);
    port1.close();
    port2.close();
  });
});
