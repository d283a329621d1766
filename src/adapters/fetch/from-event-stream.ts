import type { SchedulerLike } from 'rxjs';
import { catchError, concat, defer, EMPTY, mergeMap, Observable, throwError } from 'rxjs';
import { check } from '../../../operators/build.js';
import type { RetryOptions } from '../../../operators/index.js';
import { classifyError, FlowConfigError, fromStream, policy } from '../../../operators/index.js';
import { boundedText, REFUSAL_BOUNDS } from '../../pipelines/bounded-text.js';
import { keepOrigin } from '../../pipelines/keep-origin.js';
import { ProviderError, refusalOf } from '../../pipelines/provider-error.js';
import { eventParser, MAX_EVENT_CHARS } from '../../pipelines/server-events.js';

/**
 * One event of a server, with the names that `EventSource` uses.
 * @stable
 */
export interface ServerEvent {
  /** `message` when the server names none. */
  readonly type: string;
  /** Its lines, with line feeds between them. */
  readonly data: string;
  /** The last id the server gave, with this event or an earlier one; empty before the first. */
  readonly lastEventId: string;
}

/**
 * What the factory of a connection is told.
 * @stable
 */
export interface EventStreamContext {
  /** Aborts when the stream is left. Hand it to `fetch`. */
  readonly signal: AbortSignal;
  /** Where the server is to go on, for the header `Last-Event-ID`; empty on the first connection. */
  readonly lastEventId: string;
  /** 1 on the first connection, and on the first after events have come. */
  readonly attempt: number;
}

/**
 * Where the events come from: an address, a request, or a function that makes the call itself.
 * @stable
 */
export type EventStreamRequest = string | URL | Request | ((context: EventStreamContext) => Response | PromiseLike<Response>);

/** @stable */
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
 * @stable
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
  return defer(() => eventsOf(settings));
}

type Settings = ReturnType<typeof readOptions>;

function readOptions(request: EventStreamRequest, options: EventStreamOptions) {
  const { reconnect, fetch, random, ...rest } = check.options(NAME, options, DEFAULTS, {
    fetch: (operator: string, option: string, value: typeof globalThis.fetch | undefined) =>
      value === undefined ? undefined : check.requiredFunction(operator, option, value),
    reconnect: check.unchecked,
    reconnectAtEnd: check.flag,
    maxEventChars: check.count,
    scheduler: check.scheduler,
    random: (operator: string, option: string, value: (() => number) | undefined) =>
      value === undefined ? Math.random : check.requiredFunction(operator, option, value),
  });
  const retry = check.retries(NAME, 'reconnect', reconnect, Infinity);
  return { ...rest, ...(retry && { retry }), random: random ?? Math.random, send: sender(request, fetch) };
}

/** Makes one connection. */
function sender(request: EventStreamRequest, given: typeof fetch | undefined): (context: EventStreamContext) => Promise<Response> {
  if (typeof request === 'function') {
    check.excludes(NAME, 'fetch', given, 'a function that makes the call', 'Call your `fetch` inside the function.');
    return async (context) => answered('request', await request(context));
  }
  if (!(typeof request === 'string' || request instanceof URL || request instanceof Request))
    throw new FlowConfigError(NAME, 'request', 'a URL, a Request or a function', request);
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
  throw failure(check.unusable(NAME, name, 'a Response', response));
}

/** An end of a connection that is no failure of the network: how the stream ends, if no other connection is made. */
class Ending extends Error {
  constructor(
    readonly stream: Observable<never>,
    readonly isRetried = false,
  ) {
    super();
  }
}

/** An error of an answer that cannot be better another time. */
function failure(error: unknown): Ending {
  // eslint-disable-next-line rxjs-x/throw-error -- what was thrown is passed on as it is
  return new Ending(throwError(() => error));
}

/** One subscription: its connections, each of which continues behind the last event. */
function eventsOf({ send, retry, reconnectAtEnd, maxEventChars, scheduler, random }: Settings): Observable<ServerEvent> {
  let lastEventId = '';
  /** Shortest pause that the server wants. */
  let retryMs = 0;
  const connected = policy({
    ...(retry && { retry }),
    resumable: true,
    timeoutMs: Infinity,
    scheduler,
    random,
    classify: (error, context) => {
      const verdict =
        error instanceof Ending ? ({ class: error.isRetried ? 'transient' : 'fatal' } as const) : classifyError(error, context);
      const retryAfterMs = Math.max('retryAfterMs' in verdict ? (verdict.retryAfterMs ?? 0) : 0, retryMs);
      return { ...verdict, ...(retryAfterMs > 0 && { retryAfterMs }) };
    },
  });
  const connection = (attempt: number): Observable<ServerEvent> => {
    let events: ServerEvent[] = [];
    const feed = eventParser({
      maxEventChars,
      onEvent: ({ event: type = 'message', data, id }) => {
        lastEventId = id ?? lastEventId;
        events.push({ type, data, lastEventId });
      },
      onRetry: (ms) => {
        retryMs = ms;
      },
    });
    const decoder = new TextDecoder();
    const parsed = fromStream((signal) => opened(send({ signal, lastEventId, attempt }))).pipe(
      mergeMap((bytes) => {
        events = [];
        try {
          feed(decoder.decode(bytes, { stream: true }));
          return events;
        } catch (error) {
          return concat(
            events,
            throwError(() => failure(error)),
          );
        }
      }),
    );
    return reconnectAtEnd
      ? concat(
          parsed,
          throwError(() => new Ending(EMPTY, true)),
        )
      : parsed;
  };
  return connected(({ attempt }) => connection(attempt)).pipe(
    // eslint-disable-next-line rxjs-x/throw-error -- what was thrown is passed on as it is
    catchError((error: unknown) => (error instanceof Ending ? error.stream : throwError(() => error))),
  );
}

/** The body of an answer that is an event stream. */
async function opened(answer: Promise<Response>): Promise<ReadableStream<Uint8Array>> {
  const response = await answer;
  if (response.status === 204) throw new Ending(EMPTY);
  if (!response.ok) throw refusalOf(response, (await boundedText(response, REFUSAL_BOUNDS)).text);
  const type = response.headers.get('content-type') ?? '';
  if (!/^\s*text\/event-stream\s*(;|$)/i.test(type)) {
    response.body?.cancel().catch(() => undefined);
    const problem = `the answer is no text/event-stream but \`${type.slice(0, 100)}\``;
    throw failure(new ProviderError(response.status, response.headers, problem, undefined, undefined, undefined));
  }
  return (
    response.body ??
    new ReadableStream({
      start: (controller) => {
        controller.close();
      },
    })
  );
}
