import type { Observable, Subscription } from 'rxjs';
import { FlowConfigError } from './options/errors.js';
import { onlyKnown } from './options/options.js';
import { listen, observable } from './shell/streams/listen.js';
import type { NativeObservable, NativeObservableClass } from './shell/streams/native.js';

export type { NativeObservable, NativeObservableClass, NativeObserver, NativeSubscriber } from './shell/streams/native.js';

/** @stable */
export interface ToNativeOptions {
  /** The class to make it of, where the platform has none of its own. @defaultValue the platform's own `Observable` */
  readonly observableClass?: NativeObservableClass;
}

/**
 * Makes an `Observable` of the platform (the one `element.when('click')` returns) of one of RxJS. Neither side takes the other's as it is.
 *
 * ```text
 * source   -a-b-c-|
 * native   -a-b-c-|   the same values, in the same moments
 * ```
 *
 * - **Emits when** the source emits, in the same moment.
 * - **Holds at most** nothing.
 * - **Completes when** the source completes.
 * - **Errors when** the source errors, with the same error. Without an `error` handler the platform reports it to the page.
 * - **On unsubscribe**, which is the abort of the subscriber's signal, the source is unsubscribed from at once; one that emits inside
 *   `subscribe` is left there.
 *
 * A platform Observable is shared: the first subscriber starts the source, more of them join it, and it is left with the last.
 * Later ones miss what was said before.
 *
 * @stable
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when `source` is no Observable, or when the platform has no `Observable` of
 * its own (Node, Firefox and Safari today) and none was given as `observableClass`.
 * @example In a browser that has it. TypeScript's own types do not know its methods yet, so the operators are those of RxJS.
 * ```ts no-run
 * toNative(updates.pipe(map(({ name }) => name), take(3))).subscribe({ next: (name) => console.log(name) });
 * ```
 * @example
 * ```ts
 * import { of } from 'rxjs';
 * import { toNative } from 'sluice/interop';
 * import { isFlowError } from 'sluice/operators';
 *
 * let refused: unknown;
 * try {
 *   toNative(of(1));
 * } catch (error) {
 *   refused = error;
 * }
 * isFlowError(refused, 'FLOW_CONFIG_INVALID'); // => !('Observable' in globalThis)
 * ```
 * @see {@link fromNative} for the way back.
 */
export function toNative<T>(source: Observable<T>, options: ToNativeOptions = {}): NativeObservable<T> {
  observable('toNative', 'source', source);
  onlyKnown('toNative', options, ['observableClass']);
  const { observableClass: Native = (globalThis as { Observable?: NativeObservableClass }).Observable } = options;
  if (typeof Native !== 'function') {
    throw new FlowConfigError('toNative', 'observableClass', 'a class, because this platform has no `Observable` of its own', Native);
  }
  return new Native<T>((subscriber) => {
    listen(source, subscriber, (subscription: Subscription) => {
      subscriber.addTeardown(() => {
        subscription.unsubscribe();
      });
    });
  });
}
