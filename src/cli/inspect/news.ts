import type { FlowEvent } from '../../../operators/index.js';
import { faultOf } from '../../inspector/event-fault.js';
import type { Recording } from '../../inspector/export-recording.js';
import { readEvent } from '../../inspector/read-event.js';

/** What a file or an address tells, in its order. */
export type News =
  | { readonly type: 'events'; readonly events: readonly FlowEvent[] }
  /** An export of the inspector: all of it. */
  | { readonly type: 'recording'; readonly recording: Recording }
  /** What is no event, after {@link News} said `caughtUp`; before that it is thrown. */
  | { readonly type: 'fault'; readonly fault: string }
  /** All that was there has been told; what comes now is new. */
  | { readonly type: 'caughtUp' }
  /** What comes now is another run: the file was written anew, or the connection was lost and is there again. */
  | { readonly type: 'restarted' }
  | { readonly type: 'disconnected' }
  /** Nothing more will come. */
  | { readonly type: 'ended' };

/** Longer lines are no events. */
export const MAX_LINE_BYTES = 1 << 20;

export const TOO_LONG = `is longer than ${String(MAX_LINE_BYTES)} bytes, which no event is`;

/** The event that a line tells; undefined for an empty one, or in words why it is none. */
export function eventOfLine(line: string): FlowEvent | string | undefined {
  // Also the mark of the byte order, with which some editors begin a file.
  const text = line.trim();
  if (text === '') return undefined;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return 'is not JSON';
  }
  return readEvent(value) ?? `is not an event of Sluice: ${faultOf(value)}`;
}

/** Waits; less when the signal aborts. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    if (signal.aborted) done();
    else signal.addEventListener('abort', done);
  });
}
