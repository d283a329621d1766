import type { EventSourceMessage } from 'eventsource-parser';
import { createParser } from 'eventsource-parser';
import { tooLongError } from './provider-error.js';

/** Longest event that is waited for: a picture is one, a stream that never ends its line another. */
export const MAX_EVENT_CHARS = 16_777_216;

export interface EventParserRules {
  /** Most characters in the data of one event; a line that is no data may be about as long. Infinity = no limit. */
  readonly maxEventChars: number;
  readonly onEvent: (event: EventSourceMessage) => void;
  /** The server says how long to wait before the next connection, in ms. */
  readonly onRetry?: (ms: number) => void;
}

/**
 * Takes the text of a `text/event-stream` in any pieces, and tells what is whole; comments and unknown fields are passed over.
 *
 * @returns what to feed; it throws a `ProviderError` when an event gets too long
 */
export function eventParser({ maxEventChars, ...told }: EventParserRules): (text: string) => void {
  const tooLong = (): Error => tooLongError(`an event is longer than ${String(maxEventChars)} characters`);
  const parser = createParser({
    ...told,
    // Looked at behind each line: what is held then is the data of an event, and nothing else.
    maxBufferSize: maxEventChars === Infinity ? undefined : maxEventChars,
    onError: ({ type }) => {
      if (type === 'max-buffer-size-exceeded') throw tooLong();
    },
  });
  /** The one that has not ended. */
  let line = '';
  let endsWithCr = false;
  // The parser would wait for what follows a CR at the end of a piece: it may be a CRLF.
  return (text) => {
    if (text === '') return;
    const rest = endsWithCr && text.startsWith('\n') ? text.slice(1) : text;
    endsWithCr = text.endsWith('\r');
    const lines = rest.includes('\r') ? rest.replaceAll(/\r\n?/g, '\n') : rest;
    for (let start = 0; ; ) {
      const end = lines.indexOf('\n', start);
      line += lines.slice(start, end < 0 ? undefined : end);
      if (line.length > maxEventChars + 'data: '.length) throw tooLong();
      if (end < 0) return;
      parser.feed(`${line}\n`);
      line = '';
      start = end + 1;
    }
  };
}

/** The `data` of each event of a body, wherever its bytes were cut. A last line needs no end. */
export async function* serverEvents(body: ReadableStream<Uint8Array> | AsyncIterable<Uint8Array>): AsyncGenerator<string, void, undefined> {
  const reader = readerOf(body);
  const decoder = new TextDecoder();
  let read: string[] = [];
  const feed = eventParser({ maxEventChars: MAX_EVENT_CHARS, onEvent: ({ data }) => read.push(data) });
  try {
    for (;;) {
      const { done, value } = await reader.read();
      feed(done ? `${decoder.decode()}\n` : decoder.decode(value, { stream: true }));
      yield* read;
      read = [];
      if (done) return;
    }
  } finally {
    // Of a body that was read to its end this does nothing.
    reader.cancel().catch(() => undefined);
  }
}

type Reader = Pick<ReadableStreamDefaultReader<Uint8Array>, 'read' | 'cancel'>;

/** Not every `fetch` has bodies that are web streams. */
function readerOf(body: ReadableStream<Uint8Array> | AsyncIterable<Uint8Array>): Reader {
  if ('getReader' in body) return body.getReader();
  const iterator = body[Symbol.asyncIterator]();
  return {
    read: async () => {
      const step = await iterator.next();
      return step.done === true ? { done: true, value: undefined } : { done: false, value: step.value };
    },
    cancel: async () => {
      await iterator.return?.();
    },
  };
}
