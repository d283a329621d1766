import { Observable, Subscription } from 'rxjs';
import type { PolicyCallOptions } from '../../../operators/policy.js';
import type { AttemptContext, AttemptWork, PolicyContext } from '../../../operators/support/policing/attempt.js';
import type { Held } from './held-rules.js';

/** How a call whose answer goes on after it was given comes to its end. */
export interface Over {
  /** The answer is here to its end; at once, when there is nothing to read. */
  ended(): void;
  /** It broke off. Gives what its reader is to see: our own reason, when it was us who ended it. */
  failed(error: unknown): unknown;
  /** Its reader has had enough. */
  left(): void;
  /** Its reader is gone without a word. */
  abandoned(): void;
  /** Tells the last listener that it was us who ended it, or what `failed` was given: the answer may know nothing of our signal. */
  onFault(listener: (error: unknown) => void): void;
  /** Calls back when an answer that has said its last word has had time enough for its end. */
  soon(cut: () => void): void;
  /** The signal of whoever asked: it also ends the reading of what is here. */
  readonly signal: AbortSignal | undefined;
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
 * Makes the call with its retries. The promise settles with the answer; the attempt and its signal last until the stream of the answer has
 * ended, has failed or was left, its permit until its connection is free. Nothing here holds the answer: it can be collected.
 */
export function heldCall<T>(held: Held, how: PolicyCallOptions, call: HeldCall<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    /** Forgotten when it is called: it holds the promise, and that the answer. */
    let settle: { readonly resolve: (answer: T) => void; readonly reject: (error: unknown) => void } | undefined = { resolve, reject };
    const all = new Subscription();
    let fault: { readonly error: unknown } | undefined;
    let faulty: ((error: unknown) => void) | undefined;
    const attempt = (context: AttemptContext): Observable<void> =>
      new Observable((subscriber) => {
        let isGiven = false;
        let isWhole = false;
        const over: Over = {
          ended: () => {
            isWhole = true;
            context.giveBack = undefined;
            if (isGiven) subscriber.complete();
          },
          failed: (error) => {
            subscriber.error(error);
            return fault ? fault.error : error;
          },
          left: () => {
            all.unsubscribe();
          },
          abandoned: () => {
            held.abandoned(how);
            all.unsubscribe();
          },
          onFault: (listener) => {
            faulty = listener;
            if (fault) listener(fault.error);
          },
          soon: (cut) => {
            subscriber.add(
              held.scheduler.schedule(() => {
                cut();
                subscriber.complete();
              }, held.closeGraceMs),
            );
          },
          signal: how.signal,
        };
        context.giveBack = slowly(held);
        Promise.resolve(call.open(context)).then(
          (answer) => {
            if (subscriber.closed) {
              call.discard(answer);
              return;
            }
            try {
              const given = call.follow(answer, over, context);
              // No value: what has passed through would be held until the end.
              subscriber.next();
              isGiven = true;
              settle?.resolve(given);
              settle = undefined;
              // There was nothing to follow.
              if (isWhole) subscriber.complete();
            } catch (error) {
              subscriber.error(error);
            }
          },
          (error: unknown) => {
            // Unless it was cut off, it has answered or was never reached.
            if (!subscriber.closed) context.giveBack = undefined;
            subscriber.error(error);
          },
        );
      });
    all.add(
      held.policy(attempt, how).subscribe({
        error: (error: unknown) => {
          fault = { error };
          settle?.reject(error);
          settle = undefined;
          faulty?.(error);
        },
      }),
    );
  });
}

/** The same work, a promise, whose permit is kept for a moment when it is cut off. */
export function heldWork<R>(held: Held, work: (attempt: PolicyContext) => Promise<R>): AttemptWork<R> {
  return (attempt) => {
    attempt.giveBack = slowly(held);
    const answer = work(attempt);
    const settled = (): void => {
      attempt.giveBack = undefined;
    };
    answer.then(settled, settled);
    return answer;
  };
}

/** Until the server has seen that a connection was closed. */
export function closing({ closeGraceMs, scheduler }: Held): Promise<void> {
  return new Promise((seen) => {
    scheduler.schedule(() => {
      seen();
    }, closeGraceMs);
  });
}

function slowly({ closeGraceMs, scheduler }: Held): AttemptContext['giveBack'] {
  if (closeGraceMs === 0) return undefined;
  return (release) => {
    scheduler.schedule(release, closeGraceMs);
  };
}
