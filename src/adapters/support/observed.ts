import { evidenceOf } from '../../../operators/build.js';
import type { ResponseLike } from '../../../operators/index.js';
import { answerIn, lessonOf, streamFault, withoutPage } from '../../pipelines/provider-error.js';

/** What the clients of OpenAI and Anthropic answer at once: the answer to come, and the response it will be read from. */
export interface Sent<T> extends PromiseLike<T> {
  asResponse(): PromiseLike<Response>;
}

interface Observer {
  observe(response: ResponseLike): void;
}

interface StreamObserver extends Observer {
  readonly signal: AbortSignal;
}

/** The response, which is shown before it is read; one that is an error of the client, too. */
export async function opened(sent: Sent<unknown>, context: Observer): Promise<Response> {
  try {
    const response = await sent.asResponse();
    context.observe(response);
    return response;
  } catch (error) {
    const { status, headers } = Object(error) as Partial<ResponseLike>;
    if (status !== undefined && headers !== undefined) {
      const response = { status, headers };
      const lesson = lessonOf(response, error);
      if (lesson) context.observe(lesson);
      withoutPage(error, response);
    }
    throw error;
  }
}

/** The answer. @throws ProviderError when it is an error all the same; SyntaxError when it is no answer: the page of a gateway, or nothing */
export async function observed<T>(sent: Sent<T>, context: Observer): Promise<T & object> {
  const response = await opened(sent, context);
  let answer: T | undefined;
  try {
    answer = await sent;
  } catch (error) {
    // What the client could not read it quotes.
    if (!isSyntaxError(error)) throw error;
  }
  return answerIn(answer as T, response);
}

/**
 * The parts of a stream that the client reads.
 *
 * @param finish - what the last part is called, by whose `type` it is known
 * @throws ProviderError when it ends without that; SyntaxError when it is no stream of events, or a part is no JSON
 */
export async function* partsOf<T extends { readonly type: string }>(
  sent: Sent<AsyncIterable<T>>,
  context: StreamObserver,
  finish: T['type'],
): AsyncGenerator<T, void, undefined> {
  const response = await opened(sent, context);
  let isEmpty = true;
  let hasEnded = false;
  try {
    for await (const part of await sent) {
      isEmpty = false;
      hasEnded ||= part.type === finish;
      yield part;
    }
  } catch (error) {
    throw isSyntaxError(error) ? new SyntaxError('a part of the answer is no JSON') : error;
  }
  // One that was aborted the client ends as if it were whole.
  if (!hasEnded && !context.signal.aborted) throw streamFault(`\`${finish}\``, response.headers, isEmpty ? response : undefined);
}

/** The answer of something that has sent a request by itself: the limiter learns from the headers of what it fails with, and of its answer, where that has some. */
export async function learned<T>(answer: PromiseLike<T>, to: Observer, headersOf?: (answer: T) => unknown): Promise<T> {
  try {
    const result = await answer;
    const headers = headersOf?.(result);
    if (typeof headers === 'object' && headers !== null) to.observe({ status: 200, headers: headers as ResponseLike['headers'] });
    return result;
  } catch (error) {
    for (const { status, headers } of evidenceOf(error)) {
      if (status === undefined || headers === undefined) continue;
      const lesson = lessonOf({ status, headers }, error);
      if (lesson) to.observe(lesson);
      break;
    }
    throw error;
  }
}

/** What a client throws at an answer that it cannot read. */
function isSyntaxError(error: unknown): boolean {
  return evidenceOf(error)[0]?.words.includes('SyntaxError') === true;
}
