import { keepOrigin } from '../../pipelines/keep-origin.js';
import { streamError } from './streams.js';
import type { AguiFetch } from './types.js';

/** What a request belongs to. */
export interface Run {
  /** Aborts the request; at the end of the run in any case. */
  readonly signal: AbortSignal;
  readonly giveUp: (reason: 'superseded' | 'cancelled') => void;
}

/**
 * A `fetch` whose failures the client of AG-UI can live with: of a connection that cannot be made, or is cut, and of signals that abort with whatever
 * reason, it hears by an `AbortError`.
 *
 * @param runOf - what is given up when the signal of the request aborts after its answer has ended, which nobody would hear of
 */
export function agentFetch(base: AguiFetch | undefined, runOf: (init: RequestInit) => Run | undefined): AguiFetch {
  const send = keepOrigin((input, init) => (base ? base(input as string, init as RequestInit) : fetch(input, init)));
  return async (url, init) => {
    const run = runOf(init);
    const signal = AbortSignal.any([init.signal, run?.signal].filter(Boolean) as AbortSignal[]);
    try {
      const response = await send(url, { ...init, signal });
      const { body } = response;
      if (!response.ok || !body) return response;
      const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
      // Whatever was read is handed on first. The signal is for a `fetch` that does not look at it.
      body.pipeTo(writable, { signal, preventAbort: true }).then(
        () => {
          signal.addEventListener('abort', () => {
            run?.giveUp('cancelled');
          });
        },
        (cause: unknown) => writable.abort(streamError(cause, signal)),
      );
      return new Response(readable, response);
    } catch (cause) {
      // What a `fetch` throws when there is no connection; everything else is somebody's own error.
      throw signal.aborted || (cause as Partial<Error> | undefined)?.name === 'TypeError' ? streamError(cause, signal) : cause;
    }
  };
}
