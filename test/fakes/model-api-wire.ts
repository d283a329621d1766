import type { IncomingMessage, ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';

export interface StreamOptions {
  /** Pause before each further chunk and before the end. */
  readonly gapMs: number;
  /** How many chunks are sent before the connection is cut; all and the end when undefined. */
  readonly cutAfter: number | undefined;
  /** Aborted when the connection is closed. */
  readonly closed: AbortSignal;
}

/** The body of a request, undefined when it has none. Rejects when it is not JSON, or when the client leaves before all of it is here. */
export async function jsonOf(request: IncomingMessage): Promise<unknown> {
  let text = '';
  request.setEncoding('utf8');
  for await (const part of request) text += part as string;
  return text === '' ? undefined : (JSON.parse(text) as unknown);
}

/** Rejects when the connection is closed meanwhile. */
export async function pause(ms: number, closed: AbortSignal): Promise<void> {
  if (ms > 0) await sleep(ms, undefined, { signal: closed });
  closed.throwIfAborted();
}

/** Sends the head with the first chunk, the other chunks and the tail, or cuts the connection before. */
export async function stream(frames: readonly string[], response: ServerResponse, options: StreamOptions): Promise<void> {
  const { gapMs, cutAfter = Infinity, closed } = options;
  // The tail is never sent by a stream that is to be cut.
  const end = cutAfter === Infinity ? frames.length : Math.min(cutAfter + 1, frames.length - 1);
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' });
  for (const [index, frame] of frames.slice(0, end).entries()) {
    if (index > 1) await pause(gapMs, closed);
    // Written out before the next one, so that a cut comes after all that was to be sent.
    await new Promise((written) => response.write(frame, written));
  }
  if (cutAfter === Infinity) response.end();
  else response.socket?.destroy();
}
