import type { SchedulerLike } from 'rxjs';
import { isObservable, Observable } from 'rxjs';
import { ask, check, connect, streamOf } from '../../../operators/build.js';
import type { Usage, WorkResult } from '../../../operators/index.js';
import { fromStream } from '../../../operators/index.js';
import { PieceCounter } from '../../account/piece-counter.js';
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
    try {
      const usage = usageOf(client.usage, answer);
      const result = parse === undefined ? (answer as unknown as P) : parsed(parse, answer, request, attempt, usage);
      attempt.done(usage);
      return result;
    } catch (error) {
      return failed(error);
    }
  };
  let input: WorkResult<R>;
  let stream: Observable<R> | undefined;
  try {
    input = client.send(request, attempt);
    if (check.isPromise(input)) return untilClosed(Promise.resolve(input).then(answered, failed), attempt, scheduler);
    if (!isObservable(input)) attempt.giveBack = slowly(scheduler);
    stream = streamOf<R>(input);
  } catch (error) {
    return failed(error);
  }
  return stream === undefined ? answered(input as R) : lastAnswer(stream, answered, attempt);
}

function lastAnswer<R, P>(answers: Observable<R>, answered: (answer: R) => P, attempt: ModelAttempt): Observable<P> {
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

/** Opens a stream. The client is told to stop when it is left, or silent for too long. */
export function openStream<Q, R, C>(
  client: Client<Q, R, C>,
  open: (request: Q, attempt: ModelAttempt) => ModelStream<C>,
  request: Q,
  attempt: ModelAttempt,
  scheduler: SchedulerLike,
): Observable<C> {
  return new Observable((subscriber) => {
    const failed = (error: unknown): void => {
      attempt.failed(error);
      subscriber.error(error);
    };
    try {
      const pieces = new PieceCounter(client.countTokens);
      const chunks = open(request, attempt);
      if (!isObservable(chunks)) attempt.giveBack = slowly(scheduler);
      connect(isObservable(chunks) ? chunks : fromStream(() => chunks), subscriber, {
        next: (chunk) => {
          try {
            const usage = usageOf(client.usage, chunk);
            attempt.saw(0);
            if (usage) attempt.settle(usage);
            pieces.add(chunk);
            attempt.saw(pieces.tokens);
          } catch (error) {
            failed(error);
          }
          subscriber.next(chunk);
        },
        error: failed,
        complete: () => {
          attempt.done();
          subscriber.complete();
        },
      });
    } catch (error) {
      failed(error);
    }
  });
}

function parsed<Q, R, P>(parse: (answer: R, request: Q) => P, answer: R, request: Q, attempt: ModelAttempt, usage: Usage | undefined): P {
  try {
    return parse(answer, request);
  } catch (error) {
    if (usage) attempt.settle(usage);
    throw new ParseFault(error, answer);
  }
}

function usageOf<A>(usage: ((answer: A) => Usage | undefined) | undefined, answer: A): Usage | undefined {
  return usage && ask(NAME, 'call.usage', usage, answer);
}
