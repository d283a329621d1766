import { noop } from 'rxjs';
import { check } from '../options/options.js';

/** The reason every signal of this package aborts with: SDKs treat any other as a failure of their own. */
export function abortReason(): DOMException {
  return new DOMException('The call was cancelled', 'AbortError');
}

/**
 * An `AbortController` that is only made when somebody asks for the signal (one costs about 4.5 µs with a listener).
 * `abort()` before the first look is remembered.
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

/** Calls `listener` when the signal aborts (at once if it already has); the returned function stops listening. */
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
