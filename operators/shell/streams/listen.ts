import type { Observable, Observer, Subscription } from 'rxjs';
import { isObservable } from 'rxjs';
import { check } from '../../options/options.js';
import { Link, subscribeLink } from './connect.js';

/** For the `source` of what is no operator itself. */
export const observable = /* @__PURE__ */ check<unknown>('an Observable', isObservable);

/**
 * Subscribes where there is no consumer to link to. The subscription is handed over before the source starts, so that one which
 * emits inside `subscribe` can be left there. The observer must not throw.
 */
export function listen<T>(source: Observable<T>, observer: Observer<T>, started: (subscription: Subscription) => void): void {
  // eslint-disable-next-line @typescript-eslint/no-deprecated -- the constructor is RxJS's own
  const link = new Link<T>(observer);
  started(link);
  subscribeLink(source, link);
}
