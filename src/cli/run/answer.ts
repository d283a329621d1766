/** What an answer is to be: a text as it is, JSON, or a JSON list, each element of which is an item of its own. */
export type AnswerKind = 'text' | 'json' | 'list';

/** Models like to put a fence around what they were asked for. */
const FENCED = /```(?:json)?\s*\n([\s\S]*?)\n\s*```/i;

/** @throws AnswerError when the answer is not what it was to be; says what, never the answer itself. */
export function readAnswer(kind: AnswerKind, text: string): unknown {
  if (kind === 'text') return text;
  const value = parsed(text.trim()) ?? parsed(FENCED.exec(text)?.[1] ?? '');
  if (value === undefined) throw new AnswerError('the answer is not JSON');
  if (kind === 'list' && !Array.isArray(value.json)) throw new AnswerError('the answer is not a JSON list');
  return value.json;
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
