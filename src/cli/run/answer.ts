import { isTooDeep, MOST_NESTED } from './nesting.js';

/** What an answer is to be: a text as it is, JSON, or a JSON list, each element of which is an item of its own. */
export type AnswerKind = 'text' | 'json' | 'list';

const FENCE = '```';
/** A line at whose end a fence opens. */
const OPENS = /```(?:json)?\s*$/i;

/** @throws AnswerError when the answer is not what it was to be; says what, never the answer itself. */
export function readAnswer(kind: AnswerKind, text: string): unknown {
  if (kind === 'text') return text;
  const value = parsed(text.trim()) ?? parsed(fenced(text));
  if (value === undefined) throw new AnswerError('the answer is not JSON');
  if (isTooDeep(value.json)) throw new AnswerError(`the answer is nested more than ${String(MOST_NESTED)} deep`);
  if (kind === 'list' && !Array.isArray(value.json)) throw new AnswerError('the answer is not a JSON list');
  return value.json;
}

/** Models like to put a fence around their answer: the lines in the first one. Line by line, so that the time grows with the length only. */
function fenced(text: string): string {
  const lines = text.split('\n');
  const open = lines.findIndex((line) => OPENS.test(line));
  const close = lines.findIndex((line, i) => i > open && line.trimStart().startsWith(FENCE));
  return open < 0 || close < 0 ? '' : lines.slice(open + 1, close).join('\n');
}

function parsed(text: string): { readonly json: unknown } | undefined {
  try {
    return { json: JSON.parse(text) };
  } catch {
    return undefined;
  }
}

/** An answer that came, and is of no use. */
export class AnswerError extends Error {
  override readonly name = 'AnswerError';
}
