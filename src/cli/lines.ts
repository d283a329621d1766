import { createReadStream } from 'node:fs';

/** One line of a file, without its line feed. */
export interface FileLine {
  /** From 1. */
  readonly number: number;
  readonly text: string;
  /** False for a last line that no line feed ends. */
  readonly complete: boolean;
  /** Bytes from the start of the file to the end of this line. */
  readonly endOffset: number;
}

const LINE_FEED = 0x0a;

/** Reads a file line by line. Only line feeds end a line: `readline` also splits at U+2028, which JSON text may contain. */
export async function* readLines(path: string): AsyncGenerator<FileLine, void, undefined> {
  let open: Buffer[] = [];
  let number = 0;
  let endOffset = 0;
  const line = (last: Buffer, complete: boolean): FileLine => {
    const bytes = Buffer.concat([...open, last]);
    open = [];
    number += 1;
    endOffset += bytes.length + (complete ? 1 : 0);
    return { number, text: bytes.toString('utf8'), complete, endOffset };
  };
  for await (const piece of createReadStream(path, { highWaterMark: 1 << 20 }) as AsyncIterable<Buffer>) {
    let start = 0;
    for (let end = piece.indexOf(LINE_FEED); end !== -1; end = piece.indexOf(LINE_FEED, start)) {
      yield line(piece.subarray(start, end), true);
      start = end + 1;
    }
    if (start < piece.length) open.push(piece.subarray(start));
  }
  if (open.length > 0) yield line(Buffer.alloc(0), false);
}
