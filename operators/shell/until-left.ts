import type { Observer, Subscriber } from 'rxjs';
import { abortReason } from './abort.js';

/** What hands a stream on to its consumer, and a signal for the stream: it aborts, before anything else is torn down, when it is left before its end. */
export function untilLeft<T>(to: Subscriber<T>): { readonly signal: AbortSignal; readonly observer: Observer<T> } {
  const controller = new AbortController();
  let isOver = false;
  // Added before the stream is subscribed to: one that emits at once could not be stopped otherwise.
  to.add(() => {
    if (!isOver) controller.abort(abortReason());
  });
  const observer: Observer<T> = {
    next: (value) => {
      to.next(value);
    },
    error: (error) => {
      isOver = true;
      to.error(error);
    },
    complete: () => {
      isOver = true;
      to.complete();
    },
  };
  return { signal: controller.signal, observer };
}
