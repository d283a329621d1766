/** What the platform hands to the producer of its Observable; only what is used. */
export interface NativeSubscriber<T> {
  next(value: T): void;
  error(error: unknown): void;
  complete(): void;
  /** Runs when the subscription ends, from either side; at once if it has ended already. */
  addTeardown(teardown: () => void): void;
}

export interface NativeObserver<T> {
  next?(value: T): void;
  error?(error: unknown): void;
  complete?(): void;
}

/**
 * An Observable of the platform (`element.when('click')`), by shape. It is shared by its subscribers, returns nothing from
 * `subscribe`, and is left by the abort of a signal.
 * @stable
 */
export interface NativeObservable<T> {
  subscribe(observer?: NativeObserver<T>, options?: { readonly signal?: AbortSignal }): void;
}

export type NativeObservableClass = new <T>(start: (subscriber: NativeSubscriber<T>) => void) => NativeObservable<T>;
