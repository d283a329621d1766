import type { Observable, SchedulerLike } from 'rxjs';
import type { WorkerCall } from '../call-log.js';
import type { FakeContext } from '../fake-call.js';
import type { ProviderBooks } from './books.js';

/** One request as it arrives at the provider. */
export interface ProviderRequest {
  /** With its query: `/v1/messages`. */
  readonly path: string;
  /** @defaultValue 'POST' */
  readonly method?: string;
  /** Names in lower case. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Parsed JSON. */
  readonly body?: unknown;
  /** Name of the request in the books. @defaultValue the header `x-client-request-id`, or a serial number: `req_1` */
  readonly id?: string;
}

/** The response, part by part: one `head`, then the body in one chunk or, for a stream, in many. */
export type ProviderEvent =
  | { readonly type: 'head'; readonly status: number; readonly headers: Readonly<Record<string, string>> }
  | { readonly type: 'chunk'; readonly text: string };

/** A whole response. */
export interface ProviderReply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** Parsed JSON; the text of a stream. */
  readonly body: unknown;
}

/**
 * What the model is asked, as every provider's rules see it.
 * @beta
 */
export interface ProviderQuestion {
  readonly id: string;
  /** 1 for the first request. */
  readonly number: number;
  readonly model: string;
  /** All texts of the request, one after the other. */
  readonly text: string;
  /** All tokens of the request, cached ones included. */
  readonly inputTokens: number;
  /** The most output the request allows; undefined when it sets no bound. */
  readonly maxOutputTokens: number | undefined;
  /** Whether the answer is a stream. */
  readonly streamed: boolean;
  readonly body: unknown;
}

/**
 * What the model answers.
 * @beta
 */
export interface ProviderAnswer {
  /** @defaultValue text of the length of `outputTokens` */
  readonly text?: string;
  /** What the usage reports, reasoning included; bounded by the request's `max_tokens`. @defaultValue the tokens of `text` */
  readonly outputTokens?: number;
  /** How many of `outputTokens` are reasoning. @defaultValue 0 */
  readonly reasoningTokens?: number;
  /** How many input tokens were read from the prompt cache. @defaultValue 0 */
  readonly cacheReadTokens?: number;
  /** How many input tokens were written to the cache for five minutes (Anthropic). @defaultValue 0 */
  readonly cacheWriteTokens?: number;
  /** How many input tokens were written to the cache for an hour (Anthropic). @defaultValue 0 */
  readonly cacheWrite1hTokens?: number;
  /** A status from 400 to 499 rejects the request instead: nothing is generated. @defaultValue 200 */
  readonly status?: number;
  /** What the rejection says. */
  readonly message?: string;
}

/** Faults that can be switched on and off. All are off by default; shares are from 0 to 1. */
export interface ProviderFaults {
  /** Refuses everything for so many ms from now, with 429 and, unless `hints` is false, the rest of that time as hint. */
  readonly refuseForMs?: number;
  /** Whether refusals say how long to wait. @defaultValue true */
  readonly hints?: boolean;
  /** Share of requests that fail with 500. */
  readonly serverErrors?: number;
  /** Share of requests that meet an overloaded provider: 529 of Anthropic, 503 of the others. */
  readonly overloaded?: number;
  /** Share of requests whose connection breaks after half of the output. */
  readonly cut?: number;
  /** Share of requests that get 200 and then an error event before the first piece (streams of Anthropic). */
  readonly overloadedInStream?: number;
  /** Share of answers without usage. */
  readonly noUsage?: number;
  /** The account has used up what it paid for: every request is refused with the provider's error for that, without a hint. */
  readonly quota?: boolean;
  /** Share of requests of the tier `flex` for which there is no capacity (OpenAI, Azure). */
  readonly flexBusy?: number;
}

/**
 * Options of `fakeProvider` with a `provider`.
 * @beta
 */
export interface ProviderOptions {
  /** Whose rules: `anthropic({…})`, `openai({…})`, `azure({…})` or `gemini({…})`. */
  readonly provider: ProviderPreset;
  /** What the model answers. @defaultValue the last text of the request */
  readonly answer?: (question: ProviderQuestion) => string | ProviderAnswer;
  /** Tokens of a text. @defaultValue a quarter of its characters */
  readonly tokensOf?: (text: string) => number;
  /** Time from arrival to the first part of the response, in ms of the provider's clock. Refusals are immediate. @defaultValue 0 */
  readonly latencyMs?: number | ((question: ProviderQuestion) => number);
  /** Time the model takes for one token of output, in ms of the provider's clock. @defaultValue 0 */
  readonly msPerOutputToken?: number;
  /** In how many pieces the output is generated: the chunks of a stream. >= 1. @defaultValue 4 */
  readonly pieces?: number;
  /** Whether limits refuse. With false the books show by how much a client exceeds them. @defaultValue true */
  readonly enforce?: boolean;
  /** Faults from the start. `setFaults` changes them. @defaultValue none */
  readonly faults?: ProviderFaults;
  /** The same seed draws the same faults. @defaultValue 1 */
  readonly seed?: number;
  /**
   * How many times as fast as the scheduler the provider's clock runs. A minute of the provider then lasts 60 / `speed` seconds of the client, hints
   * are told in the client's time, and limits in headers stay per minute of the provider. > 0. @defaultValue 1
   */
  readonly speed?: number;
  /** What the provider's clock shows at the first request, in ms since 1970: for limits per day in virtual time. @defaultValue the scheduler's time */
  readonly startsAt?: number;
  /** Most calls that `calls` keeps, the newest. >= 1. @defaultValue Infinity */
  readonly maxCalls?: number;
  /** Clock and timers; virtual inside `virtualTime`, a spec or `TestScheduler.run`. @defaultValue asyncScheduler */
  readonly scheduler?: SchedulerLike;
}

/** How a request ended: `left` is a client that went away, `rejected` a 4xx other than 429, `free` an endpoint that no limit counts. */
export type ProviderFate = 'answered' | 'refused' | 'rejected' | 'failed' | 'cut' | 'left' | 'free' | 'running';

/** One request as the provider saw it. `startedAt` and `endedAt` are times of the scheduler. */
export interface ProviderCall extends WorkerCall<ProviderRequest> {
  readonly id: string;
  readonly model: string;
  /** Undefined while there is no response. */
  readonly status: number | undefined;
  readonly fate: ProviderFate;
  readonly inputTokens: number;
  /** Generated so far. */
  readonly outputTokens: number;
}

/**
 * A provider with books of its own.
 * @beta
 */
export interface ProviderSimulation {
  readonly name: string;
  /** Sends one request: every subscription is one. Unsubscribing is a client that leaves. A connection that breaks is an error without status. */
  readonly request: (request: ProviderRequest, signal?: AbortSignal) => Observable<ProviderEvent>;
  /** The same as a whole: the response whatever its status. */
  readonly send: (request: ProviderRequest, signal?: AbortSignal) => Observable<ProviderReply>;
  /**
   * The body of a successful response: the work of an operator. A status of 400 or more is a `FakeProviderError` with status, headers, code and body;
   * `observe` of the context sees every response. Takes a request, or a body for the provider's main endpoint.
   */
  readonly workOne: (request: ProviderRequest | ProviderBody, context?: FakeContext) => Observable<unknown>;
  /** What was charged to requests of models without limits of their own. */
  readonly books: ProviderBooks;
  /** What was charged to requests of one model: those in `models` have books of their own, all others share `books`. */
  readonly booksOf: (model: string) => ProviderBooks;
  /** Replaces the faults, from now on. */
  readonly setFaults: (faults: ProviderFaults) => void;
  readonly calls: readonly ProviderCall[];
  readonly inFlight: number;
  readonly maxInFlight: number;
  /** Requests refused with 429. */
  readonly refused: number;
}

/** Body of a request without a path. */
export interface ProviderBody {
  readonly path?: undefined;
  readonly model?: string;
  readonly [field: string]: unknown;
}

/**
 * A provider's rules, as a value for `fakeProvider({ provider })`.
 * @beta
 */
export interface ProviderPreset {
  readonly name: string;
  /** Opens a provider that nothing was charged to. `fakeProvider` calls it. */
  readonly open: (options: ProviderOptions) => ProviderSimulation;
}
