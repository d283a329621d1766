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

/** What is to be called when signals abort, with the signal's reason. */
export class AbortCalls {
  readonly #groups: SignalGroups<(reason: unknown) => void>;

  /** @param together is given the calls of one signal to make, when something has to be done around them */
  constructor(together: (makeCalls: () => void) => void = callDirectly) {
    this.#groups = new SignalGroups((calls, reason) => {
      together(() => {
        for (const stop of calls) stop(reason);
      });
    });
  }

  /** Stops something when the signal aborts, at once if it has already, unless its owner is over by then. */
  stop(signal: AbortSignal, owner: Subscription, stop: (reason: unknown) => void): void {
    if (owner.closed) return;
    if (signal.aborted) stop(signal.reason);
    else owner.add(this.#groups.add(signal, stop));
  }
}

function callDirectly(makeCalls: () => void): void {
  makeCalls();
}
