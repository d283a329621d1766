import { type AnswerFault, faultOfReason } from '../../pipelines/finish-reason.js';
import type { ChatCompletion } from '../../pipelines/models/chat-api.js';
import { isTooDeep, MOST_NESTED } from './nesting.js';

/** What an answer is to be: a text as it is, JSON, or a JSON list, each element of which is an item of its own. */
export type AnswerKind = 'text' | 'json' | 'list';

const FENCE = '```';
/** A line at whose end a fence opens. */
const OPENS = /```(?:json)?\s*$/i;

/** @throws AnswerError with the fault `format` when the answer is not what it was to be. Its message says what, never the answer itself. */
export function readAnswer(kind: AnswerKind, text: string): unknown {
  if (kind === 'text') return text;
  const value = parsed(text.trim()) ?? parsed(fenced(text));
  const wrong = (problem: string): AnswerError => new AnswerError(`the answer is ${problem}`, 'format', text);
  if (value === undefined) throw wrong('not JSON');
  if (isTooDeep(value.json)) throw wrong(`nested more than ${String(MOST_NESTED)} deep`);
  if (kind === 'list' && !Array.isArray(value.json)) throw wrong('not a JSON list');
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

/** What was wrong with an answer that failed: what `accept` may take, a form other than that of `answer`, or an error that ended it. */
export type FailedFor = AnswerFault | 'format' | 'error';

/** An answer that came, and is of no use. */
export class AnswerError extends Error {
  override readonly name = 'AnswerError';

  constructor(
    message: string,
    readonly fault: FailedFor,
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
  const choice = firstOf(completion);
  if (!choice) throw new AnswerError('the answer has no choices', 'empty');
  const { content, refusal, tool_calls } = messageOf(choice);
  const refused = partsOf(content, 'refusal') || stringOf(refusal);
  const text = contentOf(completion) || refused;
  if (choice.finish_reason === 'error') throw new AnswerError('an error at the provider ended the answer', 'error', text);
  const fault = faultOfReason(choice.finish_reason);
  const faults = [
    ...(fault ? [fault] : []),
    ...(refused === '' ? [] : ['refusal' as const]),
    ...(text.trim() === '' ? ['empty' as const] : []),
  ];
  const refusedFor = faults.find((each) => !accept.includes(each));
  if (refusedFor === undefined) return text;
  const asksForTools = refusedFor === 'empty' && Array.isArray(tool_calls) && tool_calls.length > 0;
  const says = asksForTools ? 'the answer has no text: the model asks for a tool, and `sluice run` has none' : SAYS[refusedFor];
  throw new AnswerError(`${says} (\`accept: [${refusedFor}]\` takes it)`, refusedFor, text);
}

/** Whether nothing is wrong with an answer. */
export function isFaultless(completion: ChatCompletion): boolean {
  return isRight(() => textOf(completion));
}

/** Whether a text can be read as what an answer is to be. */
export function isOfKind(kind: AnswerKind, text: string): boolean {
  return isRight(() => readAnswer(kind, text));
}

function isRight(read: () => unknown): boolean {
  try {
    read();
    return true;
  } catch {
    return false;
  }
}

/** The text of the first choice, whatever is wrong with it; empty when it has none. */
export function contentOf(completion: ChatCompletion): string {
  const { content } = messageOf(firstOf(completion));
  return typeof content === 'string' ? content : partsOf(content, 'text');
}

function firstOf({ choices }: ChatCompletion): ChatCompletion['choices'][number] | undefined {
  const list: readonly unknown[] = Array.isArray(choices) ? choices : [];
  return (list[0] ?? undefined) as ChatCompletion['choices'][number] | undefined;
}

interface AnyMessage {
  readonly content?: unknown;
  readonly refusal?: unknown;
  readonly tool_calls?: unknown;
}

function messageOf(choice: { readonly message: unknown } | undefined): AnyMessage {
  return Object(choice?.message) as AnyMessage;
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
