import type { ObservableInput, SchedulerLike } from 'rxjs';
import { from, isObservable, map, Observable, tap, throwError, timeout } from 'rxjs';
import { fromStream } from '../../../operators/from-stream.js';
import { ask } from '../../../operators/support/ask.js';
import { connect } from '../../../operators/support/connect.js';
import { AttemptTimeoutError } from '../../../operators/support/errors.js';
import type { Usage } from '../../../operators/support/types.js';
import { isPromise } from '../../../operators/support/work.js';
import type { ModelAttempt } from './model-attempt.js';
import { ParseFault } from './model-call.js';
import type { Client } from './model-options.js';
import { NAME } from './model-options.js';
import type { ModelStream } from './model-types.js';

/** Sends a request and reads its answer. A promise stays one: it keeps its permit until it is really over. */
export function exchange<Q, R, C, P>(
  client: Client<Q, R, C>,
  parse: ((answer: R, request: Q) => P) | undefined,
  request: Q,
  attempt: ModelAttempt,
): ObservableInput<P> {
  const read = (answer: R): P => {
    note(client.usage, answer, attempt);
    if (parse === undefined) return answer as unknown as P;
    try {
      return parse(answer, request);
    } catch (error) {
      throw new ParseFault(error);
    }
  };
  const failed = (error: unknown): never => {
    attempt.failed(error);
    throw error;
  };
  try {
    const input = client.call(request, attempt);
    if (!isPromise(input)) return from(input).pipe(map(read), tap(endOf(attempt)));
    return Promise.resolve(input)
      .then((answer) => {
        const value = read(answer);
        attempt.done();
        return value;
      })
      .catch(failed);
  } catch (error) {
    return failed(error);
  }
}

/** Opens a stream; the client is told to stop when it is left, or silent for too long. */
export function openStream<Q, R, C>(
  client: Client<Q, R, C>,
  open: (request: Q, attempt: ModelAttempt) => ModelStream<C>,
  request: Q,
  attempt: ModelAttempt,
  silenceMs: number,
  scheduler: SchedulerLike,
): Observable<C> {
  const chunks = new Observable<C>((subscriber) => {
    let hasEnded = false;
    subscriber.add(() => {
      if (!hasEnded) attempt.abort();
    });
    connect(chunksOf(open(request, attempt)), subscriber, {
      next: (chunk) => {
        note(client.usage, chunk, attempt);
        subscriber.next(chunk);
      },
      error: (error) => {
        hasEnded = true;
        subscriber.error(error);
      },
      complete: () => {
        hasEnded = true;
        subscriber.complete();
      },
    });
  });
  const guarded =
    silenceMs === Infinity
      ? chunks
      : chunks.pipe(timeout({ each: silenceMs, scheduler, with: () => throwError(() => new AttemptTimeoutError(NAME, silenceMs)) }));
  return guarded.pipe(tap(endOf(attempt)));
}

function chunksOf<C>(input: ModelStream<C>): Observable<C> {
  return isObservable(input) ? input : fromStream(() => input);
}

function endOf(attempt: ModelAttempt) {
  return {
    complete: (): void => {
      attempt.done();
    },
    error: (error: unknown): void => {
      attempt.failed(error);
    },
  };
}

function note<A>(usage: ((answer: A) => Usage | undefined) | undefined, answer: A, attempt: ModelAttempt): void {
  const used = usage && ask(NAME, 'usage', usage, answer);
  if (used) attempt.reconcile(used);
}
