import type { Usage } from '../../operators/index.js';
import { estimatorFor } from '../tokenizers/estimate.js';
import { PieceCounter } from './piece-counter.js';
import { mostOf, readUsage } from './read-usage.js';

/** Longest answer that is kept to be read as a whole. Longer ones are lists of vectors. */
const MOST_CHARS = 1_048_576;
/** Of a longer one: where its usage is, which such answers have at one end. */
const END_CHARS = 4_096;
/** A `usage` object with at most one level of objects in it. */
const USAGE = /"usage"\s{0,9}:\s{0,9}(\{[^{}]{0,999}(?:\{[^{}]{0,999}\}[^{}]{0,999}){0,9}\})/g;
/** The last thing that a stream in OpenAI's manner says. Its client reads no further, and cancels the body. */
const DONE = '[DONE]';

/**
 * Reads an answer of a model while it passes by: what it says of its tokens, and how much of it has been generated so far. Takes a JSON body, server-sent
 * events, or JSON by lines. Never throws; what cannot be read says nothing.
 */
export class AnswerReader {
  readonly #decoder = new TextDecoder();
  #usage: Usage | undefined;
  #shape: 'unknown' | 'body' | 'lines' = 'unknown';
  #text = '';
  #head = '';
  #length = 0;
  #isDone = false;
  readonly #pieces: PieceCounter;

  /** @param model - finds the encoding by which pieces are estimated */
  constructor(model?: string) {
    this.#pieces = new PieceCounter(estimatorFor(model));
  }

  /** Nothing is missing, though the body may not have ended. */
  get isDone(): boolean {
    return this.#isDone;
  }

  read(bytes: Uint8Array): void {
    const text = this.#decoder.decode(bytes, { stream: true });
    this.#length += text.length;
    this.#text += text;
    if (this.#shape === 'unknown') this.#shape = shapeOf(this.#text);
    if (this.#shape === 'lines') this.#readLines();
    else this.#shorten();
  }

  /** What the answer has said so far; undefined when nothing. The last line of a stream may have no end. */
  get usage(): Usage | undefined {
    if (this.#shape === 'lines') return mostOf(this.#usage, readUsage(eventIn(this.#text)));
    return this.#length <= MOST_CHARS ? usageOfBody(parsed(this.#text)) : usageAtEnds([this.#head, this.#text]);
  }

  /** Tokens of the pieces of a stream that have come so far, estimated. */
  get outputTokens(): number {
    return this.#pieces.tokens;
  }

  #readLines(): void {
    const lines = this.#text.split('\n');
    this.#text = lines.pop() as string;
    // No event of an API is that long.
    if (this.#text.length > MOST_CHARS) this.#text = '';
    for (const line of lines) this.#readLine(line);
  }

  #readLine(line: string): void {
    if (dataOf(line) === DONE) this.#isDone = true;
    const event = eventIn(line);
    if (event === undefined) return;
    this.#usage = mostOf(this.#usage, readUsage(event));
    this.#pieces.add(event);
  }

  /** Keeps the two ends of what is too long to be read. */
  #shorten(): void {
    if (this.#length <= MOST_CHARS) return;
    if (this.#head === '') this.#head = this.#text.slice(0, END_CHARS);
    this.#text = this.#text.slice(-END_CHARS);
  }
}

/** Gemini streams a list of answers. */
function usageOfBody(body: unknown): Usage | undefined {
  const answers: readonly unknown[] = Array.isArray(body) ? body : [body];
  return answers.reduce<Usage | undefined>((usage, answer) => mostOf(usage, readUsage(answer)), undefined);
}

function usageAtEnds(ends: readonly string[]): Usage | undefined {
  const found = ends.flatMap((end) => [...end.matchAll(USAGE)].map(([, usage]) => readUsage({ usage: parsed(usage as string) })));
  return found.reduce(mostOf, undefined);
}

function dataOf(line: string): string {
  return (line.startsWith('data:') ? line.slice(5) : line).trim();
}

/** The JSON object on a line; undefined when there is none. */
function eventIn(line: string): unknown {
  const text = dataOf(line);
  return text.startsWith('{') ? parsed(text) : undefined;
}

/** A body that is JSON begins as JSON; JSON by lines is told from it by its second line. */
function shapeOf(text: string): 'unknown' | 'body' | 'lines' {
  const begin = text.trimStart();
  if (begin === '') return 'unknown';
  if (!/^[{[]/.test(begin)) return 'lines';
  const end = begin.indexOf('\n');
  if (begin.startsWith('[')) return 'body';
  if (end === -1) return text.length > MOST_CHARS ? 'body' : 'unknown';
  return parsed(begin.slice(0, end)) === undefined ? 'body' : 'lines';
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
