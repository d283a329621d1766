import { concat, defer, Observable, of, Subject, take, throwError } from 'rxjs';
import { describe, expect, it } from 'vitest';
import type { NativeObservable } from '../../operators/interop.js';
import { fromNative, toNative } from '../../operators/interop.js';
import type { NativeObservableClass } from '../../operators/shell/streams/native.js';

/** The platform's own, as far as it is used here; TypeScript does not know it yet. */
interface PlatformObservable<T> extends NativeObservable<T> {
  map<R>(project: (value: T) => R): PlatformObservable<R>;
  take(count: number): PlatformObservable<T>;
  toArray(): Promise<T[]>;
}

const Platform = (globalThis as unknown as { Observable: NativeObservableClass }).Observable;
const platform = <T>(source: Observable<T>) => toNative(source) as PlatformObservable<T>;
const fault = new Error('broken');

describe('toNative in the browser', () => {
  it('is one of the platform, with its operators', async () => {
    const native = platform(of(1, 2, 3));
    expect(native).toBeInstanceOf(Platform);
    expect(await native.map((n) => n * 2).toArray()).toEqual([2, 4, 6]);
  });

  it('stops a source that emits inside subscribe as soon as the platform has enough', async () => {
    let made = 0;
    const source = new Observable<number>((subscriber) => {
      while (!subscriber.closed && made < 10_000) subscriber.next(made++);
    });
    expect(await platform(source).take(1).toArray()).toEqual([0]);
    expect(made).toBe(1);
  });

  it('leaves the source in the moment the signal aborts', () => {
    const source = new Subject<number>();
    const controller = new AbortController();
    const seen: number[] = [];
    toNative(source).subscribe({ next: (n) => seen.push(n) }, { signal: controller.signal });
    source.next(1);
    controller.abort();
    expect([source.observed, seen]).toEqual([false, [1]]);
  });

  it('hands on an error as the same object', async () => {
    const failing = concat(
      of(1),
      throwError(() => fault),
    );
    await expect(platform(failing).toArray()).rejects.toBe(fault);
  });

  it('starts the source once for two subscribers', () => {
    const source = new Subject<number>();
    let starts = 0;
    const native = toNative(
      defer(() => {
        starts++;
        return source;
      }),
    );
    const seen: number[] = [];
    const controllers = [new AbortController(), new AbortController()];
    for (const { signal } of controllers) native.subscribe({ next: (n) => seen.push(n) }, { signal });
    source.next(1);
    controllers[0]!.abort();
    expect([starts, seen, source.observed]).toEqual([1, [1, 1], true]);
    controllers[1]!.abort();
    expect(source.observed).toBe(false);
  });
});

describe('fromNative in the browser', () => {
  it('emits the events of an element, and takes its listener away on leaving', () => {
    const button = document.createElement('button');
    const seen: string[] = [];
    const clicks = (button as unknown as { when(type: string): NativeObservable<Event> }).when('click');
    const subscription = fromNative(clicks).subscribe(({ type }) => seen.push(type));
    button.click();
    button.click();
    subscription.unsubscribe();
    button.click();
    expect(seen).toEqual(['click', 'click']);
  });

  it('stops a producer that emits inside subscribe as soon as its consumer has enough', () => {
    let made = 0;
    const native = new Platform<number>((subscriber) => {
      let isActive = true;
      subscriber.addTeardown(() => {
        isActive = false;
      });
      const isWanted = () => isActive && made < 10_000;
      while (isWanted()) subscriber.next(made++);
    });
    const seen: number[] = [];
    fromNative(native)
      .pipe(take(2))
      .subscribe((n) => seen.push(n));
    expect([seen, made]).toEqual([[0, 1], 2]);
  });

  it('hands on an error as the same object, and the end', () => {
    const seen: unknown[] = [];
    const observer = { error: (error: unknown) => seen.push(error), complete: () => seen.push('complete') };
    fromNative(
      new Platform((subscriber) => {
        subscriber.error(fault);
      }),
    ).subscribe(observer);
    fromNative(toNative(of())).subscribe(observer);
    expect(seen).toEqual([fault, 'complete']);
    expect(seen[0]).toBe(fault);
  });

  it('comes back as it was after both ways', () => {
    const seen: number[] = [];
    fromNative(toNative(of(1, 2, 3))).subscribe((n) => seen.push(n));
    expect(seen).toEqual([1, 2, 3]);
  });
});
