import type { Subscriber } from 'rxjs';
import { Observable, Subscription } from 'rxjs';
import type { WorkResult } from '../../../operators/index.js';
import { slowly } from '../../pipelines/connection.js';
import type { AccountedCall } from './accounted-call.js';
import type { EnteredAttempt } from './entered-attempt.js';
import type { Held } from './held-rules.js';
import type { RelayedSignal } from './relayed-signal.js';
import { relayedSignal } from './relayed-signal.js';

/** How a call ends whose answer continues after it was handed over. */
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
  /** Aborts with the caller's signal. */
  readonly signal: AbortSignal | undefined;
  /** Says whether unread chunks remain after the end, so that the signal still matters to the reader. */
  unread(isUnread: boolean): void;
}

/** A call whose answer is a stream, or has one. */
export interface HeldCall<T> {
  open(attempt: EnteredAttempt): PromiseLike<T>;
  /** The answer for the caller, whose stream tells how it ends. */
  follow(answer: T, over: Over, attempt: EnteredAttempt): T;
  /** Discards an answer that came after the caller had left. */
  discard(answer: T): void;
}

/** What is needed until the answer is given, and forgotten then: all of it may lead to the answer. */
interface Asked<T> {
  readonly call: HeldCall<T>;
  readonly resolve: (answer: T) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Makes the call with its retries. The promise settles with the answer; the attempt and its signal last until the stream of the answer has
 * ended, has failed or was left, its permit until its connection is free. Nothing here holds the answer: it can be collected.
 */
export function heldCall<T>(held: Held, how: AccountedCall, call: HeldCall<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    new Holding(held, { call, resolve, reject }).start(how);
  });
}

class Holding<T> {
  readonly #held: Held;
  readonly #all = new Subscription();
  #asked: Asked<T> | undefined;
  #lane: string | undefined;
  #signal: RelayedSignal | undefined;
  #fault: { readonly error: unknown } | undefined;
  #faulty: ((error: unknown) => void) | undefined;
  #isOver = false;
  #isUnread = false;

  constructor(held: Held, asked: Asked<T>) {
    this.#held = held;
    this.#asked = asked;
  }

  start({ signal, ...how }: AccountedCall): void {
    this.#lane = how.job?.lane;
    // Another one is for the policy to refuse.
    const own = typeof signal?.addEventListener === 'function' ? relayedSignal(signal) : undefined;
    this.#signal = own;
    const calling = this.#held.policy((context) => this.#attempt(context), { ...how, ...(signal && { signal: own?.signal ?? signal }) });
    const error = (failure: unknown): void => {
      this.#fault = { error: failure };
      this.#asked?.reject(failure);
      this.#asked = undefined;
      this.#faulty?.(failure);
    };
    const over = calling.subscribe({ error });
    over.add(() => {
      this.#isOver = true;
      this.#unlisten();
    });
    this.#all.add(over);
  }

  #attempt(context: EnteredAttempt): Observable<void> {
    return new Observable((subscriber) => {
      const { call } = this.#asked as Asked<T>;
      const how = { isGiven: false, isWhole: false };
      const over = this.#over(subscriber, context, how);
      context.giveBack = slowly(this.#held.scheduler, this.#held.closeGraceMs);
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
            how.isGiven = true;
            this.#asked?.resolve(given);
            this.#asked = undefined;
            // There was nothing to follow.
            if (how.isWhole) subscriber.complete();
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
  }

  #over(subscriber: Subscriber<void>, context: EnteredAttempt, how: { readonly isGiven: boolean; isWhole: boolean }): Over {
    const held = this.#held;
    return {
      ended: () => {
        how.isWhole = true;
        context.giveBack = undefined;
        if (how.isGiven) subscriber.complete();
      },
      failed: (error) => {
        subscriber.error(error);
        return this.#fault ? this.#fault.error : error;
      },
      left: () => {
        this.#all.unsubscribe();
      },
      abandoned: () => {
        held.abandoned(this.#lane);
        this.#all.unsubscribe();
      },
      onFault: (listener) => {
        this.#faulty = listener;
        if (this.#fault) listener(this.#fault.error);
      },
      soon: (cut) => {
        const late = held.scheduler.schedule(() => {
          cut();
          subscriber.complete();
        }, held.closeGraceMs);
        subscriber.add(late);
      },
      signal: this.#signal?.signal,
      unread: (isUnread) => {
        this.#isUnread = isUnread;
        this.#unlisten();
      },
    };
  }

  #unlisten(): void {
    if (this.#isOver && !this.#isUnread) this.#signal?.stop();
  }
}

/** The same work, a promise, whose permit is kept for a moment when it is cut off. */
export function heldWork<R>(held: Held, work: (attempt: EnteredAttempt) => Promise<R>): (attempt: EnteredAttempt) => WorkResult<R> {
  return (attempt) => {
    attempt.giveBack = slowly(held.scheduler, held.closeGraceMs);
    const answer = work(attempt);
    const settled = (): void => {
      attempt.giveBack = undefined;
    };
    answer.then(settled, settled);
    return answer;
  };
}
