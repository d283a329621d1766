import type { Subscription } from 'rxjs';
import { onAbort } from './abort.js';

/** What signals cancel. Each signal gets one listener, however many members it cancels: Node warns of a leak above ten. */
export class SignalGroups<M> {
  readonly #groups = new Map<AbortSignal, { readonly members: Set<M>; readonly stopListening: () => void }>();
  readonly #aborted: (members: readonly M[], reason: unknown) => void;

  /** @param aborted ends all that a signal cancels, and takes each of them out */
  constructor(aborted: (members: readonly M[], reason: unknown) => void) {
    this.#aborted = aborted;
  }

  /** Has a signal that has not aborted cancel the member; the answer takes it out. */
  add(signal: AbortSignal, member: M): () => void {
    const { members, stopListening } = this.#groups.get(signal) ?? this.#make(signal);
    members.add(member);
    return () => {
      if (!members.delete(member) || members.size > 0) return;
      stopListening();
      this.#groups.delete(signal);
    };
  }

  #make(signal: AbortSignal) {
    const members = new Set<M>();
    const stopListening = onAbort(signal, () => {
      this.#aborted([...members], signal.reason);
    });
    const group = { members, stopListening };
    this.#groups.set(signal, group);
    return group;
  }
}

/**
 * Ends calls when their `AbortSignal` aborts. One object serves all calls of a handle. Each signal gets one listener, however many calls it ends:
 * Node warns of a leak above ten.
 *
 * - **Listens** from `stop` until the owner of the call is closed; then nothing of the call is left on the signal.
 * - **Ends** the calls of one signal synchronously, in the order in which they were added, each with `signal.reason`.
 * - **Errors:** what a function given to `stop` throws ends the loop over the calls of that signal, so none may throw.
 *
 * @beta
 * @example
 * ```ts
 * import { Observable } from 'rxjs';
 * import { AbortCalls } from 'sluice/operators/build';
 *
 * const signals = new AbortCalls();
 * const call = (signal: AbortSignal) => new Observable<never>((subscriber) => {
 *   signals.stop(signal, subscriber, (reason) => subscriber.error(reason));
 * });
 * const leaving = new AbortController();
 * const errors: unknown[] = [];
 * call(leaving.signal).subscribe({ error: (reason) => errors.push(reason) });
 * leaving.abort('left');
 * errors; // => ['left']
 * ```
 */
export class AbortCalls {
  readonly #groups: SignalGroups<(reason: unknown) => void>;

  /** @param together - calls the function that it is given, which ends all calls of one signal; for state that changes once around them. @defaultValue calls it */
  constructor(together: (makeCalls: () => void) => void = callDirectly) {
    this.#groups = new SignalGroups((calls, reason) => {
      together(() => {
        for (const stop of calls) stop(reason);
      });
    });
  }

  /** Calls `stop` with the reason when the signal aborts, at once if it has aborted already; not when `owner` is closed by then. */
  stop(signal: AbortSignal, owner: Subscription, stop: (reason: unknown) => void): void {
    if (owner.closed) return;
    if (signal.aborted) stop(signal.reason);
    else owner.add(this.#groups.add(signal, stop));
  }
}

function callDirectly(makeCalls: () => void): void {
  makeCalls();
}
