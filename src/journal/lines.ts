import { isUtf8 } from 'node:buffer';
import { createReadStream } from 'node:fs';

/** What an editor may put in front of a text: the mark of the byte order. */
export const MARK = /^\uFEFF/;

/** One line of a file, without its line feed; the first without the mark of the byte order. */
export interface FileLine {
  /** From 1. */
  readonly number: number;
  readonly text: string;
  /** False for a last line that no line feed ends. */
  readonly complete: boolean;
  /** Bytes from the start of the file to the end of this line. */
  readonly endOffset: number;
  /** Whether its bytes are UTF-8; elsewhere the text has a mark in place of what is not. */
  readonly isUtf8: boolean;
}

const LINE_FEED = 0x0a;

/** Cuts pieces of a file into lines. Only line feeds end a line: `readline` also splits at U+2028, which JSON text may contain. */
export class LineSplitter {
  #open: Buffer[] = [];
  #number = 0;
  #endOffset = 0;
  #openBytes = 0;

  /** How many lines there were. */
  get number(): number {
    return this.#number;
  }

  /** What stands behind the last line feed. */
  get open(): string {
    return Buffer.concat(this.#open).toString('utf8');
  }

  /** Bytes of it. */
  get openBytes(): number {
    return this.#openBytes;
  }

  *push(piece: Buffer): Generator<FileLine, void, undefined> {
    let start = 0;
    for (let end = piece.indexOf(LINE_FEED); end !== -1; end = piece.indexOf(LINE_FEED, start)) {
      yield this.#line(piece.subarray(start, end), true);
      start = end + 1;
    }
    if (start === piece.length) return;
    this.#open.push(piece.subarray(start));
    this.#openBytes += piece.length - start;
  }

  /** The line that no line feed has ended, if anything stands there. */
  rest(): FileLine | undefined {
    return this.#open.length > 0 ? this.#line(Buffer.alloc(0), false) : undefined;
  }

  #line(last: Buffer, complete: boolean): FileLine {
    const bytes = Buffer.concat([...this.#open, last]);
    this.#open = [];
    this.#openBytes = 0;
    this.#number += 1;
    this.#endOffset += bytes.length + (complete ? 1 : 0);
    const text = bytes.toString('utf8');
    return {
      number: this.#number,
      text: this.#number === 1 ? text.replace(MARK, '') : text,
      complete,
      endOffset: this.#endOffset,
      isUtf8: isUtf8(bytes),
    };
  }
}

/** Reads a file line by line, from byte `start` up to byte `end`. */
export async function* readLines(path: string, start = 0, end = Infinity): AsyncGenerator<FileLine, void, undefined> {
  if (end <= start) return;
  const splitter = new LineSplitter();
  const stream = createReadStream(path, { highWaterMark: 1 << 16, start, end: end - 1 });
  for await (const piece of stream as AsyncIterable<Buffer>) yield* splitter.push(piece);
  const rest = splitter.rest();
  if (rest !== undefined) yield rest;
}
