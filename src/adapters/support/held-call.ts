import { Observable, Subscription } from 'rxjs';
import type { AttemptPolicy, PolicyCallOptions } from '../../../operators/policy.js';
import type { PolicyContext } from '../../../operators/support/policing/attempt.js';
import { inContext } from '../../in-context.js';

/** How a call whose answer goes on after it was given comes to its end. */
export interface Over {
  /** The answer has been read to its end; at once, when there is nothing to read. */
  ended(): void;
  /** It broke off. Gives what its reader is to see: our own reason, when it was us who ended it. */
  failed(error: unknown): unknown;
  /** Its reader has had enough. */
  left(): void;
  /** Tells the last listener that it was us who ended it, or what `failed` was given: the answer may know nothing of our signal. */
  onFault(listener: (error: unknown) => void): void;
}

/** A call whose answer is a stream, or has one. */
export interface HeldCall<T> {
  open(attempt: PolicyContext): PromiseLike<T>;
  /** The answer for the caller, whose stream tells how it ends. */
  follow(answer: T, over: Over, attempt: PolicyContext): T;
  /** For an answer that came too late for anybody. */
  discard(answer: T): void;
}

/**
 * Makes the call with its retries. The promise settles with the answer; the attempt, its permit and its signal last until the stream of the
 * answer has ended, has failed or was left.
 */
export function heldCall<T>(policy: AttemptPolicy, how: PolicyCallOptions, call: HeldCall<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    // What fails need not be an Error.
    const refuse: (error: unknown) => void = reject;
    const open = inContext((context: PolicyContext) => call.open(context));
    const all = new Subscription();
    let fault: { readonly error: unknown } | undefined;
    let faulty: ((error: unknown) => void) | undefined;
    const attempt = (context: PolicyContext): Observable<T> =>
      new Observable((subscriber) => {
        let isGiven = false;
        let isWhole = false;
        const over: Over = {
          ended: () => {
            isWhole = true;
            if (isGiven) subscriber.complete();
          },
          failed: (error) => {
            subscriber.error(error);
            return fault ? fault.error : error;
          },
          left: () => {
            all.unsubscribe();
          },
          onFault: (listener) => {
            faulty = listener;
            if (fault) listener(fault.error);
          },
        };
        Promise.resolve(open(context))
          .then((answer) => {
            if (subscriber.closed) {
              call.discard(answer);
              return;
            }
            subscriber.next(call.follow(answer, over, context));
            isGiven = true;
            // There was nothing to follow.
            if (isWhole) subscriber.complete();
          })
          .catch((error: unknown) => {
            subscriber.error(error);
          });
      });
    all.add(
      policy(attempt, how).subscribe({
        next: resolve,
        error: (error: unknown) => {
          fault = { error };
          refuse(error);
          faulty?.(error);
        },
      }),
    );
  });
}

/** The same stream, read as slowly as its reader reads; `look` sees each chunk. */
export function followed<C>(stream: ReadableStream<C>, over: Over, look?: (chunk: C) => void): ReadableStream<C> {
  const reader = stream.getReader();
  let isLeft = false;
  return new ReadableStream<C>(
    {
      start(controller) {
        over.onFault((error) => {
          controller.error(error);
          reader.cancel(error).catch(() => undefined);
        });
      },
      async pull(controller) {
        try {
          const { done, value } = await reader.read();
          // The read that was under way when the reader left ends as if the stream had.
          if (isLeft) return;
          if (done) {
            over.ended();
            controller.close();
          } else {
            look?.(value);
            controller.enqueue(value);
          }
        } catch (error) {
          controller.error(over.failed(error));
        }
      },
      cancel(reason) {
        isLeft = true;
        const cancelled = reader.cancel(reason);
        // Not only when that is done: it may never be.
        over.left();
        return cancelled;
      },
    },
    { highWaterMark: 0 },
  );
}
