import { createHash } from 'node:crypto';
import { estimateTokens } from '../../src/index.js';

/** A part of one document, short enough for an embedding model. */
export interface Passage {
  readonly file: string;
  /** First and last line, from 1. */
  readonly startLine: number;
  readonly endLine: number;
  readonly text: string;
  /** SHA-256 of `text`, as hex: equal texts are embedded once. */
  readonly sha256: string;
}

/** The model reads 256 word pieces; 200 by the estimate leaves room. */
const MAX_TOKENS = 200;
/** Share of `MAX_TOKENS` from which a passage ends at a heading, and at a blank line. */
const ENOUGH_AT_HEADING = 0.3;
const ENOUGH_AT_BLANK = 0.6;
/** Longer lines are cut into pieces of so many characters. */
const MAX_LINE_CHARS = 400;

const HEADING = /^#{1,6}\s/;
const CODE_FENCE = /^\s*(?:```|~~~)/;

/** Cuts a Markdown or plain text at headings, blank lines or, where neither is near, between lines. Every line with text is in one passage. */
export function* passagesOf(file: string, text: string): Generator<Passage> {
  let open: { readonly number: number; readonly text: string }[] = [];
  let tokens = 0;
  let inCode = false;

  function* close(): Generator<Passage> {
    const lines = open.map((line) => line.text);
    const passage = lines.join('\n').trim();
    const from = lines.findIndex((line) => line.trim() !== '');
    const to = lines.findLastIndex((line) => line.trim() !== '');
    if (passage !== '') {
      const sha256 = createHash('sha256').update(passage).digest('hex');
      yield { file, startLine: open[from]?.number ?? 1, endLine: open[to]?.number ?? 1, text: passage, sha256 };
    }
    [open, tokens] = [[], 0];
  }

  for (const [i, line] of text.split(/\r\n|[\n\r]/).entries()) {
    if (CODE_FENCE.test(line)) inCode = !inCode;
    const enough = HEADING.test(line) && !inCode ? ENOUGH_AT_HEADING : line.trim() === '' && !inCode ? ENOUGH_AT_BLANK : 1;
    if (tokens >= enough * MAX_TOKENS) yield* close();
    for (const piece of piecesOf(line)) {
      // The line feed may cost a token of its own.
      const cost = estimateTokens(piece) + 1;
      if (tokens + cost > MAX_TOKENS) yield* close();
      open.push({ number: i + 1, text: piece });
      tokens += cost;
    }
  }
  yield* close();
}

/** A line in pieces of at most `MAX_LINE_CHARS` characters, none of them cut in two. */
function piecesOf(line: string): string[] {
  if (line.length <= MAX_LINE_CHARS) return [line];
  const characters = Array.from(line);
  const count = Math.ceil(characters.length / MAX_LINE_CHARS);
  return Array.from({ length: count }, (_, i) => characters.slice(i * MAX_LINE_CHARS, (i + 1) * MAX_LINE_CHARS).join(''));
}
