import { lateError } from '../provider-error.js';

/** Lines end in any of three ways; a CR at the very end may be half of a CRLF. */
const LINE_END = /\r\n|\n|\r(?!$)/;

/** Longest line that is waited for: a picture is one, a stream that never ends its line another. */
const MAX_LINE = 16_777_216;

/** The `data` of each event of a `text/event-stream`, wherever its bytes were cut; comments and other fields are left out. */
export async function* serverEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<string, void, undefined> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let text = '';
  let data: string[] = [];
  try {
    for (;;) {
      const { done, value } = await reader.read();
      const more = done ? `${decoder.decode()}\n` : decoder.decode(value, { stream: true });
      const hasEnd = /[\r\n]/.test(more) || text.endsWith('\r');
      text += more;
      if (text.length > MAX_LINE) throw lateError(`a line of the stream is longer than ${String(MAX_LINE)} characters`);
      if (!hasEnd) continue;
      const lines = text.split(LINE_END);
      text = lines.pop() ?? '';
      for (const line of lines) {
        if (line !== '') {
          const field = /^data(?:: ?(.*))?$/s.exec(line);
          if (field) data.push(field[1] ?? '');
          continue;
        }
        if (data.length > 0) yield data.join('\n');
        data = [];
      }
      if (done) return;
    }
  } finally {
    // Of a body that was read to its end this does nothing.
    reader.cancel().catch(() => undefined);
  }
}
