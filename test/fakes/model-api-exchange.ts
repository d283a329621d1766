import type { Refusal } from './failing-api.js';

/** What one API makes of one request: what it costs, and the answer. */
export interface Exchange {
  /** As `usage` in the answer reports them. */
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** The most output that the request allows, when it says so. */
  readonly maxOutputTokens?: number | undefined;
  /** Why the request is refused once it has passed the limits. */
  readonly poison?: Refusal | undefined;
  /** An object is answered whole as JSON. A list of frames is streamed: the head, one for each chunk, the tail. */
  readonly answer: object | readonly string[];
}

export interface ExchangeContext {
  /** Number of the request; ids in the answer are made from it. */
  readonly id: number;
  /** How many chunks a streamed answer has, unless it is shorter than that. */
  readonly chunks: number;
  /** Whether a refusal says which item it is about. */
  readonly namePoison: boolean;
}

/** Reads the parsed body of a request. */
export type Api = (body: unknown, context: ExchangeContext) => Exchange;

/** What the model says: the last message again, or the call of a tool that this message asks for. */
export interface Reply {
  /** The text, or the arguments of the tool call as JSON. */
  readonly text: string;
  /** The tool to call. */
  readonly tool: string | undefined;
  readonly outputTokens: number;
  readonly poison: Refusal | undefined;
}

/** A text or a message with this word in it is refused. */
export const POISON = 'POISON';

/** Tokens are a quarter of the characters of each text, rounded up. */
export function tokensOf(text: string): number {
  return Math.ceil(text.length / 4);
}

/** The tokens of each message together; roles, tools and images cost nothing. */
export function tokensIn(messages: readonly unknown[]): number {
  return messages.reduce<number>((sum, message) => sum + tokensOf(textOf(message)), 0);
}

/** The text of a message, a content part, a list of parts or the result of a tool, in any of the APIs. */
export function textOf(content: unknown): string {
  if (typeof content === 'string') return content;
  if (Array.isArray(content)) return content.map(textOf).join('');
  const { text, content: inner, output } = Object(content) as Partial<Record<'text' | 'content' | 'output', unknown>>;
  return textOf(text ?? inner ?? output ?? '');
}

/** The answer to a conversation: to what the user or a tool said last. `CALL <name> <json>` is answered with that tool call. */
export function replyTo(messages: readonly unknown[]): Reply {
  const last = textOf(messages.findLast(isAsking));
  const [, tool, json] = /^CALL (\S+) (.*)$/s.exec(last) ?? [];
  const text = json ?? last;
  const poison = last.includes(POISON) ? { status: 400, message: 'Invalid prompt: it was refused.', code: 'invalid_prompt' } : undefined;
  return { text, tool, outputTokens: tokensOf(`${tool ?? ''}${text}`), poison };
}

/** One event of a stream; only some APIs name theirs. */
export function frame(data: object | '[DONE]', name?: string): string {
  const line = `data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`;
  return name === undefined ? line : `event: ${name}\n${line}`;
}

/** `text` in `chunks` pieces of about the same length, none of them empty. */
export function piecesOf(text: string, chunks: number): readonly string[] {
  const length = Math.ceil(text.length / chunks);
  return Array.from({ length: length === 0 ? 0 : Math.ceil(text.length / length) }, (_, i) => text.slice(i * length, (i + 1) * length));
}

function isAsking(message: unknown): boolean {
  const { role, type } = Object(message) as { role?: unknown; type?: unknown };
  return role === 'user' || role === 'tool' || type === 'function_call_output';
}
