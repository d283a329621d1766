import type { Observable } from 'rxjs';
import { isObservable, lastValueFrom, takeLast } from 'rxjs';
import { check, streamOf } from '../../../operators/build.js';
import type { PolicyContext } from '../../../operators/index.js';
import { fromStream } from '../../../operators/index.js';
import { after } from '../budget/reserving.js';

/** An answer that comes at once or later. */
export type Answer<R> = R | PromiseLike<R> | Observable<R>;

/** What a function makes of an answer; both may come at once or later. */
export function mapped<R>(answer: unknown, of: (value: unknown) => R | Observable<R>): Answer<R> {
  if (check.isPromise(answer)) return Promise.resolve(answer).then((value) => lastOf(of(value)));
  const stream = streamOf(answer);
  return stream ? after(stream.pipe(takeLast(1)), of) : of(answer);
}

function lastOf<R>(answer: R | Observable<R>): R | Promise<R> {
  return isObservable(answer) ? lastValueFrom(answer) : answer;
}

/** What a tool answers, as a policy takes it. A failure after the first values of a stream is like any other, so only the last is handed on. */
export function lastOfAll(output: unknown, attempt: PolicyContext): unknown {
  if (check.isPromise(output)) return output;
  const stream = streamOf(output);
  if (stream === undefined) return output;
  if ('getReader' in (output as object)) return fromStream(() => output as never).pipe(takeLast(1));
  return Symbol.asyncIterator in (output as object) ? lastPart(output as AsyncIterable<unknown>, attempt.signal) : stream.pipe(takeLast(1));
}

/** A promise, because an async iterable cannot be stopped between two parts either: it keeps its slot until it ends. */
async function lastPart(parts: AsyncIterable<unknown>, signal: AbortSignal): Promise<unknown> {
  const iterator = parts[Symbol.asyncIterator]();
  const stop = (): void => {
    // How it takes that is of no interest any more.
    Promise.resolve()
      .then(() => iterator.return?.())
      .catch(() => undefined);
  };
  signal.addEventListener('abort', stop, { once: true });
  let last: unknown;
  for (let part = await iterator.next(); part.done !== true && !signal.aborted; part = await iterator.next()) last = part.value;
  signal.removeEventListener('abort', stop);
  return last;
}
