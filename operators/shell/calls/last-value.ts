import type { Observable, Subscription } from 'rxjs';
import { EMPTY, throwIfEmpty } from 'rxjs';

/** Settles a promise with the last value of a stream. */
export function passLastValue<R>(source: Observable<R>, resolve: (value: R) => void, reject: (error: unknown) => void): Subscription {
  let last: { readonly value: R } | undefined;
  return source.subscribe({
    next: (value) => {
      last = { value };
    },
    error: reject,
    complete: () => {
      if (last) resolve(last.value);
      else rejectEmpty(reject);
    },
  });
}

/** The last value of a stream, as a promise, which cannot be unsubscribed from. */
export function lastOf<R>(source: Observable<R>): Promise<R> {
  return new Promise((resolve, reject) => {
    passLastValue(source, resolve, reject);
  });
}

/** With RxJS's own `EmptyError`, which only RxJS should construct. */
export function rejectEmpty(reject: (error: unknown) => void): void {
  EMPTY.pipe(throwIfEmpty()).subscribe({ error: reject });
}
