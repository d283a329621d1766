import { CST, Lexer } from 'yaml';

/** Lists and mappings inside one another: a configuration has six, a JSON Schema in it some more. */
export const MOST_DEPTH = 64;
/** In characters. */
export const MOST_CHARS = 4_194_304;
/** Values in a configuration, each use of an anchor counted with all that it stands for. */
export const MOST_VALUES = 200_000;

/** Where a text goes deeper than {@link MOST_DEPTH}, as far as its tokens say; undefined when it does not. One walk, without recursion. */
export function tooDeepAt(text: string): number | undefined {
  /** Lines that what follows may be inside of: how far each is indented, and how much it has opened. */
  let lines: { readonly indent: number; marks: number }[] = [];
  let line: { readonly indent: number; marks: number } | undefined;
  let flow = 0;
  let offset = 0;
  let lineStart = 0;
  for (const token of new Lexer().lex(text)) {
    const type = CST.tokenType(token);
    if (type === 'flow-seq-start' || type === 'flow-map-start') flow += 1;
    else if (type === 'flow-seq-end' || type === 'flow-map-end') flow = Math.max(0, flow - 1);
    else if (type === 'newline') lineStart = offset + token.length;
    if (type === 'newline') line = undefined;
    else if (flow === 0 && type !== 'space' && type !== 'comment' && !isMark(type) && line === undefined) {
      const indent = offset - lineStart;
      line = { indent, marks: 0 };
      lines = [...lines.filter((before) => before.indent < indent && before.marks > 0), line];
    }
    if (line && flow === 0 && (type === 'seq-item-ind' || type === 'explicit-key-ind' || type === 'map-value-ind')) line.marks += 1;
    if (flow + lines.reduce((sum, { marks }) => sum + marks, 0) > MOST_DEPTH) return offset;
    if (!isMark(type)) offset += token.length;
  }
  return undefined;
}

/** Tokens that the lexer puts in, and that are not in the text. */
function isMark(type: CST.TokenType | null): boolean {
  return type === 'doc-mode' || type === 'scalar' || type === 'flow-error-end';
}
