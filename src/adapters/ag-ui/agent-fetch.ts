import { abortReason, onAbort } from '../../../operators/toolkit.js';
import type { AguiFetch } from './types.js';

/** A stream that is no text: what cannot be said there is left as it is. */
const PROTOBUF = /protobuf|\+proto/;
const NEWLINE = 10;

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
    const abort = (): void => {
      own.abort(abortReason());
    };
    const stops = [onAbort(signalOf(init), abort), onAbort(init.signal ?? undefined, abort)];
    const stop = (): void => {
      for (const each of stops) each();
    };
    /** The frame that says what happened, unless the run was given up. */
    const frameOf = (error: unknown): Uint8Array<ArrayBuffer> | undefined => {
      if (!signal.aborted) return frame('network', String(error));
      const isLate = nameOf(init.signal?.reason) === 'TimeoutError';
      return isLate ? frame('timeout', 'The run took too long') : undefined;
    };
    try {
      const response = await base(url, { ...init, signal });
      const { body, headers } = response;
      if (!response.ok || body === null || PROTOBUF.test(headers.get('content-type') ?? '')) return response;
      return new Response(wholeFrames(body, signal, frameOf, stop), response);
    } catch (error) {
      stop();
      // What a `fetch` throws when there is no connection; everything else is somebody's own error.
      if (!signal.aborted && nameOf(error) !== 'TypeError') throw error;
      const failure = frameOf(error);
      if (failure === undefined) throw abortReason();
      return new Response(failure, { headers: { 'content-type': 'text/event-stream' } });
    }
  };
}

/** The body by whole frames: of one that is cut off nobody could make sense, and what is said of the cut would be taken for a part of it. */
function wholeFrames(
  body: ReadableStream<Uint8Array<ArrayBuffer>>,
  signal: AbortSignal,
  frameOf: (error: unknown) => Uint8Array<ArrayBuffer> | undefined,
  stop: () => void,
): ReadableStream<Uint8Array<ArrayBuffer>> {
  const reader = body.getReader();
  let held: Uint8Array<ArrayBuffer>[] = [];
  let last = 0;
  const leave = (): Promise<void> => reader.cancel().catch(() => undefined);
  // A `fetch` that does not look at its signal would read on.
  const stopListening = onAbort(signal, () => void leave());
  const end = (): void => {
    stop();
    stopListening();
  };

  /** Hands on what the bytes make whole; true when that was something. */
  const read = (bytes: Uint8Array<ArrayBuffer>, controller: ReadableStreamDefaultController<Uint8Array<ArrayBuffer>>): boolean => {
    const whole = endOfFrames(bytes, last);
    last = bytes.at(-1) ?? last;
    if (whole === 0) {
      held.push(bytes);
      return false;
    }
    for (const part of held) controller.enqueue(part);
    controller.enqueue(bytes.subarray(0, whole));
    held = whole === bytes.length ? [] : [bytes.subarray(whole)];
    return true;
  };

  return new ReadableStream(
    {
      async pull(controller) {
        try {
          for (;;) {
            const { done, value } = await reader.read();
            if (signal.aborted) throw signal.reason;
            if (done) break;
            if (read(value, controller)) return;
          }
          // The client reads a last frame without its empty line.
          for (const part of held) controller.enqueue(part);
        } catch (error) {
          const failure = frameOf(error);
          if (failure === undefined) {
            end();
            controller.error(abortReason());
            return;
          }
          controller.enqueue(failure);
        }
        end();
        controller.close();
      },
      cancel() {
        end();
        return leave();
      },
    },
    { highWaterMark: 0 },
  );
}

/** How many of the bytes belong to whole frames, which end with an empty line. */
function endOfFrames(bytes: Uint8Array, before: number): number {
  let end = bytes.length;
  while (end > 0 && !(bytes[end - 1] === NEWLINE && (end === 1 ? before : bytes[end - 2]) === NEWLINE)) end--;
  return end;
}

function frame(code: string, message: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(`data: ${JSON.stringify({ type: 'RUN_ERROR', message, code })}\n\n`);
}

function nameOf(thrown: unknown): unknown {
  return (Object(thrown) as { readonly name?: unknown }).name;
}
