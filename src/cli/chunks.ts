import { createHash } from 'node:crypto';
import { estimateTokens } from '../tokenizers/estimate.js';

/** A passage of one document, small enough for an embedding model. */
export interface Chunk {
  readonly file: string;
  /** First and last line the passage touches, from 1. */
  readonly startLine: number;
  readonly endLine: number;
  readonly text: string;
  /** SHA-256 of `text`, as hex. */
  readonly sha256: string;
}

export interface ChunkOptions {
  /** Most estimated tokens in one chunk; a chunk is closed at a paragraph from 60 % of it on. @defaultValue 200 */
  readonly maxTokens?: number;
  /** @defaultValue `estimateTokens` */
  readonly countTokens?: (text: string) => number;
}

/** 200 by the estimate leaves room for a model's limit of 256 word pieces. */
export const CHUNK_DEFAULTS = { maxTokens: 200 } as const;

/** Share of `maxTokens` from which a chunk may end at a paragraph, and at a heading. */
const PARAGRAPH_RATIO = 0.6;
const HEADING_RATIO = 0.3;
/** Headings longer than this share of a chunk are ordinary text, so that some of their text always fits beside them. */
const MAX_HEADING_RATIO = 0.5;

/** A code fence's mark and what follows it; a backtick later in the line makes it inline code. */
const FENCE = /^ {0,3}(`{3,}(?=[^`]*$)|~{3,})\s*(.*)$/s;
const HEADING = /^ {0,3}#{1,6}\s/;
const UNDERLINE = /^ {0,3}(=+|-+)\s*$/;

/** Line breaks may cost a token of their own. */
const BREAK_TOKENS = 1;

/**
 * Cuts a document into passages, lazily and in one walk over the text.
 *
 * - **Cuts** at headings and blank lines where it can, then between lines, and inside a line only when the line alone is too long.
 * - **Keeps** a Markdown heading with the text below it, and a code fence in one piece when it fits.
 * - **Covers** every non-blank line exactly once; runs of blank lines shrink to one. Never an empty or blank chunk.
 *
 * @param file name put into the chunks; `.md`, `.markdown` and `.mdx` are read as Markdown, all else as plain text.
 */
export function* chunkText(file: string, text: string, options: ChunkOptions = {}): Generator<Chunk, void, undefined> {
  const maxTokens = options.maxTokens ?? CHUNK_DEFAULTS.maxTokens;
  const packer = new Packer(file, maxTokens, options.countTokens ?? estimateTokens);
  const markdown = /\.(md|markdown|mdx)$/i.test(file);
  for (const block of blocksOf(linesOf(text), markdown, maxTokens)) {
    packer.add(block);
    yield* packer.take();
  }
  packer.close();
  yield* packer.take();
}

interface Line {
  readonly number: number;
  readonly text: string;
}

/** Lines that belong together: a paragraph, a heading, a code fence. */
interface Block {
  readonly lines: readonly Line[];
  readonly heading: boolean;
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

function* blocksOf(lines: Iterable<Line>, markdown: boolean, maxLines: number): Generator<Block> {
  let open: Line[] = [];
  let fence: string | undefined;
  const take = (): Block[] => {
    const block = { lines: open, heading: markdown && open.length === 2 && UNDERLINE.test(open[1]?.text ?? '') };
    open = [];
    return block.lines.length === 0 ? [] : [block];
  };
  for (const line of lines) {
    const blank = line.text.trim() === '';
    const mark = markdown ? FENCE.exec(line.text) : null;
    if (fence !== undefined) {
      open.push(line);
      if (mark?.[1]?.startsWith(fence) === true && mark[2] === '') {
        fence = undefined;
        yield* take();
      }
    } else if (mark !== null) {
      yield* take();
      fence = mark[1];
      open.push(line);
    } else if (blank) {
      yield* take();
    } else if (markdown && HEADING.test(line.text)) {
      yield* take();
      yield { lines: [line], heading: true };
    } else {
      open.push(line);
    }
    // A line costs a token at least, so a block of more lines cannot stay in one piece: no need to hold a whole file.
    if (open.length > maxLines) yield* take();
  }
  yield* take();
}

/** A run of text in the open chunk. */
interface Part {
  readonly startLine: number;
  readonly endLine: number;
  readonly text: string;
  readonly tokens: number;
  readonly heading: boolean;
}

/** Fills chunks with blocks, each no heavier than `maxTokens`. */
class Packer {
  readonly #file: string;
  readonly #maxTokens: number;
  readonly #countTokens: (text: string) => number;
  #parts: Part[] = [];
  #tokens = 0;
  #done: Chunk[] = [];

  constructor(file: string, maxTokens: number, countTokens: (text: string) => number) {
    this.#file = file;
    this.#maxTokens = maxTokens;
    this.#countTokens = countTokens;
  }

  /** Chunks closed since the last call. */
  take(): readonly Chunk[] {
    const done = this.#done;
    this.#done = [];
    return done;
  }

  add(block: Block): void {
    if (this.#tokens >= this.#maxTokens * (block.heading ? HEADING_RATIO : PARAGRAPH_RATIO)) this.#closeBeforeHeadings();
    const part = this.#part(block.lines, block.heading);
    if (!this.#fits(part)) this.#closeBeforeHeadings();
    if (this.#fits(part)) this.#push(part);
    else for (const line of block.lines) this.#addLine(line);
  }

  close(): void {
    if (this.#parts.length === 0) return;
    const text = join(this.#parts);
    if (text.trim() !== '') {
      this.#done.push({
        file: this.#file,
        startLine: (this.#parts[0] as Part).startLine,
        endLine: (this.#parts.at(-1) as Part).endLine,
        text,
        sha256: createHash('sha256').update(text).digest('hex'),
      });
    }
    this.#parts = [];
    this.#tokens = 0;
  }

  #addLine(line: Line): void {
    if (line.text.trim() === '') return;
    const part = this.#part([line], false);
    if (!this.#fits(part)) this.#closeBeforeHeadings();
    if (this.#fits(part)) this.#push(part);
    else this.#cut(line);
  }

  /** A line too long for one chunk: pieces that end after a space where there is one, never inside a surrogate pair. */
  #cut(line: Line): void {
    for (let start = 0; start < line.text.length; ) {
      const room = this.#maxTokens - this.#tokens - BREAK_TOKENS;
      const piece = this.#prefix(line.text, start, room);
      if (piece.trim() !== '') this.#push(this.#part([{ number: line.number, text: piece }], false));
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

  #part(lines: readonly Line[], heading: boolean): Part {
    let tokens = 0;
    for (const line of lines) tokens += this.#countTokens(line.text) + BREAK_TOKENS;
    return {
      startLine: (lines[0] as Line).number,
      endLine: (lines.at(-1) as Line).number,
      text: lines.map((line) => line.text).join('\n'),
      tokens,
      heading: heading && tokens <= this.#maxTokens * MAX_HEADING_RATIO,
    };
  }

  #fits(part: Part): boolean {
    return this.#tokens + part.tokens <= this.#maxTokens;
  }

  #push(part: Part): void {
    this.#parts.push(part);
    this.#tokens += part.tokens;
  }

  /** Closes the open chunk; headings at its end start the next one, together with the text they announce. */
  #closeBeforeHeadings(): void {
    const body = this.#parts.findLastIndex((part) => !part.heading) + 1;
    const headings = this.#parts.slice(body);
    const tokens = sumTokens(headings);
    if (tokens > this.#maxTokens * MAX_HEADING_RATIO) {
      this.close();
      return;
    }
    this.#parts.length = body;
    this.close();
    this.#parts = headings;
    this.#tokens = tokens;
  }
}

function sumTokens(parts: readonly Part[]): number {
  return parts.reduce((sum, part) => sum + part.tokens, 0);
}

/** The parts as they stood in the document, with at most one blank line between two of them. */
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
