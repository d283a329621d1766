import { type AnswerFault, faultOfReason } from '../../pipelines/finish-reason.js';
import type { ChatCompletion } from '../../pipelines/models/chat-api.js';

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

  constructor(
    message: string,
    readonly fault?: AnswerFault,
    /** What came of its text. */
    readonly partial?: string,
  ) {
    super(message);
  }
}

const SAYS: Readonly<Record<AnswerFault, string>> = {
  length: 'the answer was cut off at its longest length',
  content_filter: 'the answer was cut off by a content filter of the provider',
  refusal: 'the model refused to answer',
  empty: 'the answer has no text',
};

/**
 * The text of an answer, of which the first choice counts.
 *
 * @param accept what may be wrong with it.
 * @throws AnswerError when something else is.
 */
export function textOf(completion: ChatCompletion, accept: readonly AnswerFault[] = []): string {
  const choice = (completion.choices as ChatCompletion['choices'] | undefined)?.[0];
  if (!choice) throw new AnswerError('the answer has no choices');
  const { content, refusal } = Object(choice.message) as { readonly content?: unknown; readonly refusal?: unknown };
  const refused = partsOf(content, 'refusal') || stringOf(refusal);
  const text = (typeof content === 'string' ? content : partsOf(content, 'text')) || refused;
  const fault = faultOfReason(choice.finish_reason);
  const faults = [
    ...(fault ? [fault] : []),
    ...(refused === '' ? [] : ['refusal' as const]),
    ...(text.trim() === '' ? ['empty' as const] : []),
  ];
  const refusedFor = faults.find((each) => !accept.includes(each));
  if (refusedFor === undefined) return text;
  throw new AnswerError(`${SAYS[refusedFor]} (\`accept: [${refusedFor}]\` takes it)`, refusedFor, text);
}

/** Texts of parts of one type. */
function partsOf(content: unknown, type: 'text' | 'refusal'): string {
  if (!Array.isArray(content)) return '';
  return (content as unknown[])
    .map((part) => Object(part) as { readonly type?: unknown; readonly text?: unknown; readonly refusal?: unknown })
    .map((part) => (part.type === type ? stringOf(part[type]) : ''))
    .join('');
}

function stringOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
