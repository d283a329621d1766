import type { Observer, Subscriber } from 'rxjs';
import { Observable } from 'rxjs';
import { abortReason } from '../calls/abort.js';

/**
 * Hands on a stream that is left by a signal: it aborts, before anything else is torn down, when the consumer leaves before the end. What `start` throws
 * is the stream's error.
 */
export function untilLeft<T>(start: (signal: AbortSignal, observer: Observer<T>, to: Subscriber<T>) => void): Observable<T> {
  return new Observable((to) => {
    const controller = new AbortController();
    const leave = (): void => {
      controller.abort(abortReason());
    };
    // Added before the stream is subscribed to: one that emits at once could not be stopped otherwise.
    to.add(leave);
    const observer: Observer<T> = {
      next: (value) => {
        to.next(value);
      },
      error: (error) => {
        to.remove(leave);
        to.error(error);
      },
      complete: () => {
        to.remove(leave);
        to.complete();
      },
    };
    try {
      start(controller.signal, observer, to);
    } catch (error) {
      observer.error(error);
    }
  });
}
