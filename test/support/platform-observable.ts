import type { NativeObservable } from '../../operators/interop.js';
import type { NativeObserver, NativeSubscriber } from '../../operators/shell/streams/native.js';

/** Stands in for the platform's `Observable` where it is missing: shared by its subscribers, left by the abort of a signal. */
export class PlatformObservable<T> implements NativeObservable<T> {
  readonly #start: (subscriber: NativeSubscriber<T>) => void;
  #shared: Shared<T> | undefined;

  constructor(start: (subscriber: NativeSubscriber<T>) => void) {
    this.#start = start;
  }

  subscribe(observer: NativeObserver<T> = {}, { signal }: { readonly signal?: AbortSignal } = {}): void {
    if (signal?.aborted === true) return;
    const isFirst = this.#shared?.isActive !== true;
    const shared = isFirst ? (this.#shared = new Shared<T>()) : this.#shared!;
    shared.observers.add(observer);
    signal?.addEventListener('abort', () => {
      shared.leave(observer);
    });
    if (!isFirst) return;
    try {
      this.#start(shared);
    } catch (error) {
      shared.error(error);
    }
  }
}

class Shared<T> implements NativeSubscriber<T> {
  readonly observers = new Set<NativeObserver<T>>();
  readonly #teardowns: (() => void)[] = [];
  isActive = true;

  next(value: T): void {
    if (this.isActive) for (const observer of [...this.observers]) observer.next?.(value);
  }

  error(error: unknown): void {
    if (!this.isActive) return;
    this.#close();
    for (const observer of this.observers) observer.error?.(error);
  }

  complete(): void {
    if (!this.isActive) return;
    this.#close();
    for (const observer of this.observers) observer.complete?.();
  }

  addTeardown(teardown: () => void): void {
    if (this.isActive) this.#teardowns.push(teardown);
    else teardown();
  }

  leave(observer: NativeObserver<T>): void {
    this.observers.delete(observer);
    if (this.observers.size === 0 && this.isActive) this.#close();
  }

  #close(): void {
    this.isActive = false;
    for (const teardown of this.#teardowns.reverse()) teardown();
  }
}
