import type { Meter } from './meters.js';
import type { ProviderAnswer, ProviderQuestion } from './types.js';
import type { ProviderUnit } from './units.js';

/** A response that is no answer. */
export interface Failure {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: unknown;
}

/** An answer with everything filled in. */
export interface Generated extends Required<Omit<ProviderAnswer, 'status' | 'message'>> {
  readonly finish: 'stop' | 'length';
  /** Text and tokens of each piece; together they are the answer. */
  readonly pieces: readonly { readonly text: string; readonly tokens: number }[];
  /** Whether the usage is told. */
  readonly usage: boolean;
}

/** An answer in the provider's words. A stream is `opening`, `piece(0)`, …, `closing`; anything else is `whole`. */
export interface Wording {
  readonly whole: () => unknown;
  readonly opening: () => string;
  readonly piece: (text: string) => string;
  readonly closing: () => string;
}

export interface ModelQuestion extends ProviderQuestion {
  /** Which of the provider's endpoints: names a wording. */
  readonly endpoint: string;
  readonly flex: boolean;
  /** How often the output may be made: `n`, `best_of`. */
  readonly choices: number;
  /** Whether the request asks for generated text, and not for vectors. */
  readonly generates: boolean;
  /** A provider's estimate of the input: a quarter of the characters of all texts. */
  readonly estimate: number;
}

/** Where a request goes. */
export type Route =
  | { readonly kind: 'model'; readonly question: ModelQuestion }
  /** Counted by no limit: lists of models, batches, files. */
  | { readonly kind: 'free'; readonly body: unknown; readonly status?: number }
  | { readonly kind: 'bad'; readonly failure: Failure };

/** A refusal by a limit. */
export interface Refusal {
  readonly meter: Meter;
  readonly amount: number;
  /** Infinity: more than the limit can ever grant. */
  readonly waitMs: number;
  readonly question: ModelQuestion;
  /** What is left of the limit. */
  readonly left: number;
  /** What is told of the wait, in the client's time; undefined when hints are switched off. */
  readonly hintMs: number | undefined;
}

export type Accident = 'serverError' | 'overloaded' | 'quota' | 'flexBusy';

/** What the engine needs to know of a provider. */
export interface Rules {
  readonly name: string;
  readonly mainPath: (body: Readonly<Record<string, unknown>>) => string;
  readonly meters: (model: string | undefined, now: number) => readonly Meter[];
  /** Models with limits of their own. */
  readonly models: readonly string[];
  readonly route: (request: IncomingRequest) => Route;
  /** What is charged when a request comes in. */
  readonly onArrival: (question: ModelQuestion, cacheReadTokens: number) => Partial<Record<ProviderUnit, number>>;
  /** Whether output is charged as it is generated, to which unit. */
  readonly asGenerated: ProviderUnit | undefined;
  /** The unit whose charge is corrected to what was generated, when the request ends. */
  readonly settles:
    | ((question: ModelQuestion, outputTokens: number, cacheReadTokens: number) => Partial<Record<ProviderUnit, number>>)
    | undefined;
  /** What a refused request is charged all the same. */
  readonly onRefusal: Partial<Record<ProviderUnit, number>>;
  /** Whether the tokens of a request that is rejected or fails stay charged. */
  readonly keepsFailed: boolean;
  readonly headers: (told: Told) => Readonly<Record<string, string>>;
  readonly refusal: (refusal: Refusal) => Failure;
  /** Refuses for a while, not by a limit. */
  readonly pause: (question: ModelQuestion, hintMs: number | undefined) => Failure;
  readonly accident: (kind: Accident, question: ModelQuestion) => Failure;
  readonly rejection: (status: number, message: string, question: ModelQuestion) => Failure;
  readonly word: (question: ModelQuestion, generated: Generated) => Wording;
  /** The error event of a stream that began with 200. */
  readonly errorEvent: string | undefined;
}

export interface IncomingRequest {
  readonly id: string;
  readonly number: number;
  readonly method: string;
  /** Without the query. */
  readonly path: string;
  readonly query: string;
  readonly body: unknown;
  readonly tokensOf: (text: string) => number;
}

/** What headers are made from. */
export interface Told {
  readonly id: string;
  /** Of a request that asks a model. */
  readonly endpoint: string | undefined;
  readonly meters: readonly Meter[];
  /** The provider's clock. */
  readonly now: number;
  /** The client's clock. */
  readonly clientNow: number;
  /** The provider's ms in ms of the client. */
  readonly clientMs: (ms: number) => number;
}

/** Fields of a JSON body; none for anything else. */
export function fieldsOf(body: unknown): Readonly<Record<string, unknown>> {
  return typeof body === 'object' && body !== null ? (body as Readonly<Record<string, unknown>>) : {};
}

export function numberIn(fields: Readonly<Record<string, unknown>>, ...names: readonly string[]): number | undefined {
  const name = names.find((each) => typeof fields[each] === 'number');
  return name === undefined ? undefined : (fields[name] as number);
}

/** Where a request carries text for the model. */
const TEXT_FIELDS = new Set([
  ...['messages', 'content', 'text', 'input', 'instructions', 'system', 'contents', 'parts', 'systemInstruction', 'system_instruction'],
  ...['prompt', 'arguments', 'output', 'requests', 'thinking'],
]);

/** All texts of a request in their order; tools count as their JSON. */
export function textsIn(body: unknown): readonly string[] {
  if (typeof body === 'string') return [body];
  if (Array.isArray(body)) return body.flatMap((each: unknown) => textsIn(each));
  const fields = fieldsOf(body);
  const texts = Object.entries(fields).flatMap(([name, value]) => (TEXT_FIELDS.has(name) ? textsIn(value) : []));
  return fields['tools'] === undefined ? texts : [...texts, JSON.stringify(fields['tools'])];
}

/** `12ms`, `1.5s`, `6m0s`, `114h18m0s`: durations as OpenAI writes them. */
export function durationText(ms: number): string {
  const whole = Math.ceil(ms);
  if (whole < 1000) return `${String(whole)}ms`;
  const hours = Math.floor(whole / 3_600_000);
  const minutes = Math.floor((whole % 3_600_000) / 60_000);
  const seconds = (whole % 60_000) / 1000;
  if (hours > 0) return `${String(hours)}h${String(minutes)}m${String(seconds)}s`;
  return minutes > 0 ? `${String(minutes)}m${String(seconds)}s` : `${String(seconds)}s`;
}

/** A quarter of all characters, rounded up. */
export function estimateOf(texts: readonly string[]): number {
  return Math.ceil(texts.reduce((sum, { length }) => sum + length, 0) / 4);
}

export function serverEvent(data: unknown, name?: string): string {
  return `${name === undefined ? '' : `event: ${name}\n`}data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`;
}
