import type { ResponseLike } from '../../../operators/types.js';
import { lateError, lessonOf } from '../../pipelines/provider-error.js';

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
    const lesson = status !== undefined && headers !== undefined ? lessonOf({ status, headers }, error) : undefined;
    if (lesson) context.observe(lesson);
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
