import { linksOf } from '../../../operators/toolkit.js';
import type { ResponseLike } from '../../../operators/types.js';
import { lateError } from '../../pipelines/provider-error.js';

/** What the clients of OpenAI and Anthropic answer at once: the answer to come, and the response it will be read from. */
export interface Sent<T> extends PromiseLike<T> {
  asResponse(): PromiseLike<ResponseLike>;
}

interface Observer {
  observe(response: ResponseLike): void;
}

/** The answer, whose response is shown before it is read; one that is an error of the client, too. */
export async function observed<T>(sent: Sent<T>, context: Observer): Promise<T> {
  try {
    context.observe(await sent.asResponse());
  } catch (error) {
    const { status, headers } = Object(error) as Partial<ResponseLike>;
    if (status !== undefined && headers !== undefined) context.observe({ status, headers });
    throw error;
  }
  return sent;
}

/** The same parts. What has none is no answer: the page of a gateway, or nothing. @throws ProviderError */
export async function* partsOf<T>(stream: AsyncIterable<T>): AsyncGenerator<T, void, undefined> {
  let isEmpty = true;
  for await (const part of stream) {
    isEmpty = false;
    yield part;
  }
  if (isEmpty) throw lateError('the answer is no stream of events');
}

/** The answer of something that has sent a request by itself: the limiter learns from the headers of what it fails with, and of its answer, where that has some. */
export async function learned<T>(answer: PromiseLike<T>, to: Observer, headersOf?: (answer: T) => unknown): Promise<T> {
  try {
    const result = await answer;
    const headers = headersOf?.(result);
    if (typeof headers === 'object' && headers !== null) to.observe({ status: 200, headers: headers as ResponseLike['headers'] });
    return result;
  } catch (error) {
    for (const link of linksOf(error)) {
      const { status, headers } = link as Partial<ResponseLike>;
      if (typeof status !== 'number' || typeof headers !== 'object') continue;
      to.observe({ status, headers });
      break;
    }
    throw error;
  }
}
