import { estimateTokens } from '../tokenizers/estimate.js';

export interface ChunkOptions {
  /** Most estimated tokens in one chunk; a chunk ends at a paragraph from 60 % of it on. @defaultValue 200 */
  readonly maxTokens?: number;
  /** @defaultValue `estimateTokens` */
  readonly countTokens?: (text: string) => number;
}

/** 200 by the estimate leaves room for a model's limit of 256 word pieces. */
const DEFAULT_MAX_TOKENS = 200;

/** Share of `maxTokens` from which a chunk may end at a paragraph. */
const PARAGRAPH_RATIO = 0.6;

/** Line breaks may cost a token of their own. */
const BREAK_TOKENS = 1;

/**
 * Cuts a text into chunks, lazily and in one walk over it.
 *
 * - **Cuts** at blank lines where it can, then between lines, and inside a line only when the line alone is too long.
 * - **Covers** every non-blank line exactly once; runs of blank lines shrink to one. Never an empty or blank chunk.
 */
export function* chunkText(text: string, options: ChunkOptions = {}): Generator<string, void, undefined> {
  const maxTokens = options.maxTokens ?? DEFAULT_MAX_TOKENS;
  const packer = new Packer(maxTokens, options.countTokens ?? estimateTokens);
  for (const paragraph of paragraphsOf(linesOf(text), maxTokens)) {
    packer.add(paragraph);
    yield* packer.take();
  }
  packer.close();
  yield* packer.take();
}

interface Line {
  readonly number: number;
  readonly text: string;
}

function* linesOf(text: string): Generator<Line> {
  const lineEnd = /\r\n|[\n\r]/g;
  let number = 1;
  let start = 0;
  for (let match = lineEnd.exec(text); match !== null; match = lineEnd.exec(text)) {
    yield { number, text: text.slice(start, match.index) };
    start = lineEnd.lastIndex;
    number += 1;
  }
  yield { number, text: text.slice(start) };
}

function* paragraphsOf(lines: Iterable<Line>, maxLines: number): Generator<readonly Line[]> {
  let open: Line[] = [];
  for (const line of lines) {
    const blank = line.text.trim() === '';
    if (!blank) open.push(line);
    // A line costs at least a token, so a paragraph of more lines cannot stay in one piece: no need to hold a whole file.
    if (open.length > 0 && (blank || open.length > maxLines)) {
      yield open;
      open = [];
    }
  }
  if (open.length > 0) yield open;
}

/** A run of text in the open chunk. */
interface Part {
  readonly startLine: number;
  readonly endLine: number;
  readonly text: string;
  readonly tokens: number;
}

/** Fills chunks with paragraphs, each no heavier than `maxTokens`. */
class Packer {
  readonly #maxTokens: number;
  readonly #countTokens: (text: string) => number;
  #parts: Part[] = [];
  #tokens = 0;
  #done: string[] = [];

  constructor(maxTokens: number, countTokens: (text: string) => number) {
    this.#maxTokens = maxTokens;
    this.#countTokens = countTokens;
  }

  /** Chunks closed since the last call. */
  take(): readonly string[] {
    const done = this.#done;
    this.#done = [];
    return done;
  }

  add(paragraph: readonly Line[]): void {
    if (this.#tokens >= this.#maxTokens * PARAGRAPH_RATIO) this.close();
    const part = this.#part(paragraph);
    if (!this.#fits(part)) this.close();
    if (this.#fits(part)) this.#push(part);
    else for (const line of paragraph) this.#addLine(line);
  }

  close(): void {
    if (this.#parts.length > 0) this.#done.push(join(this.#parts));
    this.#parts = [];
    this.#tokens = 0;
  }

  #addLine(line: Line): void {
    const part = this.#part([line]);
    if (!this.#fits(part)) this.close();
    if (this.#fits(part)) this.#push(part);
    else this.#cut(line);
  }

  /** A line too long for one chunk: pieces that end after a space where there is one, never inside a surrogate pair. */
  #cut(line: Line): void {
    for (let start = 0; start < line.text.length; ) {
      const room = this.#maxTokens - this.#tokens - BREAK_TOKENS;
      const piece = this.#prefix(line.text, start, room);
      if (piece.trim() !== '') this.#push(this.#part([{ number: line.number, text: piece }]));
      start += piece.length;
      if (start < line.text.length) this.close();
    }
  }

  /** As much text from `start` on as `room` tokens hold; looks at a bounded window only, so that cutting a line stays linear. */
  #prefix(text: string, start: number, room: number): string {
    let size = room * 4;
    for (;;) {
      const piece = wholeCharacters(text, start, size);
      const tokens = this.#countTokens(piece);
      if (tokens <= room || piece.length <= 2) return start + piece.length < text.length ? atSpace(piece) : piece;
      size = Math.min(piece.length - 1, Math.floor((piece.length * room) / tokens));
    }
  }

  #part(lines: readonly Line[]): Part {
    return {
      startLine: (lines[0] as Line).number,
      endLine: (lines.at(-1) as Line).number,
      text: lines.map((line) => line.text).join('\n'),
      tokens: lines.reduce((sum, line) => sum + this.#countTokens(line.text) + BREAK_TOKENS, 0),
    };
  }

  #fits(part: Part): boolean {
    return this.#tokens + part.tokens <= this.#maxTokens;
  }

  #push(part: Part): void {
    this.#parts.push(part);
    this.#tokens += part.tokens;
  }
}

/** The parts as they stood in the text, with at most one blank line between two of them. */
function join(parts: readonly Part[]): string {
  let text = '';
  parts.forEach((part, i) => {
    const before = parts[i - 1];
    text += before === undefined ? part.text : '\n'.repeat(Math.min(2, part.startLine - before.endLine)) + part.text;
  });
  return text;
}

function wholeCharacters(text: string, start: number, size: number): string {
  const end = start + Math.max(1, size);
  const splitsPair = /[\uD800-\uDBFF]/.test(text.charAt(end - 1)) && /[\uDC00-\uDFFF]/.test(text.charAt(end));
  if (!splitsPair) return text.slice(start, end);
  return text.slice(start, size > 1 ? end - 1 : end + 1);
}

/** The piece up to and including its last space, when that keeps more than half of it. */
function atSpace(piece: string): string {
  const space = Math.max(piece.lastIndexOf(' '), piece.lastIndexOf('\t'));
  return space >= piece.length / 2 ? piece.slice(0, space + 1) : piece;
}
