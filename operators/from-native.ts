import type { Observable } from 'rxjs';
import { isObservable } from 'rxjs';
import { FlowConfigError } from './options/errors.js';
import type { NativeObservable } from './shell/streams/native.js';
import { untilLeft } from './shell/streams/until-left.js';

/**
 * Makes an Observable of RxJS of one of the platform (the one `element.when('click')` returns), or of anything else that has
 * `subscribe(observer, { signal })`.
 *
 * ```text
 * native   -a-b-c-|
 * result   -a-b-c-|   the same values, in the same moments
 * ```
 *
 * - **Emits when** the platform's Observable does, in the same moment.
 * - **Holds at most** nothing.
 * - **Completes when** it completes.
 * - **Errors when** it errors, or its `subscribe` throws, with the same error.
 * - **On unsubscribe** the signal of the subscription aborts at once with a `DOMException` named `AbortError`, also in the middle of
 *   `subscribe`: one that emits there stops.
 *
 * Every subscription here is one there. Those are shared among each other by the platform: its producer starts with the first and
 * stops with the last.
 *
 * @stable
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when `native` has no `subscribe`, or is one of RxJS already.
 * @example
 * ```ts
 * import { fromNative } from 'sluice/interop';
 *
 * const seen: unknown[] = [];
 * const clicks = { subscribe: (observer: { next?(value: string): void }) => observer.next?.('click') };
 * fromNative<string>(clicks).subscribe((value) => seen.push(value));
 * seen; // => ['click']
 * ```
 * @example In a browser that has it.
 * ```ts no-run
 * fromNative(button.when('click')).pipe(switchLatest((click, { signal }) => search(click, signal)));
 * ```
 * @see {@link toNative} for the way back; `fromEvent` of RxJS where the platform has no `when`.
 */
export function fromNative<T>(native: NativeObservable<T>): Observable<T> {
  if (typeof (Object(native) as Partial<NativeObservable<T>>).subscribe !== 'function' || isObservable(native)) {
    throw new FlowConfigError('fromNative', 'native', 'an Observable of the platform, with `subscribe(observer, { signal })`', native);
  }
  return untilLeft((signal, observer) => {
    native.subscribe(observer, { signal });
  });
}
