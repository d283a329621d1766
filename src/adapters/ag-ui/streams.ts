import type { Observable } from 'rxjs';
import type { AguiEvent, AguiStream } from './types.js';

/** A stream of theirs, to be listened to. What is made of it stands in its place: one Observable works with the operators of every copy of RxJS. */
export function ours(stream: AguiStream): Observable<AguiEvent> {
  return stream as unknown as Observable<AguiEvent>;
}

/** What ends the stream of a run instead of `cause`. It is an `AbortError`: any other that a body ends with the client leaves unhandled. */
export function streamError(cause: unknown, { aborted }: AbortSignal): DOMException {
  const message = String(cause);
  const lostRun = { type: 'RUN_ERROR', message, code: aborted ? 'abort' : 'network' };
  return Object.assign(new DOMException(message, 'AbortError'), { lostRun });
}

/** The end of a run whose stream was lost, of the error that the client was told it by; undefined for anything else. */
export function lostRun(error: unknown): AguiEvent | undefined {
  return (error as { readonly lostRun?: AguiEvent } | undefined)?.lostRun;
}
