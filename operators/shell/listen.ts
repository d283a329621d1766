import type { Observer, Subscription } from 'rxjs';
import { isObservable, Observable } from 'rxjs';
import { FlowConfigError } from '../options/errors.js';
import { connect } from './connect.js';

/** For the `source` of what is no operator itself. @throws FlowConfigError when it is no Observable */
export function checkSource(operator: string, source: unknown): void {
  if (!isObservable(source)) throw new FlowConfigError(operator, 'source', 'an Observable', source);
}

/**
 * Subscribes where there is no consumer to link to. The subscription is handed over before the source starts, so that one which
 * emits inside `subscribe` can be left there. The observer must not throw.
 */
export function listen<T>(source: Observable<T>, observer: Observer<T>, started: (subscription: Subscription) => void): void {
  new Observable<T>((subscriber) => {
    started(subscriber);
    connect(source, subscriber, {
      next: (value) => {
        subscriber.next(value);
      },
    });
  }).subscribe(observer);
}
