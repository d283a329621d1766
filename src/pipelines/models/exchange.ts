import type { SchedulerLike } from 'rxjs';
import { isObservable, Observable } from 'rxjs';
import { AttemptTimeoutError } from '../../../operators/errors.js';
import { fromStream } from '../../../operators/from-stream.js';
import { Alarm, ask, connect, isPromise, streamOf } from '../../../operators/toolkit.js';
import type { Usage, WorkResult } from '../../../operators/types.js';
import { PieceCounter } from '../../account/answer-reader.js';
import { slowly, untilClosed } from '../connection.js';
import type { ModelAttempt } from './model-attempt.js';
import type { Client } from './model-options.js';
import type { ModelStream } from './model-types.js';
import { NAME } from './name.js';
import { ParseFault } from './parse-fault.js';

/**
 * Sends a request and reads its last answer. A promise stays one: it keeps its permit until it is really over, also at the server. That of an Observable
 * is free as soon as it is left.
 */
export function exchange<Q, R, C, P>(
  client: Client<Q, R, C>,
  parse: ((answer: R, request: Q) => P) | undefined,
  request: Q,
  attempt: ModelAttempt,
  scheduler: SchedulerLike,
): WorkResult<P> {
  const failed = (error: unknown): never => {
    attempt.failed(error);
    throw error;
  };
  const answered = (answer: R): P => {
    let result: P;
    try {
      note(client.usage, answer, attempt);
      result = parse === undefined ? (answer as unknown as P) : parsed(parse, answer, request);
    } catch (error) {
      return failed(error);
    }
    attempt.done();
    return result;
  };
  let input: WorkResult<R>;
  let stream: Observable<R> | undefined;
  try {
    input = client.send(request, attempt);
    if (isPromise(input)) return untilClosed(Promise.resolve(input).then(answered, failed), attempt, scheduler);
    if (!isObservable(input)) attempt.giveBack = slowly(scheduler);
    stream = streamOf<R>(input);
  } catch (error) {
    return failed(error);
  }
  return stream === undefined ? answered(input as R) : lastOf(stream, answered, attempt);
}

function lastOf<R, P>(answers: Observable<R>, answered: (answer: R) => P, attempt: ModelAttempt): Observable<P> {
  return new Observable((subscriber) => {
    let last: { readonly answer: R } | undefined;
    connect(answers, subscriber, {
      next: (answer) => {
        last = { answer };
      },
      error: (error) => {
        attempt.failed(error);
        subscriber.error(error);
      },
      complete: () => {
        if (last) subscriber.next(answered(last.answer));
        else attempt.done();
        subscriber.complete();
      },
    });
  });
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
  return new Observable((subscriber) => {
    const giveUp = (error: unknown): void => {
      attempt.failed(error);
      attempt.abort();
      subscriber.error(error);
    };
    const alarm = new Alarm(scheduler, () => {
      giveUp(new AttemptTimeoutError(NAME, silenceMs));
    });
    subscriber.add(() => {
      alarm.clear();
    });
    alarm.set(alarm.now() + silenceMs);
    try {
      const pieces = new PieceCounter();
      const chunks = open(request, attempt);
      if (!isObservable(chunks)) attempt.giveBack = slowly(scheduler);
      connect(chunksOf(chunks), subscriber, {
        next: (chunk) => {
          alarm.set(alarm.now() + silenceMs);
          try {
            note(client.usage, chunk, attempt);
            pieces.add(chunk);
            attempt.saw(pieces.tokens);
          } catch (error) {
            giveUp(error);
          }
          subscriber.next(chunk);
        },
        error: (error) => {
          attempt.failed(error);
          subscriber.error(error);
        },
        complete: () => {
          attempt.done();
          subscriber.complete();
        },
      });
    } catch (error) {
      giveUp(error);
    }
  });
}

function chunksOf<C>(input: ModelStream<C>): Observable<C> {
  return isObservable(input) ? input : fromStream(() => input);
}

function parsed<Q, R, P>(parse: (answer: R, request: Q) => P, answer: R, request: Q): P {
  try {
    return parse(answer, request);
  } catch (error) {
    throw new ParseFault(error, answer);
  }
}

function note<A>(usage: ((answer: A) => Usage | undefined) | undefined, answer: A, attempt: ModelAttempt): void {
  attempt.saw(0);
  const used = usage && ask(NAME, 'usage', usage, answer);
  if (used) attempt.settle(used);
}
