import { abortReason, onAbort } from '../../../operators/toolkit.js';
import type { AguiFetch } from './types.js';

/** A stream that is no text: what cannot be said there is left as it is. */
const PROTOBUF = /protobuf|\+proto/;

/**
 * A `fetch` whose failures the client of AG-UI can live with. A connection that cannot be made, or is cut, becomes a `RUN_ERROR` with the code
 * `'network'`, one that has timed out `'timeout'`: the run ends, and nothing is left unhandled. Signals abort with an `AbortError`, whatever
 * reason they were given, because the client takes any other for a failure.
 *
 * @param signalOf - aborts this request, beside the signal it comes with
 */
export function agentFetch(base: AguiFetch, signalOf: (init: RequestInit) => AbortSignal | undefined): AguiFetch {
  return async (url, init) => {
    const own = new AbortController();
    const { signal } = own;
    const given = init.signal ?? undefined;
    const abort = (): void => {
      own.abort(abortReason());
    };
    const stopOurs = onAbort(signalOf(init), abort);
    const stopTheirs = onAbort(given, abort);
    const stop = (): void => {
      stopOurs();
      stopTheirs();
    };
    /** The frame that says what happened. @throws AbortError when the run was given up */
    const failure = (error: unknown): string => {
      stop();
      const isLate = nameOf(given?.reason) === 'TimeoutError';
      if (signal.aborted && !isLate) throw abortReason();
      const about = isLate ? { message: 'The run took too long', code: 'timeout' } : { message: String(error), code: 'network' };
      return `data: ${JSON.stringify({ type: 'RUN_ERROR', ...about })}\n\n`;
    };
    try {
      const response = await base(url, { ...init, signal });
      const { body, headers } = response;
      if (!response.ok || body === null || PROTOBUF.test(headers.get('content-type') ?? '')) return response;
      return new Response(wholeFrames(body, signal, failure, stop), response);
    } catch (error) {
      // What a `fetch` throws when there is no connection; everything else is somebody's own error.
      if (!signal.aborted && nameOf(error) !== 'TypeError') throw error;
      return new Response(failure(error), { headers: { 'content-type': 'text/event-stream' } });
    }
  };
}

/** The body by whole frames: of one that is cut off nobody could make sense, and what is said of the cut would be taken for a part of it. */
function wholeFrames(
  body: ReadableStream<Uint8Array>,
  signal: AbortSignal,
  failure: (error: unknown) => string,
  stop: () => void,
): ReadableStream<Uint8Array> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  const encoder = new TextEncoder();
  let held = '';
  const leave = (): void => {
    stop();
    void reader.cancel().catch(() => undefined);
  };
  // A `fetch` that does not look at its signal would read on.
  onAbort(signal, leave);
  return new ReadableStream(
    {
      async pull(controller) {
        try {
          for (;;) {
            const { done, value } = await reader.read();
            if (signal.aborted) throw signal.reason;
            held += decoder.decode(value, { stream: true });
            // The client reads a last frame without its empty line.
            const whole = done ? held.length : held.lastIndexOf('\n\n') + 2;
            if (whole > 1) {
              controller.enqueue(encoder.encode(held.slice(0, whole)));
              held = held.slice(whole);
              if (!done) return;
            }
            if (done) break;
          }
        } catch (error) {
          controller.enqueue(encoder.encode(failure(error)));
        }
        stop();
        controller.close();
      },
      cancel: leave,
    },
    { highWaterMark: 0 },
  );
}

function nameOf(thrown: unknown): unknown {
  return (Object(thrown) as { readonly name?: unknown }).name;
}
