import type { Usage } from '../../operators/types.js';
import { estimatorFor } from '../tokenizers/estimate.js';
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
    this.#pieces = new PieceCounter(model);
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

/** Estimates the output of a stream by its pieces, of which one alone may be part of a token. */
export class PieceCounter {
  readonly #estimate: (text: string) => number;
  #text = '';
  #tokens = 0;

  constructor(model?: string) {
    this.#estimate = estimatorFor(model);
  }

  add(event: unknown): void {
    this.#text += pieceIn(event);
    if (this.#text.length < END_CHARS) return;
    this.#tokens += this.#estimate(this.#text);
    this.#text = '';
  }

  get tokens(): number {
    return this.#tokens + (this.#text === '' ? 0 : this.#estimate(this.#text));
  }
}

/** What one event of a stream adds to the output: text, reasoning and arguments of tools, in the places where the APIs put them. */
function pieceIn(event: unknown): string {
  const { choices, delta, candidates, message, response, type } = Object(event) as Readonly<Record<string, unknown>>;
  let piece = '';
  const add = (text: unknown): void => {
    if (typeof text === 'string') piece += text;
  };
  for (const choice of listOf(choices)) {
    const { content, reasoning, reasoning_content, refusal, tool_calls } = Object(choice['delta']) as Readonly<Record<string, unknown>>;
    for (const text of [content, reasoning ?? reasoning_content, refusal, choice['text']]) add(text);
    for (const call of listOf(tool_calls)) add((Object(call['function']) as Readonly<Record<string, unknown>>)['arguments']);
  }
  // Responses, and Anthropic's blocks.
  if (typeof delta === 'string') {
    if (String(type).endsWith('.delta')) add(delta);
  } else {
    const { text, partial_json, thinking } = Object(delta) as Readonly<Record<string, unknown>>;
    for (const part of [text, partial_json, thinking]) add(part);
  }
  for (const candidate of listOf(candidates))
    for (const part of listOf((Object(candidate['content']) as Readonly<Record<string, unknown>>)['parts'])) {
      add(part['text']);
      if (part['functionCall'] !== undefined) piece += JSON.stringify(part['functionCall']);
    }
  // Ollama.
  if (type === undefined) {
    add(response);
    add((Object(message) as Readonly<Record<string, unknown>>)['content']);
  }
  return piece;
}

function listOf(value: unknown): readonly Readonly<Record<string, unknown>>[] {
  return Array.isArray(value) ? (value as unknown[]).map((one) => Object(one) as Readonly<Record<string, unknown>>) : [];
}
