import { Observable } from 'rxjs';
import { linkable } from './call.js';
import { attach } from './connect.js';

/** What comes later, as an Observable of ours: one of any RxJS, what says that it is one, async iterables and web streams. Undefined for all else. */
export function streamOf<R>(answer: unknown): Observable<R> | undefined {
  const stream = linkable<R>(answer);
  if (stream === undefined || stream instanceof Observable) return stream;
  // Another RxJS than ours, or none.
  return new Observable((subscriber) => {
    attach(stream, subscriber, subscriber);
  });
}
