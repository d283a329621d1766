import { APICallError } from 'ai';
import type { ResponseLike } from '../../../operators/index.js';
import { lessonOf } from '../../pipelines/provider-error.js';

interface Answer {
  readonly response?: { readonly headers?: Readonly<Record<string, string | undefined>> | undefined } | undefined;
}

interface Attempt {
  observe(response: ResponseLike): void;
}

/** Shows the limiter what the server has answered, good or bad. */
export async function shown<T extends Answer | undefined>(answer: PromiseLike<T>, attempt: Attempt): Promise<T> {
  try {
    const result = await answer;
    attempt.observe({ status: 200, headers: result?.response?.headers ?? {} });
    return result;
  } catch (error) {
    if (APICallError.isInstance(error)) {
      const lesson = lessonOf({ status: error.statusCode ?? 0, headers: error.responseHeaders ?? {} }, error);
      if (lesson) attempt.observe(lesson);
    }
    throw error;
  }
}

/** The SDK tries again what says that it can be: an error that our attempts have dealt with says so no more. */
export async function dealtWith<T>(call: Promise<T>): Promise<T> {
  try {
    return await call;
  } catch (error) {
    if (Reflect.get(Object(error) as object, 'isRetryable') === true)
      Reflect.defineProperty(error as object, 'isRetryable', { value: false });
    throw error;
  }
}
