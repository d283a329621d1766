import { defer, EMPTY, lastValueFrom, NEVER, Observable, of, Subject, take, toArray } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { FlowConfigError } from '../../operators/index.js';
import type { NativeObservable } from '../../operators/interop.js';
import { fromNative, toNative } from '../../operators/interop.js';
import { PlatformObservable } from '../support/platform-observable.js';

const fault = new Error('broken');
const native = <T>(source: Observable<T>) => toNative(source, { observableClass: PlatformObservable });

function watch<T>(source: NativeObservable<T>) {
  const seen: unknown[] = [];
  const subscription = fromNative(source).subscribe({
    next: (value) => seen.push(value),
    error: (error: unknown) => seen.push({ error }),
    complete: () => seen.push('complete'),
  });
  return { seen, subscription };
}

/** Keeps what `subscribe` is given. */
function recorder() {
  const calls: { observer: Parameters<NativeObservable<number>['subscribe']>[0]; signal: AbortSignal }[] = [];
  const source: NativeObservable<number> = {
    subscribe: (observer, options) => {
      calls.push({ observer, signal: options!.signal! });
    },
  };
  return { calls, source };
}

describe('fromNative, as every operator is asked', () => {
  it('says nothing for one that says nothing', () => {
    expect(watch(native(NEVER)).seen).toEqual([]);
  });

  it('completes on an empty one', () => {
    expect(watch(native(EMPTY)).seen).toEqual(['complete']);
  });

  it('hands on the only value', () => {
    expect(watch(native(of('a'))).seen).toEqual(['a', 'complete']);
  });

  it('hands on all values in order', async () => {
    expect(await lastValueFrom(fromNative(native(of(1, 2, 3))).pipe(toArray()))).toEqual([1, 2, 3]);
  });

  it('hands on an error as the same object', () => {
    const { calls, source } = recorder();
    const { seen } = watch(source);
    calls[0]!.observer?.error?.(fault);
    expect((seen[0] as { error: unknown }).error).toBe(fault);
  });

  it('aborts the signal in the moment of leaving, once, with an AbortError', () => {
    const { calls, source } = recorder();
    const { seen, subscription } = watch(source);
    const { observer, signal } = calls[0]!;
    const aborts: unknown[] = [];
    signal.addEventListener('abort', () => aborts.push(signal.reason));
    observer?.next?.(1);
    subscription.unsubscribe();
    expect(aborts).toHaveLength(1);
    expect(aborts[0]).toBeInstanceOf(DOMException);
    expect(aborts[0]).toHaveProperty('name', 'AbortError');
    observer?.next?.(2);
    subscription.unsubscribe();
    expect([seen, aborts.length]).toEqual([[1], 1]);
  });

  it('hands on what a callback of the producer, or its subscribe, throws', () => {
    const thrower = (): never => {
      throw fault;
    };
    expect(watch(new PlatformObservable(thrower)).seen).toEqual([{ error: fault }]);
    expect(watch({ subscribe: thrower }).seen).toEqual([{ error: fault }]);
  });

  it('stops a producer that emits inside subscribe as soon as its consumer has enough', () => {
    let made = 0;
    const source = new Observable<number>((subscriber) => {
      while (!subscriber.closed && made < 10_000) subscriber.next(made++);
    });
    const seen: number[] = [];
    fromNative(native(source))
      .pipe(take(2))
      .subscribe((value) => seen.push(value));
    expect([seen, made]).toEqual([[0, 1], 2]);
  });

  it('hands on what the consumer sends while it is handed a value', () => {
    const source = new Subject<number>();
    const seen: number[] = [];
    fromNative(native(source)).subscribe((value) => {
      seen.push(value);
      if (value === 1) source.next(2);
    });
    source.next(1);
    expect(seen).toEqual([1, 2]);
  });
});

describe('fromNative', () => {
  it('does not abort a subscription that ended by itself', () => {
    const { calls, source } = recorder();
    const watched = [watch(source), watch(source)];
    calls[0]!.observer?.complete?.();
    calls[1]!.observer?.error?.(fault);
    for (const { subscription } of watched) subscription.unsubscribe();
    expect(calls.map(({ signal }) => signal.aborted)).toEqual([false, false]);
  });

  it('subscribes once for every subscription, and the platform shares them', () => {
    const source = new Subject<number>();
    let subscriptions = 0;
    const shared = native(
      defer(() => {
        subscriptions++;
        return source;
      }),
    );
    const first = watch(shared);
    const second = watch(shared);
    expect(subscriptions).toBe(1);
    source.next(1);
    first.subscription.unsubscribe();
    source.next(2);
    second.subscription.unsubscribe();
    expect([first.seen, second.seen, source.observed]).toEqual([[1], [1, 2], false]);
  });

  it.each([null, undefined, 5, 'text', {}, [1]])('needs something with `subscribe`, not %o', (source) => {
    expect(() => fromNative(source as never)).toThrow(FlowConfigError);
    expect(() => fromNative(source as never)).toThrow(
      /^fromNative: expected `native` to be an Observable of the platform, with `subscribe\(observer, \{ signal \}\)`, got /,
    );
  });

  it('refuses an Observable of RxJS, which no signal would stop', () => {
    expect(() => fromNative(of(1) as never)).toThrow(FlowConfigError);
  });
});
