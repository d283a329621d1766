import type { SchedulerLike, Subscriber } from 'rxjs';
import { Observable } from 'rxjs';
import { classifyError } from '../../../operators/classify-error.js';
import { FlowConfigError } from '../../../operators/errors.js';
import {
  Alarm,
  abortReason,
  checked,
  count,
  drawnFrom,
  flag,
  mayPass,
  requiredFunction,
  retryDelayMs,
  retryRule,
  schedulerOption,
  unchecked,
  unusable,
} from '../../../operators/toolkit.js';
import type { RetryOptions, RetryRule } from '../../../operators/types.js';
import { boundedText, REFUSAL_BOUNDS } from '../../pipelines/bounded-text.js';
import { keepOrigin } from '../../pipelines/keep-origin.js';
import { ProviderError, refusalOf } from '../../pipelines/provider-error.js';
import { eventParser, MAX_EVENT_CHARS } from '../../pipelines/server-events.js';

/** One event of a server, with the names that `EventSource` uses. */
export interface ServerEvent {
  /** `message` when the server names none. */
  readonly type: string;
  /** Its lines, with line feeds between them. */
  readonly data: string;
  /** The last id the server gave, with this event or an earlier one; empty before the first. */
  readonly lastEventId: string;
}

/** What the factory of a connection is told. */
export interface EventStreamContext {
  /** Aborts when the stream is left. Hand it to `fetch`. */
  readonly signal: AbortSignal;
  /** Where the server is to go on, for the header `Last-Event-ID`; empty on the first connection. */
  readonly lastEventId: string;
  /** 1 on the first connection, and on the first after events have come. */
  readonly attempt: number;
}

/** Where the events come from: an address, a request, or a function that makes the call itself. */
export type EventStreamRequest = string | URL | Request | ((context: EventStreamContext) => Response | PromiseLike<Response>);

export interface EventStreamOptions {
  /** What sends the request, for example one made by `limitFetch`; not with a factory. @defaultValue the global `fetch` */
  readonly fetch?: typeof fetch;
  /**
   * How a connection that broke, or was refused for now (408, 429, 5xx), is made again. Attempts are counted in a row: an event begins anew. The
   * server's `retry` and `retry-after` are the shortest pause. Only for a server that goes on behind `Last-Event-ID`. @defaultValue false
   */
  readonly reconnect?: Omit<RetryOptions, 'budget'> | false;
  /** Whether the end of the body is a break as well, as for `EventSource`; then 204 is the end. @defaultValue false */
  readonly reconnectAtEnd?: boolean;
  /** Most characters in the data of one event; a line of anything else (a comment, an id) may be as long. @defaultValue 16,777,216 */
  readonly maxEventChars?: number;
  /** Clock and timer of the pauses. @defaultValue `asyncScheduler` */
  readonly scheduler?: SchedulerLike;
  /** Randomness of the pauses, 0 to 1. @defaultValue `Math.random` */
  readonly random?: () => number;
}

const NAME = 'fromEventStream';
const DEFAULTS = { reconnect: false, reconnectAtEnd: false, maxEventChars: MAX_EVENT_CHARS } as const;

/**
 * Makes an Observable of server-sent events over `fetch`: with any method, headers and body, unlike `EventSource`. The request is sent for each
 * subscriber.
 *
 * - **Emits when** an event is whole: at the empty line behind it, wherever the bytes were cut. Comments are passed over.
 * - **Holds at most** one event of `maxEventChars`, and reads on when its events have been taken.
 * - **Completes when** the body ends, or the status is 204. An event without its empty line is none.
 * - **Errors when** `fetch` or the factory fails, or the connection breaks, with the same error; with `CallbackError` when what they give is
 *   no `Response`; with `ProviderError` when the status is no success, the answer is no `text/event-stream`, or an event gets too long. With
 *   `reconnect` what may pass is tried again first, with the header `Last-Event-ID`.
 * - **On unsubscribe** the signal aborts, and the server sees the connection close; a pause between two connections ends.
 *
 * @throws FlowConfigError (`FLOW_CONFIG_INVALID`) at once, when `request` is none, or an option is unknown or out of range.
 * @example
 * ```ts
 * import { lastValueFrom, toArray } from 'rxjs';
 * import { fromEventStream } from 'sluice/fetch';
 *
 * const body = ': hello\n\nid: 7\ndata: {"n":1}\n\nevent: done\ndata:\n\n';
 * // `fetch` stands for the network, for this page.
 * const fetch = async () => new Response(body, { headers: { 'content-type': 'text/event-stream' } });
 *
 * const request = new Request('https://host/v1/runs', { method: 'POST', body: '{"stream":true}' });
 * const events = await lastValueFrom(fromEventStream(request, { fetch }).pipe(toArray()));
 * events.map(({ type, data, lastEventId }) => [type, data, lastEventId]); // => [['message', '{"n":1}', '7'], ['done', '', '7']]
 * ```
 */
export function fromEventStream(request: EventStreamRequest, options: EventStreamOptions = {}): Observable<ServerEvent> {
  const settings = readOptions(request, options);
  return new Observable((subscriber) => {
    const connection = new Connection(settings, subscriber);
    connection.open();
    return () => {
      connection.leave();
    };
  });
}

type Settings = ReturnType<typeof readOptions>;

function readOptions(request: EventStreamRequest, options: EventStreamOptions) {
  const { reconnect, fetch, random, ...rest } = checked(NAME, options, DEFAULTS, {
    fetch: (operator: string, option: string, value: typeof globalThis.fetch | undefined) =>
      value === undefined ? undefined : requiredFunction(operator, option, value),
    reconnect: unchecked,
    reconnectAtEnd: flag,
    maxEventChars: count,
    scheduler: schedulerOption,
    random: (operator: string, option: string, value: (() => number) | undefined) =>
      value === undefined ? Math.random : requiredFunction(operator, option, value),
  });
  const retry: RetryRule | undefined = retryRule(NAME, reconnect, Infinity, 'reconnect');
  return { ...rest, retry, random: random ?? Math.random, send: sender(request, fetch) };
}

/** Makes one connection. */
function sender(request: EventStreamRequest, given: typeof fetch | undefined): (context: EventStreamContext) => Promise<Response> {
  if (typeof request === 'function') {
    if (given !== undefined) throw new FlowConfigError(NAME, 'fetch', 'absent when a function makes the call', given);
    return async (context) => answered('request', await request(context));
  }
  if (!(typeof request === 'string' || request instanceof URL || request instanceof Request))
    throw new FlowConfigError(NAME, 'request', 'an address, a Request or a function', request);
  const own = request instanceof Request ? request : undefined;
  const send = keepOrigin((input, init) => (given ?? globalThis.fetch)(input, init));
  return async ({ signal, lastEventId }) => {
    const headers = new Headers(own?.headers);
    if (!headers.has('accept')) headers.set('accept', 'text/event-stream');
    if (lastEventId !== '') headers.set('last-event-id', lastEventId);
    const init: RequestInit = { headers, signal: own ? AbortSignal.any([own.signal, signal]) : signal };
    // A body is read once, so each connection has a copy of it.
    return answered('fetch', await send(own?.clone() ?? request, init));
  };
}

/** A fault of yours is no fault of the network, which might pass. */
function answered(name: string, response: Response): Response {
  const { status, headers } = Object(response) as Partial<Response>;
  if (typeof status === 'number' && typeof headers?.get === 'function') return response;
  throw new Final(unusable(NAME, name, 'a Response', response));
}

/** Carries an error of an answer that cannot be better another time. */
class Final extends Error {
  constructor(readonly error: unknown) {
    super();
  }
}

/** One subscription. */
class Connection {
  readonly #settings: Settings;
  readonly #to: Subscriber<ServerEvent>;
  readonly #pause: Alarm;
  #controller = new AbortController();
  #reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  #lastEventId = '';
  /** As the server wants it. */
  #retryMs: number | undefined;
  #attempt = 1;

  constructor(settings: Settings, to: Subscriber<ServerEvent>) {
    this.#settings = settings;
    this.#to = to;
    this.#pause = new Alarm(settings.scheduler, () => {
      this.open();
    });
  }

  open(): void {
    this.#run()
      .then(
        (canGoOn) => {
          if (this.#to.closed) return;
          if (canGoOn && this.#settings.reconnectAtEnd && this.#again(undefined)) return;
          this.#to.complete();
        },
        (error: unknown) => {
          if (this.#to.closed) return;
          if (error instanceof Final) {
            this.#to.error(error.error);
            return;
          }
          const verdict = classifyError(error, { aborted: this.#controller.signal.aborted, size: 1, attempt: this.#attempt });
          if (mayPass(verdict) && this.#again(verdict.retryAfterMs)) return;
          this.#to.error(error);
        },
      )
      .catch((error: unknown) => {
        this.#to.error(error);
      });
  }

  leave(): void {
    this.#pause.clear();
    this.#controller.abort(abortReason());
    this.#reader?.cancel(this.#controller.signal.reason).catch(() => undefined);
  }

  /** False when it was tried often enough. */
  #again(retryAfterMs: number | undefined): boolean {
    const { retry, random } = this.#settings;
    if (retry === undefined || this.#attempt >= retry.maxAttempts) return false;
    const hintMs = retryAfterMs === undefined ? this.#retryMs : Math.max(retryAfterMs, this.#retryMs ?? 0);
    const delayMs = retryDelayMs(this.#attempt, hintMs, retry, drawnFrom(NAME, random));
    this.#attempt++;
    this.#pause.set(this.#pause.now() + delayMs);
    return true;
  }

  /** One connection to its end; false when the server says that there is nothing more. */
  async #run(): Promise<boolean> {
    this.#controller = new AbortController();
    const { signal } = this.#controller;
    const response = await this.#settings.send({ signal, lastEventId: this.#lastEventId, attempt: this.#attempt });
    if (this.#to.closed) {
      response.body?.cancel().catch(() => undefined);
      return false;
    }
    if (response.status === 204) return false;
    if (!response.ok) throw refusalOf(response, (await boundedText(response, REFUSAL_BOUNDS)).text);
    const type = response.headers.get('content-type') ?? '';
    if (!/^\s*text\/event-stream\s*(;|$)/i.test(type)) {
      response.body?.cancel().catch(() => undefined);
      const problem = `the answer is no text/event-stream but \`${type.slice(0, 100)}\``;
      throw new Final(new ProviderError(response.status, response.headers, problem, undefined, undefined, undefined));
    }
    if (response.body !== null) await this.#read(response.body);
    return true;
  }

  async #read(body: ReadableStream<Uint8Array>): Promise<void> {
    const reader = body.getReader();
    this.#reader = reader;
    const feed = eventParser({
      maxEventChars: this.#settings.maxEventChars,
      onEvent: ({ event: type = 'message', data, id }) => {
        if (id !== undefined) this.#lastEventId = id;
        this.#attempt = 1;
        this.#to.next({ type, data, lastEventId: this.#lastEventId });
      },
      onRetry: (ms) => {
        this.#retryMs = ms;
      },
    });
    const decoder = new TextDecoder();
    while (!this.#to.closed) {
      const { done, value } = await reader.read();
      if (done) return;
      try {
        feed(decoder.decode(value, { stream: true }));
      } catch (error) {
        reader.cancel(error).catch(() => undefined);
        throw new Final(error);
      }
    }
  }
}
