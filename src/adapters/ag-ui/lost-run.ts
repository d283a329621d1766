import type { AguiEvent } from './types.js';

/** What happened, of the errors that the client of AG-UI was told it by. */
const events = /* @__PURE__ */ new WeakMap<DOMException, AguiEvent>();

/** What ends the stream of a run instead of `cause`. It is an `AbortError`: any other that a body ends with the client leaves unhandled. */
export function streamError(cause: unknown, signal: AbortSignal): DOMException {
  const message = String(cause);
  const error = new DOMException(message, 'AbortError');
  if (!signal.aborted) events.set(error, { type: 'RUN_ERROR', message, code: 'network' });
  return error;
}

/** The end of a run whose stream was lost; undefined for any other error. */
export function lostRun(error: unknown): AguiEvent | undefined {
  return events.get(error as DOMException);
}
