import { noop } from 'rxjs';
import { check } from '../../options/options.js';

/** The reason every signal of this package aborts with: SDKs treat any other as a failure of their own. */
export function abortReason(): DOMException {
  return new DOMException('The call was cancelled', 'AbortError');
}

/**
 * An `AbortController` that is made when its signal is first read (one costs about 4.5 µs with a listener).
 * `abort()` before the first read is remembered.
 */
export class LazySignal {
  protected controller: AbortController | undefined = undefined;
  aborted = false;

  get signal(): AbortSignal {
    if (this.controller === undefined) {
      this.controller = new AbortController();
      if (this.aborted) this.controller.abort(abortReason());
    }
    return this.controller.signal;
  }

  abort(): void {
    this.aborted = true;
    this.controller?.abort(abortReason());
  }
}

/**
 * Calls `listener` once when the signal aborts. For many calls that share signals use {@link AbortCalls}, which adds one listener per signal.
 *
 * - **Calls** synchronously, at once when the signal has aborted already. Without a signal it never calls.
 * - **Returns** a function that stops listening; calling it again does nothing.
 * - **Errors:** what `listener` throws is thrown to the caller when the signal has aborted already, else reported by the platform.
 *
 * @beta
 * @example
 * ```ts
 * import { onAbort } from 'sluice/operators/build';
 *
 * const controller = new AbortController();
 * const seen: string[] = [];
 * onAbort(controller.signal, () => seen.push('aborted'));
 * const stop = onAbort(controller.signal, () => seen.push('never'));
 * stop();
 * controller.abort();
 * seen; // => ['aborted']
 * ```
 */
export function onAbort(signal: AbortSignal | undefined, listener: () => void): () => void {
  if (signal === undefined) return noop;
  if (signal.aborted) {
    listener();
    return noop;
  }
  signal.addEventListener('abort', listener, { once: true });
  return () => {
    signal.removeEventListener('abort', listener);
  };
}

/** A signal that must be there; known by its shape, because those of other realms and of polyfills are signals too. */
export const requiredSignal = /* @__PURE__ */ check<AbortSignal>('an AbortSignal', (value) => {
  const { aborted, addEventListener } = Object(value) as Partial<AbortSignal>;
  return typeof aborted === 'boolean' && typeof addEventListener === 'function';
});
