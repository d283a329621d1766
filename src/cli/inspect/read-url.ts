import type { IncomingMessage } from 'node:http';
import { get as getHttp } from 'node:http';
import { get as getHttps } from 'node:https';
import { createParser } from 'eventsource-parser';
import type { FlowEvent } from '../../../operators/index.js';
import { errorCode } from '../../journal/file-error.js';
import { LineSplitter } from '../../journal/lines.js';
import { CliError, EXIT } from '../exit.js';
import { eventOfLine, MAX_LINE_BYTES, type News, pause, TOO_LONG } from './news.js';

/** For the head of the answer. A stream may be silent for as long as it likes. */
const ANSWER_MS = 10_000;
const AGAIN_MS = 1000;

/**
 * Reads a stream of events: server-sent events with one event in each message, or one JSON object a line. `follow`: connects again when the connection
 * is lost, or when the server ends server-sent events.
 *
 * @param shown the address, without what may be secret in it.
 * @throws CliError: exit code 3 when nobody answers, or no stream; 2 for a message that is no event.
 */
export async function* readUrlNews(url: URL, shown: string, follow: boolean, signal: AbortSignal): AsyncGenerator<News, void, undefined> {
  let answer = await connect(url, shown, signal);
  yield { type: 'caughtUp' };
  for (;;) {
    const isStream = /^text\/event-stream\b/i.test(answer.headers['content-type'] ?? '');
    const isWhole = yield* readAnswer(answer, isStream, signal);
    if (signal.aborted || !follow || (isWhole && !isStream)) break;
    yield { type: 'disconnected' };
    const again = await reconnect(url, shown, signal);
    if (again === undefined) break;
    answer = again;
    yield { type: 'restarted' };
  }
  yield { type: 'ended' };
}

/** Did the server end it? */
async function* readAnswer(answer: IncomingMessage, isStream: boolean, signal: AbortSignal): AsyncGenerator<News, boolean, undefined> {
  const messages = isStream ? new Messages() : new Lines();
  try {
    for await (const piece of answer as AsyncIterable<Buffer>) {
      yield* messages.push(piece);
      if (messages.isTooLong) {
        yield { type: 'fault', fault: `${messages.name} ${String(messages.count + 1)} ${TOO_LONG}` };
        return false;
      }
    }
  } catch (error) {
    if (errorCode(error) === undefined && !signal.aborted) throw error;
    return false;
  } finally {
    answer.destroy();
  }
  yield* messages.end();
  return true;
}

/** Makes events of texts, and counts these. */
abstract class Texts {
  abstract readonly name: string;
  abstract readonly isTooLong: boolean;
  count = 0;

  abstract push(piece: Buffer): Iterable<News>;
  abstract end(): Iterable<News>;

  protected *read(texts: Iterable<string>): Generator<News, void, undefined> {
    const events: FlowEvent[] = [];
    for (const text of texts) {
      this.count += 1;
      const event = eventOfLine(text);
      if (typeof event === 'string') {
        if (events.length > 0) yield { type: 'events', events: events.splice(0) };
        yield { type: 'fault', fault: `${this.name} ${String(this.count)} ${event}` };
      } else if (event !== undefined) events.push(event);
    }
    if (events.length > 0) yield { type: 'events', events };
  }
}

class Lines extends Texts {
  readonly name = 'line';
  readonly #splitter = new LineSplitter();

  get isTooLong(): boolean {
    return this.#splitter.openBytes > MAX_LINE_BYTES;
  }

  *push(piece: Buffer): Generator<News, void, undefined> {
    yield* this.read(texts(this.#splitter.push(piece)));
  }

  *end(): Generator<News, void, undefined> {
    yield* this.read([this.#splitter.open]);
  }
}

function* texts(lines: Iterable<{ readonly text: string }>): Generator<string, void, undefined> {
  for (const { text } of lines) yield text;
}

class Messages extends Texts {
  readonly name = 'message';
  isTooLong = false;
  readonly #told: string[] = [];
  readonly #decoder = new TextDecoder();
  readonly #parser = createParser({
    maxBufferSize: MAX_LINE_BYTES,
    onEvent: ({ data }) => {
      this.#told.push(data);
    },
    onError: ({ type }) => {
      this.isTooLong ||= type === 'max-buffer-size-exceeded';
    },
  });

  push(piece: Buffer): Iterable<News> {
    this.#parser.feed(this.#decoder.decode(piece, { stream: true }));
    return this.read(this.#told.splice(0));
  }

  end(): Iterable<News> {
    return [];
  }
}

/** Undefined when the signal aborts. */
async function reconnect(url: URL, shown: string, signal: AbortSignal): Promise<IncomingMessage | undefined> {
  while (!signal.aborted) {
    await pause(AGAIN_MS, signal);
    try {
      return await connect(url, shown, signal);
    } catch (error) {
      if (!(error instanceof CliError)) throw error;
    }
  }
  return undefined;
}

/** `fetch` would end a stream that is silent for five minutes. */
async function connect(url: URL, shown: string, signal: AbortSignal): Promise<IncomingMessage> {
  const refused = (why: string, error?: unknown): CliError => new CliError(EXIT.provider, `\`${shown}\` ${why}`, error);
  const answer = await new Promise<IncomingMessage>((resolve, reject) => {
    const get = url.protocol === 'https:' ? getHttps : getHttp;
    const request = get(url, { signal, headers: { accept: 'text/event-stream, application/x-ndjson' } }, (message) => {
      clearTimeout(timer);
      resolve(message);
    });
    const timer = setTimeout(() => {
      request.destroy(refused(`does not answer within ${String(ANSWER_MS / 1000)} s`));
    }, ANSWER_MS);
    request.on('error', (error) => {
      clearTimeout(timer);
      reject(error instanceof CliError ? error : refused(`cannot be reached (${errorCode(error) ?? error.name})`, error));
    });
  });
  const { statusCode = 0, headers } = answer;
  const type = headers['content-type'] ?? '';
  if (statusCode === 200 && !/^text\/html\b/i.test(type)) return answer;
  answer.destroy();
  throw refused(statusCode === 200 ? 'answers with a page, not with events' : `answers ${String(statusCode)}`);
}
