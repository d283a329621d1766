import { streamError } from './lost-run.js';
import type { AguiFetch } from './types.js';

/**
 * A `fetch` whose failures the client of AG-UI can live with: of a connection that cannot be made, or is cut, and of signals that abort with whatever
 * reason, it hears by an `AbortError`.
 *
 * @param signalOf - aborts this request, beside the signal it comes with
 */
export function agentFetch(base: AguiFetch | undefined, signalOf: (init: RequestInit) => AbortSignal | undefined): AguiFetch {
  return async (url, init) => {
    const signal = AbortSignal.any([init.signal, signalOf(init)].filter((given) => given != null));
    try {
      const response = await (base ?? fetch)(url, { ...init, signal });
      const { body } = response;
      if (!response.ok || !body) return response;
      const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
      // Whatever was read is handed on first. The signal is for a `fetch` that does not look at it.
      body.pipeTo(writable, { signal, preventAbort: true }).catch((cause: unknown) => writable.abort(streamError(cause, signal)));
      return new Response(readable, response);
    } catch (cause) {
      // What a `fetch` throws when there is no connection; everything else is somebody's own error.
      throw signal.aborted || (cause as Partial<Error> | undefined)?.name === 'TypeError' ? streamError(cause, signal) : cause;
    }
  };
}
